package report

import (
	"fmt"
	"slices"

	"vkdecode/eval"
)

// place is a setting in the plot of memory against quality.
type place struct {
	share, worse float64 // of full's memory; increase of perplexity in percent
	row          *eval.Perplexity
}

// front is what nothing beats: no other place has less of one without more of the other. Least memory first.
func front(places []place) (best []place) {
	sorted := slices.Clone(places)
	slices.SortStableFunc(sorted, func(a, b place) int {
		switch {
		case a.share < b.share, a.share == b.share && a.worse < b.worse:
			return -1
		case a.share == b.share && a.worse == b.worse:
			return 0
		}
		return 1
	})
	for _, p := range sorted {
		last := len(best) - 1
		if last < 0 || p.worse < best[last].worse || p.worse == best[last].worse && p.share == best[last].share {
			best = append(best, p)
		}
	}
	return best
}

// memory plots what each setting costs in quality against the memory that it takes.
func (g *passage) memory(l legend) *figure {
	var places []place
	lines, dropped := drawn(g.curves(l, func(r *eval.Perplexity) bool { return drawable(g.increase(r)) && drawable(g.share(r)) },
		func(r *eval.Perplexity) []spot {
			return []spot{{g.share(r) * 100, g.increase(r), g.tip(r)}}
		}), anyValue)
	for _, r := range g.rows {
		if p := (place{g.share(r), g.increase(r), r}); drawable(p.share) && drawable(p.worse) {
			places = append(places, p)
		}
	}
	shares := values(lines, func(s spot) float64 { return s.x })
	if len(shares) < 2 || slices.Max(shares) < 1.05*slices.Min(shares) {
		return nil // one amount of memory has nothing to be weighed against
	}
	best := front(places)
	p := plot{
		label: fmt.Sprintf("Memory against quality, %s, %d of them on the front; the figures are in the table of settings.",
			counted(len(places), "setting"), len(best)),
		xTitle: "memory of keys and values, % of full",
		yTitle: "increase of perplexity over full, %",
		xs:     linear{0, max(103, slices.Max(shares)*1.03)},
		ys:     scaleFor(append(values(lines, func(s spot) float64 { return s.y }), 0), -100),
		lines:  lines,
		inside: true,
	}
	if lo := slices.Min(shares); lo < 4 {
		p.xs = newLogarithmic(shares, 0.05)
	}
	p.under = func(f *frame) { f.front(best) }
	return &figure{
		Title: "Memory against quality",
		Note: join("Left and low is better. A ring marks a setting that no other beats in both; the stepped line through the rings is the Pareto front.",
			explain(p.ys, "vertical"), explain(p.xs, "horizontal"), omitted(dropped)),
		Groups: single(p.draw()),
	}
}

// front draws the stepped line through the places that nothing beats, and a ring around each.
func (f *frame) front(best []place) {
	var steps []point
	last := 0.0
	for _, p := range best {
		x, y := f.x(p.share*100), f.y(p.worse)
		if steps != nil {
			steps = append(steps, point{x, last})
		}
		steps = append(steps, point{x, y})
		last = y
	}
	f.path("front", polyline(steps), "")
	for _, p := range best {
		f.path("ring", outline(0, f.x(p.share*100), f.y(p.worse), radius+4), "")
	}
}
