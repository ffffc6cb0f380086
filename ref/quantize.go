package ref

import "math"

// quantizedMost is the largest int8 that is used, on either side of zero.
const quantizedMost = 127

// Quantize is x / d rounded, and d = max |x| / 127, for every 32 elements of x: quantize.comp. d is not a number where not
// all x are finite.
func Quantize(x []float32) (q []int8, d []float32) {
	q, d = make([]int8, len(x)), make([]float32, len(x)/32)
	for block := range d {
		own, most, finite := x[32*block:][:32], float32(0), true
		for _, v := range own {
			most = max(most, float32(math.Abs(float64(v))))
			finite = finite && !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0)
		}
		if !finite {
			d[block] = float32(math.NaN())
			continue
		}
		d[block] = most / quantizedMost
		for i, v := range own {
			if most > 0 {
				q[32*block+i] = int8(math.RoundToEven(float64(v * (quantizedMost / most))))
			}
		}
	}
	return q, d
}

// Dequantize is what Quantize left of x.
func Dequantize(q []int8, d []float32) []float64 {
	x := make([]float64, len(q))
	for i, v := range q {
		x[i] = float64(v) * float64(d[i/32])
	}
	return x
}

// Pairs are rows of so many columns as quantize.comp leaves them: two rows' int8 to a word, block by block, and d of both.
// The last row of an odd number is beside zeros.
func Pairs(q []int8, d []float32, columns int) (words []uint32, scales []float32) {
	rows, blocks := len(q)/columns, columns/32
	words, scales = make([]uint32, (rows+1)/2*columns), make([]float32, (rows+1)/2*blocks*2)
	for row := range rows {
		for i := range columns {
			words[row/2*columns+i] += uint32(int32(q[row*columns+i])) << (row % 2 * 16)
		}
		for b := range blocks {
			scales[(row/2*blocks+b)*2+row%2] = d[row*blocks+b]
		}
	}
	return words, scales
}
