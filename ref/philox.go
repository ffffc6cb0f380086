package ref

import "math/bits"

// Philox is the Philox4x32-10 generator (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011): it has no state, so a shader that is
// given the same key and counter gets the same bits.
func Philox(counter [4]uint32, key [2]uint32) [4]uint32 {
	const (
		rounds       = 10
		mul0, mul1   = 0xD2511F53, 0xCD9E8D57
		weyl0, weyl1 = 0x9E3779B9, 0xBB67AE85 // golden ratio, sqrt(3) - 1
	)
	c, k0, k1 := counter, key[0], key[1]
	for range rounds {
		hi0, lo0 := bits.Mul32(mul0, c[0])
		hi1, lo1 := bits.Mul32(mul1, c[2])
		c = [4]uint32{hi1 ^ c[1] ^ k0, lo1, hi0 ^ c[3] ^ k1, lo0}
		k0, k1 = k0+weyl0, k1+weyl1
	}
	return c
}

// Uniform returns draw number index of a seed, strictly between 0 and 1: the
// middle of one of 2^32 equal parts. The seed is the key and the index the low
// half of the counter, low words first.
func Uniform(seed, index uint64) float64 {
	word := Philox([4]uint32{uint32(index), uint32(index >> 32)}, [2]uint32{uint32(seed), uint32(seed >> 32)})[0]
	return (float64(word) + 0.5) / (1 << 32)
}
