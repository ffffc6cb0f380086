package gguf

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/x448/float16"
)

// Dequantize turns blocks of type t into 32-bit floats: len(dst) elements from exactly the bytes
// that hold them. The results equal those of the gguf Python package bit for bit. Where a product is
// added to something it is not rounded, an 11-bit scale times at most 11 bits of scale and code, so
// fused multiply-add changes nothing.
func Dequantize(t Type, src []byte, dst []float32) error {
	expand := expansions[t]
	if expand == nil {
		return errorf("weight type %v is not supported, want one of %s", t, strings.Join(expandable(), " "))
	}
	block, size := int(t.BlockSize()), int(t.BlockBytes())
	if len(dst)%block != 0 || len(src) != len(dst)/block*size {
		return errorf("dequantize %v: %d bytes into %d elements, want %d bytes for every %d elements", t, len(src), len(dst), size, block)
	}
	expand(src, dst)
	return nil
}

// expansions holds the types we can compute with. Each function gets whole blocks.
var expansions = map[Type]func(src []byte, dst []float32){
	F32: expandF32, F16: expandF16, BF16: expandBF16, Q8_0: expandQ8_0,
	Q4_0: expandQ4_0, Q4_1: expandQ4_1, Q5_0: expandQ5_0, Q5_1: expandQ5_1, IQ4_NL: expandIQ4_NL, MXFP4: expandMXFP4,
	Q2_K: expandQ2_K, Q3_K: expandQ3_K, Q4_K: expandQ4_K, Q5_K: expandQ5_K, Q6_K: expandQ6_K,
}

// expandable lists the names of the types we can compute with.
func expandable() (names []string) {
	for i := range layouts {
		if t := Type(i); expansions[t] != nil {
			names = append(names, t.String())
		}
	}
	return names
}

func expandF32(src []byte, dst []float32) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func expandF16(src []byte, dst []float32) {
	for i := range dst {
		dst[i] = half(src[2*i:])
	}
}

// BF16 is the upper half of an f32.
func expandBF16(src []byte, dst []float32) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
}

// Q8_0: scale d f16, 32 codes int8. x = d q.
func expandQ8_0(src []byte, dst []float32) {
	for ; len(dst) > 0; src, dst = src[34:], dst[32:] {
		d := half(src)
		for i, q := range src[2:34] {
			dst[i] = d * float32(int8(q))
		}
	}
}

// In the types below 16 bytes hold the low four bits of 32 codes: byte i those of element i in
// its lower half, those of element i + 16 in its upper half.

// Q4_0: scale d f16, codes. x = d (q - 8).
func expandQ4_0(src []byte, dst []float32) {
	for ; len(dst) > 0; src, dst = src[18:], dst[32:] {
		d := half(src)
		for i, q := range src[2:18] {
			dst[i] = d * float32(int(q&15)-8)
			dst[i+16] = d * float32(int(q>>4)-8)
		}
	}
}

// Q4_1: scale d f16, minimum m f16, codes. x = d q + m.
func expandQ4_1(src []byte, dst []float32) {
	for ; len(dst) > 0; src, dst = src[20:], dst[32:] {
		d, m := half(src), half(src[2:])
		for i, q := range src[4:20] {
			dst[i] = d*float32(q&15) + m
			dst[i+16] = d*float32(q>>4) + m
		}
	}
}

// Q5_0: scale d f16, fifth bits uint32 (bit i of element i), codes. x = d (q - 16).
func expandQ5_0(src []byte, dst []float32) {
	for ; len(dst) > 0; src, dst = src[22:], dst[32:] {
		d, high := half(src), binary.LittleEndian.Uint32(src[2:])
		for i, q := range src[6:22] {
			dst[i] = d * float32(int(uint32(q&15)|high>>i&1<<4)-16)
			dst[i+16] = d * float32(int(uint32(q>>4)|high>>(i+16)&1<<4)-16)
		}
	}
}

// Q5_1: scale d f16, minimum m f16, fifth bits uint32 (bit i of element i), codes. x = d q + m.
func expandQ5_1(src []byte, dst []float32) {
	for ; len(dst) > 0; src, dst = src[24:], dst[32:] {
		d, m, high := half(src), half(src[2:]), binary.LittleEndian.Uint32(src[4:])
		for i, q := range src[8:24] {
			dst[i] = d*float32(uint32(q&15)|high>>i&1<<4) + m
			dst[i+16] = d*float32(uint32(q>>4)|high>>(i+16)&1<<4) + m
		}
	}
}

// What the codes of IQ4_NL and of MXFP4 stand for; those of MXFP4 are twice e2m1 numbers.
var (
	valuesIQ4_NL = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	valuesMXFP4  = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
)

// IQ4_NL: scale d f16, codes. x = d values[q].
func expandIQ4_NL(src []byte, dst []float32) {
	for ; len(dst) > 0; src, dst = src[18:], dst[32:] {
		expandValues(half(src), &valuesIQ4_NL, src[2:18], dst)
	}
}

// MXFP4: exponent e uint8, codes. x = 2^(e - 128) values[q], half of the power because the values are doubled.
func expandMXFP4(src []byte, dst []float32) {
	for ; len(dst) > 0; src, dst = src[17:], dst[32:] {
		expandValues(float32(math.Ldexp(1, int(src[0])-128)), &valuesMXFP4, src[1:17], dst)
	}
}

func expandValues(d float32, values *[16]float32, codes []byte, dst []float32) {
	for i, q := range codes {
		dst[i] = d * values[q&15]
		dst[i+16] = d * values[q>>4]
	}
}

// half reads an f16.
func half(src []byte) float32 {
	return float16.Frombits(binary.LittleEndian.Uint16(src)).Float32()
}
