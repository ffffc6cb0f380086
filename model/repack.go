package model

import (
	"encoding/binary"
	"math"

	"github.com/x448/float16"
)

// The repack functions take a block as the file has it and write its weights, 32 by 32, and its scales in the form that
// the type's block.glsl tells. Scales of 16 bits stand in words of their own here.

// repackWords keeps the weights as they are.
func repackWords(block []byte, words, _ []uint32) {
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(block[4*i:])
	}
}

// repackQ8 stores bytes 0 to 2 of each word with 128 added, so that the kernel can mask them where they stand.
func repackQ8(block []byte, words, scales []uint32) {
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(block[2+4*i:]) ^ 0x00808080
	}
	scales[0] = halfAsFloat(block)
}

// repackQ40 puts the nibbles in order of the columns; the scale becomes f32. IQ4_NL has the same form.
func repackQ40(block []byte, words, scales []uint32) {
	orderNibbles(block[2:], words)
	scales[0] = halfAsFloat(block)
}

// repackQ41 puts the nibbles in order of the columns; scale and minimum stay two f16.
func repackQ41(block []byte, words, scales []uint32) {
	orderNibbles(block[4:], words)
	scales[0] = binary.LittleEndian.Uint32(block)
}

// repackQ50 brings the fifth bits together with the others; the scale becomes f32.
func repackQ50(block []byte, words, scales []uint32) {
	packCodes(fiveBits(block[6:], binary.LittleEndian.Uint32(block[2:])), 5, words)
	scales[0] = halfAsFloat(block)
}

// repackQ51 brings the fifth bits together with the others; scale and minimum stay two f16.
func repackQ51(block []byte, words, scales []uint32) {
	packCodes(fiveBits(block[8:], binary.LittleEndian.Uint32(block[4:])), 5, words)
	scales[0] = binary.LittleEndian.Uint32(block)
}

// mxfp4Codes are what MXFP4's codes stand for, twice an e2m1 number, with 12 added.
var mxfp4Codes = [16]byte{12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0}

// repackMXFP4 replaces the codes by the numbers that they stand for. The scale, a power of two by its exponent, is halved
// because the numbers are doubled.
func repackMXFP4(block []byte, words, scales []uint32) {
	codes := fiveBits(block[1:], 0)
	for i, c := range codes {
		codes[i] = mxfp4Codes[c]
	}
	packCodes(codes, 5, words)
	scales[0] = math.Float32bits(float32(math.Ldexp(1, int(block[0])-128)))
}

// iq4nlValues are what IQ4_NL's codes stand for.
var iq4nlValues = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// repackIQ4NL replaces the codes by the numbers that they stand for, in the form of Q8_0.
func repackIQ4NL(block []byte, words, scales []uint32) {
	clear(words)
	for i, c := range fiveBits(block[2:], 0) {
		words[i/4] |= uint32(uint8(iq4nlValues[c])) << (i % 4 * 8)
	}
	for i := range words {
		words[i] ^= 0x00808080
	}
	scales[0] = halfAsFloat(block)
}

// halfAsFloat is the f16 at the head of a block as the bits of an f32.
func halfAsFloat(block []byte) uint32 {
	return math.Float32bits(float16.Frombits(binary.LittleEndian.Uint16(block)).Float32())
}

// fiveBits are the codes of 16 bytes whose low nibbles are columns 0 to 15 and high nibbles columns 16 to 31, with bit i of
// high above that of column i.
func fiveBits(b []byte, high uint32) (codes [blockColumns]byte) {
	for i := range 16 {
		codes[i] = b[i]&15 | byte(high>>i&1<<4)
		codes[i+16] = b[i]>>4 | byte(high>>(i+16)&1<<4)
	}
	return codes
}

// packCodes packs 32 codes of so many bits into as many words: as many whole codes as fit into each in order of the
// columns, and what is left spread over the words' top two bits.
func packCodes(codes [blockColumns]byte, bits int, words []uint32) {
	at := 0
	for w := range words {
		words[w] = 0
		for shift := 0; shift+bits <= 32; shift += bits {
			words[w] |= uint32(codes[at]) << shift
			at++
		}
	}
	if at == blockColumns {
		return
	}
	rest := uint32(codes[at]) | uint32(codes[at+1])<<bits
	for w := range words {
		words[w] |= rest >> (2 * w) & 3 << 30
	}
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
