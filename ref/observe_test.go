package ref

import (
	"slices"
	"testing"
)

func TestRingsKeepTheLastQueriesOfAPrompt(t *testing.T) {
	o := Observation{Window: 3}
	rings := make([]int, 2*3)
	rows := func(seq, first, count int) (rows []Row) {
		for i := range count {
			rows = append(rows, Row{Seq: seq, Pos: 50 + first + i, Place: first + i})
		}
		return rows
	}
	Observe(o, rings, []int{10, 11, 12, 13, 14, 20}, 1, append(rows(0, 0, 5), rows(1, 0, 1)...))
	if !slices.Equal(rings, []int{13, 14, 12, 20, 0, 0}) {
		t.Errorf("after a chunk: %v", rings)
	}
	Observe(o, rings, []int{15}, 1, rows(0, 5, 1)) // the window straddles chunks
	if !slices.Equal(rings, []int{13, 14, 15, 20, 0, 0}) {
		t.Errorf("after another: %v", rings)
	}
}

func TestGivenSumsOverQueries(t *testing.T) {
	if got := Given([][]float64{{1, 2, 3}, {0.5, 0, 1}}, 3); !near(got, []float64{1.5, 2, 4}) {
		t.Errorf("%v", got)
	}
}

// The definition's numbers, pooled around each of them, which is not its forward pooling: that of 4.1 at the second place
// has its right neighbour, not the one behind it.
func TestPoolingIsCentredAndEndsBeforeTheWindow(t *testing.T) {
	sums := []float64{1.5, 0.8, 4.1, 7.7, 3.6, 7.4, 9, 0.5}
	for _, c := range []struct {
		name string
		o    Observation
		want []float64
	}{
		{"max", Observation{Window: 2, Kernel: 3}, []float64{1.5, 4.1, 7.7, 7.7, 7.7, 7.4, 9, 0.5}},
		{"max of five", Observation{Window: 2, Kernel: 5}, []float64{4.1, 7.7, 7.7, 7.7, 7.7, 7.7, 9, 0.5}},
		{"avg divides by the kernel at the edges", Observation{Window: 2, Kernel: 3, Average: true}, []float64{2.3 / 3, 6.4 / 3, 12.6 / 3, 15.4 / 3, 18.7 / 3, 11. / 3, 9, 0.5}},
		{"avg of more than there are", Observation{Window: 6, Kernel: 7, Average: true}, []float64{2.3 / 7, 2.3 / 7, 4.1, 7.7, 3.6, 7.4, 9, 0.5}},
		{"one token", Observation{Window: 2, Kernel: 1}, sums},
		{"all in the window", Observation{Window: 20, Kernel: 3}, sums},
	} {
		if got := c.o.Scores([][]float64{sums}, ReduceSum); !near(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Each query head is pooled for itself, then the group is taken together.
func TestHeadsArePooledBeforeTheyAreTakenTogether(t *testing.T) {
	o := Observation{Window: 1, Kernel: 3}
	given := [][]float64{{4, 0, 0, 1}, {0, 0, 6, 3}}
	for reduce, want := range map[int][]float64{ReduceSum: {4, 10, 6, 4}, ReduceMean: {2, 5, 3, 2}, ReduceMax: {4, 6, 6, 3}} {
		if got := o.Scores(given, reduce); !near(got, want) {
			t.Errorf("reduction %d: %v, want %v", reduce, got, want)
		}
	}
}
