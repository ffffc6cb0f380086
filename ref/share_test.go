package ref

import (
	"slices"
	"testing"
)

func TestHeadsShareByWhatTheyHave(t *testing.T) {
	for _, c := range []struct {
		name         string
		counts, have []int
		base, alpha  int
		want         []int
	}{
		{name: "the definition's example", counts: []int{5, 3}, have: []int{9, 9}, base: 4, alpha: 500, want: []int{5, 3}}, // 4.5 and 3.5
		{name: "all is the scores'", counts: []int{5, 3}, have: []int{9, 9}, base: 4, alpha: 0, want: []int{5, 3}},
		{name: "all is even", counts: []int{7, 1}, have: []int{9, 9}, base: 4, alpha: 1000, want: []int{4, 4}},
		{name: "a fifth is even", counts: []int{8, 0, 1}, have: []int{9, 9, 9}, base: 3, alpha: 200, want: []int{7, 1, 1}},                    // 7, 0.6, 1.4
		{name: "largest remainders", counts: []int{4, 3, 2}, have: []int{9, 9, 9}, base: 3, alpha: 300, want: []int{4, 3, 2}},                 // 3.7, 3, 2.3
		{name: "ties go to the lower head", counts: []int{6, 0, 0, 2}, have: []int{9, 9, 9, 9}, base: 2, alpha: 250, want: []int{5, 1, 0, 2}}, // 5, 0.5, 0.5, 2
		{name: "a head without so many tokens", counts: []int{2, 9, 7}, have: []int{2, 20, 20}, base: 6, alpha: 500, want: []int{2, 9, 7}},    // 4, 7.5, 6.5: two are left of the first
		{name: "a surplus goes round", counts: []int{0, 3, 12}, have: []int{1, 20, 20}, base: 5, alpha: 600, want: []int{1, 5, 9}},            // 3, 4.2, 7.8
		{name: "a surplus fills a second head", counts: []int{0, 1, 14}, have: []int{0, 4, 20}, base: 5, alpha: 600, want: []int{0, 4, 11}},
		{name: "a remainder that finds no room", counts: []int{2, 4}, have: []int{2, 9}, base: 3, alpha: 500, want: []int{2, 4}},
		{name: "all tokens fit", counts: []int{5, 2}, have: []int{5, 2}, base: 4, alpha: 500, want: []int{6, 2}},
		{name: "room for more", counts: []int{5, 0, 2}, have: []int{5, 0, 2}, base: 5, alpha: 500, want: []int{8, 3, 4}},
		{name: "just enough", counts: []int{5, 3}, have: []int{5, 3}, base: 4, alpha: 500, want: []int{5, 3}},
		{name: "nothing", counts: []int{0, 0}, have: []int{4, 4}, base: 0, alpha: 200, want: []int{0, 0}},
	} {
		if got := Divide(c.counts, c.have, c.base, c.alpha); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The definition's example with its scores, {9, 8, 7, 6, 5} and {4, 3, 2}: of the eight highest, five and three.
func TestShareCountsTheHighestOfAllHeads(t *testing.T) {
	p := linear(1, 2, 3, 4, 5, 9, 10, 0, 1, 2, 3, 9, 10)
	for i, score := range []float32{9, 8, 7, 6, 5, 0, 0, 1, 4, 3, 2, 50, 50} {
		p.Slots[i].Score = score
	}
	heads := []Head{{Live: 7, Recent: 2}, {Offset: 7, Live: 6, Recent: 2}}
	for alpha, want := range map[int][]int{0: {5 + 2, 3 + 2}, 500: {5 + 2, 3 + 2}, 1000: {4 + 2, 4 + 2}} {
		if got := p.Share(heads, 10, 4+2, alpha); !slices.Equal(got, want) {
			t.Errorf("alpha %d: %v, want %v", alpha, got, want)
		}
	}
	if got := p.Share(heads, 10, 2, 200); !slices.Equal(got, []int{2, 2}) {
		t.Errorf("a budget of the window: %v", got)
	}
	for i := range p.Slots {
		p.Slots[i].Score = 1 // of equal scores the newer ones are among the highest: 5, 4, 3 and 3
	}
	if got := p.Share(heads, 10, 2+2, 0); !slices.Equal(got, []int{3 + 2, 1 + 2}) {
		t.Errorf("equal scores: %v", got)
	}
}
