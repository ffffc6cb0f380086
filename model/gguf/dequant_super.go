package gguf

// The K-quants have super-blocks of 256 elements: integer scales for each 16 or 32 of them, which an
// f16 of the super-block multiplies. Codes lie in layers: 32 bytes (64 in Q6_K) have some bits of as many
// elements, above these the same bits of the next elements, until the bytes are full.

// Q2_K: 16 bytes of scale s and minimum m, four bits each; codes of two bits; d, dmin f16.
// x = d s q - dmin m.
func expandQ2_K(src []byte, dst []float32) {
	for ; len(dst) > 0; src, dst = src[84:], dst[256:] {
		d, dmin := half(src[80:]), half(src[82:])
		for i := range 256 {
			q := src[16+i/128*32+i%32] >> (i / 32 % 4 * 2) & 3
			s := src[i/16]
			dst[i] = d*float32(s&15)*float32(q) - dmin*float32(s>>4)
		}
	}
}

// Q3_K: third bits of the codes; their two low bits; 16 scales s of six bits; d f16. x = d (s - 32) (q - 4).
func expandQ3_K(src []byte, dst []float32) {
	for ; len(dst) > 0; src, dst = src[110:], dst[256:] {
		d, packed := half(src[108:]), src[96:108]
		for i := range 256 {
			q := src[32+i/128*32+i%32]>>(i/32%4*2)&3 | src[i%32]>>(i/32)&1<<2
			n := i / 16
			s := packed[n%8]>>(n/8*4)&15 | packed[8+n%4]>>(n/4*2)&3<<4
			dst[i] = d * float32(int(s)-32) * float32(int(q)-4)
		}
	}
}

// Q4_K: d, dmin f16; 12 bytes of eight scales s and minima m, six bits each; codes of four bits.
// x = d s q - dmin m.
func expandQ4_K(src []byte, dst []float32) {
	for ; len(dst) > 0; src, dst = src[144:], dst[256:] {
		d, dmin := half(src), half(src[2:])
		for n := range 8 {
			s, m := scaleAndMinimum(src[4:16], n)
			for i, q := range src[16+n/2*32:][:32] {
				dst[32*n+i] = d*s*float32(q>>(n%2*4)&15) - dmin*m
			}
		}
	}
}

// Q5_K: as Q4_K, with the fifth bits of the codes before their four low bits.
func expandQ5_K(src []byte, dst []float32) {
	for ; len(dst) > 0; src, dst = src[176:], dst[256:] {
		d, dmin := half(src), half(src[2:])
		for n := range 8 {
			s, m := scaleAndMinimum(src[4:16], n)
			for i, q := range src[48+n/2*32:][:32] {
				dst[32*n+i] = d*s*float32(q>>(n%2*4)&15|src[16+i]>>n&1<<4) - dmin*m
			}
		}
	}
}

// scaleAndMinimum are number n of Q4_K and Q5_K. Bytes 0 to 3 have scales 0 to 3, bytes 4 to 7 the minima; their top two
// bits belong to scales and minima 4 to 7, whose low bits are the nibbles of bytes 8 to 11.
func scaleAndMinimum(packed []byte, n int) (s, m float32) {
	if n < 4 {
		return float32(packed[n] & 63), float32(packed[n+4] & 63)
	}
	return float32(packed[n+4]&15 | packed[n-4]>>6<<4), float32(packed[n+4]>>4 | packed[n]>>6<<4)
}

// Q6_K: the four low bits of the codes; their two high bits; 16 scales s int8; d f16. x = d s (q - 32).
func expandQ6_K(src []byte, dst []float32) {
	for ; len(dst) > 0; src, dst = src[210:], dst[256:] {
		d := half(src[208:])
		for i := range 256 {
			q := src[i/128*64+i%64]>>(i/64%2*4)&15 | src[128+i/128*32+i%32]>>(i/32%4*2)&3<<4
			dst[i] = d * float32(int8(src[192+i/16])) * float32(int(q)-32)
		}
	}
}
