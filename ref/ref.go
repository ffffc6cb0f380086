// Package ref holds the kernels' CPU twins: plain Go with sums in float64, a file for each kernel, written to be read
// beside the shader. A twin says what a kernel must compute, not how: it knows nothing of workgroups, splits into tiles or
// padding. It is a measure for tests and self-tests, never a second way to run a model.
package ref

// Row is one token of one sequence. Rows of a sequence lie together in a step, by ascending position.
type Row struct {
	Token, Seq, Pos int
	Place           int // in the prompt
}

// rowsOf are the first row of a sequence in a step and their number.
func rowsOf(rows []Row, seq int) (first, count int) {
	for i, r := range rows {
		if r.Seq == seq {
			if count == 0 {
				first = i
			}
			count++
		}
	}
	return first, count
}

// Widen is x in float64.
func Widen(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
