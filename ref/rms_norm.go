package ref

import "math"

// RMSNorm is y = x / sqrt(mean(x^2) + eps) * w for one row.
func RMSNorm(x, w []float32, eps float32) []float64 {
	y := Widen(x)
	scale := 1 / math.Sqrt(dot(y, y)/float64(len(y))+float64(eps))
	for i := range y {
		y[i] *= scale * float64(w[i])
	}
	return y
}
