package ref

import "math"

// NLL is -log softmax(logits)[token] in nats.
func NLL(logits []float32, token int) float64 {
	return -logSoftmax(logits)[token]
}

// logSoftmax is x - log(sum of exp(x)), by the largest x so that nothing overflows.
func logSoftmax(x []float32) []float64 {
	out := Widen(x)
	peak, sum := math.Inf(-1), 0.0
	for _, v := range out {
		peak = max(peak, v)
	}
	for _, v := range out {
		sum += math.Exp(v - peak)
	}
	for i := range out {
		out[i] -= peak + math.Log(sum)
	}
	return out
}
