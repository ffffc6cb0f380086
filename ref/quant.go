package ref

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/x448/float16"
)

// Block is how a weight type cuts a row in a file.
type Block struct {
	Weights int // 32, or 256 in the super-blocks of K-quants
	Bytes   int
}

// Blocks are the weight types; those without blocks are counted in 32 weights.
var Blocks = map[string]Block{
	"f32": {32, 128}, "f16": {32, 64}, "bf16": {32, 64}, "q8_0": {32, 34}, "q4_0": {32, 18}, "q4_1": {32, 20},
	"q5_0": {32, 22}, "q5_1": {32, 24}, "iq4_nl": {32, 18}, "mxfp4": {32, 17},
	"q2_k": {256, 84}, "q3_k": {256, 110}, "q4_k": {256, 144}, "q5_k": {256, 176}, "q6_k": {256, 210},
}

// Weights are the values of a file's bytes, which are whole blocks.
func Weights(weightType string, raw []byte) []float64 {
	var out []float64
	size := blockOf(weightType)
	for at := 0; at < len(raw); at += size.Bytes {
		for j := range size.Weights {
			out = append(out, weight(weightType, raw[at:at+size.Bytes], j))
		}
	}
	return out
}

// weight is number j of a block: shaders/quant/<type>/block.glsl says the formula, here it is in the file's layout.
func weight(weightType string, block []byte, j int) float64 {
	q := float64(code(weightType, block, j))
	switch weightType {
	case "f32":
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(block[4*j:])))
	case "f16":
		return half(block, 2*j)
	case "bf16":
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(block[2*j:])) << 16))
	case "q8_0":
		return half(block, 0) * q
	case "q4_0":
		return half(block, 0) * (q - 8)
	case "q4_1", "q5_1":
		return half(block, 0)*q + half(block, 2)
	case "q5_0":
		return half(block, 0) * (q - 16)
	case "iq4_nl":
		return half(block, 0) * nonLinear[code(weightType, block, j)]
	case "mxfp4":
		return math.Ldexp(e2m1[code(weightType, block, j)], int(block[0])-127)
	}
	d, dmin := superScales(weightType, block)
	scale, minimum := subScales(weightType, block, j)
	offset := map[string]float64{"q3_k": 4, "q6_k": 32}[weightType]
	return d*scale*(q-offset) - dmin*minimum
}

// nonLinear are the values of IQ4_NL, e2m1 those of MXFP4: a sign, two bits of exponent and one of the fraction.
var (
	nonLinear = [16]float64{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	e2m1      = [16]float64{0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6}
)

// code is the integer that stands for weight j of a block.
func code(weightType string, block []byte, j int) int {
	switch weightType {
	case "q8_0":
		return int(int8(block[2+j]))
	case "q4_0", "iq4_nl":
		return nibble(block[2:], j)
	case "mxfp4":
		return nibble(block[1:], j)
	case "q4_1":
		return nibble(block[4:], j)
	case "q5_0":
		return nibble(block[6:], j) + 16*bit(block[2:], j)
	case "q5_1":
		return nibble(block[8:], j) + 16*bit(block[4:], j)
	}
	return superCode(weightType, block, j)
}

// nibble is weight j of 16 bytes, whose low halves are weights 0 to 15 and whose high halves are 16 to 31.
func nibble(b []byte, j int) int {
	if j < 16 {
		return int(b[j] & 15)
	}
	return int(b[j-16] >> 4)
}

func bit(b []byte, j int) int { return int(b[j/8] >> (j % 8) & 1) }

func half(b []byte, at int) float64 {
	return float64(float16.Frombits(binary.LittleEndian.Uint16(b[at:])).Float32())
}

func blockOf(weightType string) Block {
	size, ok := Blocks[weightType]
	if !ok {
		panic(fmt.Sprintf("ref: weight type %q is unknown", weightType))
	}
	return size
}
