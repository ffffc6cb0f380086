package ref

// Super-blocks of K-quants, 256 weights: the codes in layers of a few bits, for each 16 or 32 weights an integer scale,
// of some types a minimum too, and for all of them d and dmin.

// superCode is the code of weight j.
func superCode(weightType string, block []byte, j int) int {
	switch weightType {
	case "q2_k":
		return layer(block[16:80], 32, 2, j)
	case "q3_k":
		return layer(block[32:96], 32, 2, j) + 4*layer(block[:32], 32, 1, j)
	case "q4_k":
		return layer(block[16:144], 32, 4, j)
	case "q5_k":
		return layer(block[48:176], 32, 4, j) + 16*layer(block[16:48], 32, 1, j)
	case "q6_k":
		return layer(block[:128], 64, 4, j) + 16*layer(block[128:192], 32, 2, j)
	}
	return 0 // types without codes
}

// layer is what bytes hold of weight j, so many bits: `width` bytes have the first bits of as many weights, above them the
// same of the next weights, until they are full.
func layer(b []byte, width, bits, j int) int {
	perByte := 8 / bits
	run := j / width
	return int(b[run/perByte*width+j%width]) >> (run % perByte * bits) & (1<<bits - 1)
}

// superScales are d and dmin, zero for types without minima.
func superScales(weightType string, block []byte) (d, dmin float64) {
	switch weightType {
	case "q2_k":
		return half(block, 80), half(block, 82)
	case "q3_k":
		return half(block, 108), 0
	case "q6_k":
		return half(block, 208), 0
	}
	return half(block, 0), half(block, 2)
}

// subScales are the integers that d and dmin are multiplied by for weight j.
func subScales(weightType string, block []byte, j int) (scale, minimum float64) {
	switch weightType {
	case "q2_k":
		return float64(block[j/16] & 15), float64(block[j/16] >> 4)
	case "q3_k":
		n := j / 16
		return float64(layer(block[96:104], 8, 4, n) + 16*layer(block[104:108], 4, 2, n) - 32), 0
	case "q6_k":
		return float64(int8(block[192+j/16])), 0
	}
	packed, n := block[4:16], j/32 // q4_k and q5_k
	if n < 4 {
		return float64(packed[n] % 64), float64(packed[n+4] % 64)
	}
	return float64(packed[n+4]%16 + packed[n-4]/64*16), float64(packed[n+4]/16 + packed[n]/64*16)
}
