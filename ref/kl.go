package ref

import "math"

// KL is the divergence KL(softmax(full) || softmax(logits)) in nats.
func KL(full, logits []float32) (sum float64) {
	f, x := logSoftmax(full), logSoftmax(logits)
	for i := range f {
		sum += math.Exp(f[i]) * (f[i] - x[i])
	}
	return sum
}
