package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"vkdecode/eval"
)

// curves gathers the complete rows into series, by name, in the order of the legend.
func (g *passage) curves(l legend, keep func(*eval.Perplexity) bool, points func(*eval.Perplexity) []spot) []line {
	var lines []line
	for _, r := range g.rows {
		if !r.Complete || !keep(r) {
			continue
		}
		name := g.varying.series(r.Setting)
		at := slices.IndexFunc(lines, func(l line) bool { return l.name == name })
		if at < 0 {
			at = len(lines)
			lines = append(lines, line{name: name, style: l.of(name, isFull(r.Setting))})
		}
		lines[at].points = append(lines[at].points, points(r)...)
	}
	return lines
}

// tip is what hovering over a point of r says.
func (g *passage) tip(r *eval.Perplexity) string {
	text := fmt.Sprintf("%s: perplexity %s", g.varying.title(r.Setting), number(r.PPL, 4))
	if up := g.increase(r); drawable(up) && r != g.full {
		text += ", " + increase(up) + " against full"
	}
	if share := g.share(r); drawable(share) {
		text += ", " + percent(share) + " of the memory"
	}
	return text
}

// byBudget plots perplexity over budgets, a line for each policy. With one budget a line would be a point: then the
// policies stand below each other.
func (g *passage) byBudget(l legend) *figure {
	always := func(*eval.Perplexity) bool { return true }
	lines, dropped := drawn(g.curves(l, always, func(r *eval.Perplexity) []spot {
		return []spot{{g.amount(r), r.PPL, g.tip(r)}}
	}), 0)
	if !slices.ContainsFunc(lines, func(l line) bool { return !l.style.reference }) {
		return nil
	}
	if len(budgets(g.rows, func(r *eval.Perplexity) eval.Setting { return r.Setting })) == 1 {
		return g.atOneBudget(l, dashed(lines))
	}
	var amounts []float64
	for i := range lines {
		if lines[i].style.reference {
			lines[i].across = true
			continue
		}
		for _, s := range lines[i].points {
			amounts = append(amounts, s.x)
		}
	}
	p := plot{
		label:  fmt.Sprintf("Perplexity by budget, %s; the figures are in the table of settings.", counted(len(lines), "line")),
		xTitle: "budget, and slots per KV head",
		yTitle: "perplexity, lower is better",
		xs:     newLinear(amounts, 0.04),
		ys:     scaleFor(values(lines, func(s spot) float64 { return s.y }), 0),
		lines:  lines,
	}
	if lo, hi := slices.Min(amounts), slices.Max(amounts); lo > 0 && hi > 5*lo {
		p.xs = newLogarithmic(amounts, 0.04)
	}
	if p.ticks, p.second = g.budgetTicks(); p.second == nil {
		p.xTitle = "budget, of the bytes of the full cache"
	}
	return &figure{
		Title:  "Perplexity by budget",
		Note:   join(dashed(lines), explain(p.ys, "vertical"), explain(p.xs, "horizontal"), omitted(dropped)),
		Groups: single(p.draw()),
	}
}

// amount is how much a budget is: its slots, or the share of bytes where all budgets are given as one.
func (g *passage) amount(r *eval.Perplexity) float64 {
	if !g.inBytes {
		return float64(r.BudgetSlots)
	}
	share, _ := byteShare(r.Setting)
	return share
}

// byteShare is a budget such as 20%B, in percent.
func byteShare(s eval.Setting) (float64, bool) {
	text, ok := strings.CutSuffix(s.Budget, "%B")
	share, err := strconv.ParseFloat(text, 64)
	return share, ok && err == nil && drawable(share)
}

// budgetTicks names each budget below the axis, and how many slots it means, unless that depends on the type.
func (g *passage) budgetTicks() (ticks []tick, slots []string) {
	seen := map[float64]bool{}
	for _, r := range g.rows {
		at := g.amount(r)
		if isFull(r.Setting) || !r.Complete || seen[at] {
			continue
		}
		seen[at] = true
		ticks = append(ticks, tick{at, budget(r.Setting)})
		slots = append(slots, integer(r.BudgetSlots))
	}
	if g.inBytes {
		slots = nil
	}
	return ticks, slots
}

func (g *passage) atOneBudget(l legend, reference string) *figure {
	var rows []dot
	for _, r := range g.rows {
		if r.Complete {
			name := g.varying.series(r.Setting)
			text := number(r.PPL, 4)
			if up := g.increase(r); drawable(up) && r != g.full {
				text += " (" + increase(up) + ")"
			}
			rows = append(rows, dot{name: name, style: l.of(name, isFull(r.Setting)), value: r.PPL, text: text, title: g.tip(r)})
		}
	}
	slices.SortStableFunc(rows, func(a, b dot) int {
		if a.style.reference != b.style.reference || a.value == b.value {
			return 0
		}
		if a.value < b.value {
			return -1
		}
		return 1
	})
	p := dots{label: "Perplexity of each policy; the figures are in the table of settings.", title: "perplexity, lower is better", rows: rows}
	d, dropped, xs := p.draw()
	name := budgets(g.rows, func(r *eval.Perplexity) eval.Setting { return r.Setting })[0]
	return &figure{
		Title:  "Perplexity at " + name,
		Note:   join(reference, explain(xs, "horizontal"), omitted(dropped)),
		Groups: single(d),
	}
}
