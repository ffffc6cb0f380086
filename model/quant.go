package model

import (
	"encoding/binary"
	"math"

	"github.com/x448/float16"

	"vkdecode/model/gguf"
)

// blockColumns is the number of columns in a block of every repacked weight type, whatever the file's own blocks are.
const blockColumns = 32

// weightType is how a weight type is repacked for the kernels: shaders/quant/<name>/block.glsl is its other half.
type weightType struct {
	name   string // of the kernels' variant
	quads  int    // uvec4 per block of 32 weights
	scaled bool   // has a scale plane
	bytes  int    // of 32 weights in the file
	repack func(block []byte, words []uint32) (scale uint32)
}

// weightTypes are the weight types that run. One row each; the kernels' half is a folder in shaders/quant.
var weightTypes = map[gguf.Type]weightType{
	gguf.F32:  {"f32", 8, false, 128, repackWords},
	gguf.F16:  {"f16", 4, false, 64, repackWords},
	gguf.BF16: {"bf16", 4, false, 64, repackWords},
	gguf.Q8_0: {"q8_0", 2, true, 34, repackQ8},
	gguf.Q4_0: {"q4_0", 1, true, 18, repackQ40},
	gguf.Q4_1: {"q4_1", 1, true, 20, repackQ41},
}

// repackWords keeps the weights as they are.
func repackWords(block []byte, words []uint32) uint32 {
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(block[4*i:])
	}
	return 0
}

// repackQ8 stores bytes 0 to 2 of each word with 128 added, so that the kernel can mask them where they stand.
func repackQ8(block []byte, words []uint32) uint32 {
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(block[2+4*i:]) ^ 0x00808080
	}
	return math.Float32bits(float16.Frombits(binary.LittleEndian.Uint16(block)).Float32())
}

// repackQ40 puts the nibbles in order of the columns; the scale becomes f32.
func repackQ40(block []byte, words []uint32) uint32 {
	orderNibbles(block[2:], words)
	return math.Float32bits(float16.Frombits(binary.LittleEndian.Uint16(block)).Float32())
}

// repackQ41 puts the nibbles in order of the columns; scale and minimum stay two f16.
func repackQ41(block []byte, words []uint32) uint32 {
	orderNibbles(block[4:], words)
	return binary.LittleEndian.Uint32(block)
}

// orderNibbles turns 16 bytes whose low nibbles are columns 0 to 15 and high nibbles columns 16 to 31 into four words
// of eight columns each.
func orderNibbles(b []byte, words []uint32) {
	first, second := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	words[0], words[1] = lowNibbles(first), lowNibbles(second)
	words[2], words[3] = lowNibbles(first>>4), lowNibbles(second>>4)
}

// lowNibbles gathers the low nibble of each byte.
func lowNibbles(v uint64) uint32 {
	v &= 0x0F0F0F0F0F0F0F0F
	v = (v | v>>4) & 0x00FF00FF00FF00FF
	v = (v | v>>8) & 0x0000FFFF0000FFFF
	return uint32(v | v>>16)
}
