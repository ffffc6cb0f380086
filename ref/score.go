package ref

// Score adds to the scores of a head's first live slots the probabilities that queries gave them, (queries, live): those
// of the head's group in all rows of its sequence (H2O, arXiv 2306.14048). Other updates leave the scores alone.
func (p *Pool) Score(h Head, live int, probabilities [][]float64) []float64 {
	scores := make([]float64, live)
	for i := range scores {
		scores[i] = float64(p.Slots[h.Offset+i].Score)
		if h.Update != UpdateAdd {
			continue
		}
		for _, query := range probabilities {
			scores[i] += query[i]
		}
	}
	return scores
}
