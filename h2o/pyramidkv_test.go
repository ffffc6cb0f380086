package h2o

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func sum(values []int) (n int) {
	for _, v := range values {
		n += v
	}
	return n
}

// The paper's setting: 128 slots for each of 32 layers, of which the window takes 8.
func TestPyramidIsThePublishedOne(t *testing.T) {
	published, exact := Policy{Beta: 20, Published: true}, Policy{Beta: 20}
	budgets := published.pyramid(32, 128, 8, 8000)
	for l, n := range budgets {
		if want := 234 - 7*l + 8; n != want {
			t.Errorf("layer %d keeps %d slots, want %d", l, n, want)
		}
	}
	if mean := float64(sum(budgets)) / 32; mean != 133.5 {
		t.Errorf("the published rounding keeps %g slots in the mean, want 133.5", mean)
	}
	budgets = exact.pyramid(32, 128, 8, 8000)
	if sum(budgets) != 32*128 || budgets[0] != 234+8 || budgets[31] != 6+8 {
		t.Errorf("exact: %v, which sum to %d, want %d", budgets, sum(budgets), 32*128)
	}
	for l, n := range budgets {
		if exact := 234 - 228*float64(l)/31 + 8; float64(n) < exact-1 || float64(n) > exact+1 {
			t.Errorf("layer %d keeps %d slots, want %g rounded", l, n, exact)
		}
	}
}

func TestPyramidOfShortPrompts(t *testing.T) {
	for _, c := range []struct {
		name                           string
		layers, budget, window, tokens int
		published                      bool
		want                           []int
	}{
		{"the lowest layer keeps all", 4, 128, 8, 242, false, []int{242, 166, 90, 14}},
		{"a top cut off", 4, 128, 8, 240, false, []int{240, 165, 91, 16}},           // 232, 157.3, 82.7, 8 beside the window
		{"a top cut off, published", 4, 128, 8, 240, true, []int{240, 166, 92, 18}}, // whole steps of 74
		{"just two budgets", 4, 128, 8, 2 * 120, false, []int{240, 165, 91, 16}},    // not fewer than 2 base
		{"fewer than two budgets", 4, 128, 8, 2*120 - 1, false, []int{128, 128, 128, 128}},
		{"fewer than the budget", 4, 128, 8, 100, false, []int{128, 128, 128, 128}},
		{"fewer than the window", 4, 128, 8, 5, true, []int{128, 128, 128, 128}},
		{"one token", 4, 128, 8, 1, false, []int{128, 128, 128, 128}},
		{"one layer", 1, 128, 8, 8000, false, []int{128}},
		{"two layers", 2, 128, 8, 8000, false, []int{234 + 8, 6 + 8}},
		{"nothing beside the window", 3, 8, 8, 8000, false, []int{8, 8, 8}},
		{"one slot beside the window", 3, 9, 8, 8000, false, []int{10, 9, 8}},
	} {
		p := Policy{Beta: 20, Published: c.published}
		if got := p.pyramid(c.layers, c.budget, c.window, c.tokens); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Whatever the setting, all layers together keep the budget, none keeps less than the window or more than there is, and a
// higher layer never keeps more than a lower one.
func TestPyramidsKeepTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		layers, window := rapid.IntRange(1, 130).Draw(t, "layers"), rapid.IntRange(1, 64).Draw(t, "window")
		budget, tokens := window+rapid.IntRange(0, 5000).Draw(t, "base"), rapid.IntRange(1, 40_000).Draw(t, "tokens")
		p := Policy{Beta: rapid.IntRange(1, 60).Draw(t, "beta")}
		all := p.pyramid(layers, budget, window, tokens)
		if got := sum(all); got != layers*budget {
			t.Fatalf("%v sum to %d, want %d", all, got, layers*budget)
		}
		for i, n := range all {
			if n < window || n > max(budget, tokens) || i > 0 && n > all[i-1] {
				t.Fatalf("layer %d of %v", i, all)
			}
		}
		p.Published = true
		for i, n := range p.pyramid(layers, budget, window, tokens) {
			if n < window || n > max(budget, tokens) {
				t.Fatalf("layer %d keeps %d with the published rounding", i, n)
			}
		}
	})
}

func TestApportionGivesTheRestToTheLargestFractions(t *testing.T) {
	for _, c := range []struct {
		total         int
		weights, want []int
	}{
		{10, []int{1, 1, 1}, []int{4, 3, 3}}, {5, []int{3, 2, 2}, []int{2, 2, 1}}, // 2.14, 1.43, 1.43
		{7, []int{0, 5, 0}, []int{0, 7, 0}}, {0, []int{1, 2}, []int{0, 0}}, {8, []int{9, 7}, []int{5, 3}}, // 4.5 and 3.5
	} {
		if got := apportion(c.total, c.weights); !slices.Equal(got, c.want) {
			t.Errorf("%d by %v: %v, want %v", c.total, c.weights, got, c.want)
		}
	}
}
