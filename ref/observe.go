package ref

// Observation judges a prompt by its last queries: SnapKV, arXiv 2404.14469.
type Observation struct {
	Window  int  // last queries that are observed, and last tokens, which are not pooled
	Kernel  int  // tokens that are pooled, centred: an odd number
	Average bool // pool by the mean, not the maximum
}

// Observe keeps the queries of the last tokens of each prompt: that of the token at place p of the prompt takes place p mod
// Window of the sequence's ring. q is (rows, width), rings (sequences, Window, width).
func Observe[T any](o Observation, rings, q []T, width int, rows []Row) {
	for i, row := range rows {
		first, count := rowsOf(rows, row.Seq)
		if last := rows[first+count-1].Pos; row.Pos > last-o.Window {
			copy(rings[(row.Seq*o.Window+row.Place%o.Window)*width:][:width], q[i*width:])
		}
	}
}

// Given is the sum over queries of the probabilities that they gave each slot, (queries, live).
func Given(probabilities [][]float64, live int) []float64 {
	sums := make([]float64, live)
	for _, p := range probabilities {
		addTo(sums, 1, p)
	}
	return sums
}

// Scores are those of a head's tokens, which are in order of position: for each query head of the group, (heads, live),
// what the observed queries gave is pooled, then the heads are taken together.
func (o Observation) Scores(given [][]float64, reduce int) []float64 {
	live := len(given[0])
	scores := make([]float64, live)
	for _, sums := range given {
		for i, v := range o.pooled(sums) {
			if reduce == ReduceMax {
				scores[i] = max(scores[i], v)
				continue
			}
			scores[i] += v
		}
	}
	for i := range scores {
		if reduce == ReduceMean {
			scores[i] /= float64(len(given))
		}
	}
	return scores
}

// pooled are the maxima or means over neighbours before the window. Beyond the ends there is nothing: a mean counts it as
// zero and divides by Kernel all the same.
func (o Observation) pooled(sums []float64) []float64 {
	out := append([]float64{}, sums...)
	before := sums[:max(0, len(sums)-o.Window)]
	for i := range before {
		sum, most := 0.0, 0.0
		for n := i - o.Kernel/2; n <= i+o.Kernel/2; n++ {
			if n >= 0 && n < len(before) {
				sum, most = sum+before[n], max(most, before[n])
			}
		}
		if out[i] = most; o.Average {
			out[i] = sum / float64(o.Kernel)
		}
	}
	return out
}
