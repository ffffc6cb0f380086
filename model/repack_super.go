package model

import "encoding/binary"

// The blocks of K-quants: 256 weights whose scales are small integers for each 16 or 32 of them, times an f16 of the
// super-block. Below, n is the number of 32 weights in the super-block; word 8 of the scales is the super-block's.

// repackQ2K: 16 bytes of scale and minimum, four bits each; codes; d, dmin. 32 bytes hold the codes of 128 weights, two
// bits of each 32.
func repackQ2K(block []byte, words, scales []uint32) {
	for n := range 8 {
		packCodes(twoBits(block[16:], n), 2, words[2*n:][:2])
		scales[n] = uint32(binary.LittleEndian.Uint16(block[2*n:]))
	}
	scales[8] = binary.LittleEndian.Uint32(block[80:])
}

// repackQ3K: 32 bytes of third bits, one bit of each 32 weights; codes as in Q2_K; 16 scales of six bits, less 32; d.
func repackQ3K(block []byte, words, scales []uint32) {
	packed := block[96:108]
	scale := func(i int) uint32 {
		low, high := packed[i%8]>>(i/8*4)&15, packed[8+i%4]>>(i/4*2)&3
		return uint32(uint8(low|high<<4) - 32)
	}
	for n := range 8 {
		codes := twoBits(block[32:], n)
		for i, b := range block[:32] {
			codes[i] |= b >> n & 1 << 2
		}
		packCodes(codes, 3, words[3*n:][:3])
		scales[n] = scale(2*n) | scale(2*n+1)<<8
	}
	scales[8] = uint32(binary.LittleEndian.Uint16(block[108:]))
}

// repackQ4K: d, dmin; eight scales and minima of six bits; codes. 32 bytes hold the codes of 64 weights, four bits of each 32.
func repackQ4K(block []byte, words, scales []uint32) {
	for n := range 8 {
		b, shift := block[16+n/2*32:], n%2*4
		for i := range 4 {
			words[4*n+i] = lowNibbles(binary.LittleEndian.Uint64(b[8*i:]) >> shift)
		}
		scales[n] = sixBits(block[4:16], n)
	}
	scales[8] = binary.LittleEndian.Uint32(block)
}

// repackQ5K: as Q4_K, with 32 bytes of fifth bits before the codes, one bit of each 32 weights.
func repackQ5K(block []byte, words, scales []uint32) {
	for n := range 8 {
		var codes [blockColumns]byte
		for i := range codes {
			codes[i] = block[48+n/2*32+i]>>(n%2*4)&15 | block[16+i]>>n&1<<4
		}
		packCodes(codes, 5, words[5*n:][:5])
		scales[n] = sixBits(block[4:16], n)
	}
	scales[8] = binary.LittleEndian.Uint32(block)
}

// repackQ6K: the low four bits of the codes, 64 bytes for 128 weights; their high two bits as in Q2_K; 16 scales of
// eight bits; d.
func repackQ6K(block []byte, words, scales []uint32) {
	for n := range 8 {
		codes := twoBits(block[128:], n)
		for i := range codes {
			codes[i] = block[n/4*64+n%2*32+i]>>(n%4/2*4)&15 | codes[i]<<4
		}
		packCodes(codes, 6, words[6*n:][:6])
		scales[n] = uint32(binary.LittleEndian.Uint16(block[192+2*n:]))
	}
	scales[8] = uint32(binary.LittleEndian.Uint16(block[208:]))
}

// twoBits are the codes of 32 weights where 32 bytes hold those of 128, two bits of each 32.
func twoBits(b []byte, n int) (codes [blockColumns]byte) {
	for i := range codes {
		codes[i] = b[n/4*32+i] >> (n % 4 * 2) & 3
	}
	return codes
}

// sixBits is scale n of Q4_K and Q5_K in the low byte, and minimum n above it. Of the first four the bytes hold six bits
// each, and in their top bits two of the last four, whose other four bits stand in the last bytes.
func sixBits(packed []byte, n int) uint32 {
	if n < 4 {
		return uint32(packed[n]&63) | uint32(packed[n+4]&63)<<8
	}
	scale, minimum := packed[n+4]&15|packed[n-4]>>6<<4, packed[n+4]>>4|packed[n]>>6<<4
	return uint32(scale) | uint32(minimum)<<8
}
