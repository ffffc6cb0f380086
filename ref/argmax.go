package ref

// Argmax is the id of the largest logit, the lower one where they are equal.
func Argmax(logits []float32) int {
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	return best
}
