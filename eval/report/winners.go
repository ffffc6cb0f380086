package report

import (
	"math"
	"slices"
	"strings"
)

// direction says which figures are better.
type direction int

const (
	neither direction = iota
	lower
	higher
)

// better is whether a is better than b.
func (d direction) better(a, b float64) bool {
	return d == lower && a < b || d == higher && a > b
}

// entry is the figure of one policy at one budget.
type entry struct {
	budget, name string
	value        float64
	text         string // the figure in words
}

const manyBudgets = 4 // a sentence has no room for more

// winners says which policy is best at each budget: superlative is what stands before "h2o at 20%". Where no budget has
// two policies to choose from, plain stands there instead.
func winners(superlative, plain string, entries []entry, d direction) string {
	var parts, names []string
	contest := false
	for _, e := range entries {
		if !slices.Contains(names, e.budget) && drawable(e.value) {
			names = append(names, e.budget)
		}
	}
	for _, name := range names[:min(len(names), manyBudgets)] {
		best, text := math.NaN(), ""
		var who []string
		for _, e := range entries {
			switch {
			case e.budget != name || !drawable(e.value):
				continue
			case len(who) == 0 || d.better(e.value, best):
				contest = contest || len(who) > 0
				best, text, who = e.value, e.text, nil
			default:
				contest = true
				if e.value != best {
					continue
				}
			}
			who = append(who, short(e.name, 40))
		}
		parts = append(parts, listed(who)+" at "+name+" with "+text)
	}
	if len(parts) == 0 {
		return ""
	}
	if contest {
		plain = superlative
	}
	return plain + ": " + strings.Join(parts, "; ") + "."
}
