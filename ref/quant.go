package ref

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/x448/float16"
)

// BlockBytes is the size of 32 weights in a file, by weight type.
var BlockBytes = map[string]int{"f32": 128, "f16": 64, "bf16": 64, "q8_0": 34, "q4_0": 18, "q4_1": 20}

// Weights are the values of a file's bytes, which are whole blocks of 32 weights.
func Weights(weightType string, raw []byte) []float64 {
	var out []float64
	size := blockBytes(weightType)
	for at := 0; at < len(raw); at += size {
		for j := range 32 {
			out = append(out, weight(weightType, raw[at:at+size], j))
		}
	}
	return out
}

// weight is number j of a block: shaders/quant/<type>/block.glsl says the formula, here it is in the file's layout.
func weight(weightType string, block []byte, j int) float64 {
	d := func() float64 { return half(block, 0) }
	switch weightType {
	case "f32":
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(block[4*j:])))
	case "f16":
		return half(block, 2*j)
	case "bf16":
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(block[2*j:])) << 16))
	case "q8_0":
		return d() * float64(int8(block[2+j]))
	case "q4_0":
		return d() * float64(nibble(block[2:], j)-8)
	case "q4_1":
		return d()*float64(nibble(block[4:], j)) + half(block, 2)
	}
	panic(fmt.Sprintf("ref: weight type %q is unknown", weightType))
}

// nibble is weight j of 16 bytes, whose low halves are weights 0 to 15 and whose high halves are 16 to 31.
func nibble(b []byte, j int) int {
	if j < 16 {
		return int(b[j] & 15)
	}
	return int(b[j-16] >> 4)
}

func half(b []byte, at int) float64 {
	return float64(float16.Frombits(binary.LittleEndian.Uint16(b[at:])).Float32())
}

func blockBytes(weightType string) int {
	size, ok := BlockBytes[weightType]
	if !ok {
		panic(fmt.Sprintf("ref: weight type %q is unknown", weightType))
	}
	return size
}
