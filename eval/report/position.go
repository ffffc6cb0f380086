package report

import (
	"fmt"
	"math"
	"slices"

	"vkdecode/eval"
)

const (
	maxPanels  = 12   // budgets with a picture of their own
	maxColumns = 100  // settings in the table by position
	maxStretch = 2000 // rows of that table
)

// byPosition plots perplexity along the text, a panel for each budget: as it is, or relative to that of full.
func (g *passage) byPosition(l legend, relative bool) *figure {
	reference := g.bucketsOfFull()
	f := &figure{
		Title: "Perplexity by position in the text",
		Note:  "The mean over each stretch of tokens.",
		Table: g.positionTable(nil),
	}
	yTitle, above := "perplexity, lower is better", 0.0
	if relative {
		f = &figure{
			Title: "Increase of perplexity by position",
			Note:  "Against the full cache over the same tokens, which takes out what is hard in the text itself.",
			Table: g.positionTable(reference),
		}
		yTitle, above = "increase of perplexity over full, %", anyValue
	}
	points := func(r *eval.Perplexity) (spots []spot) {
		for _, b := range r.Buckets {
			y, text := b.PPL, "perplexity "+number(b.PPL, 4)
			if relative {
				full, ok := reference[[2]int{b.Begin, b.End}]
				if !ok || isFull(r.Setting) {
					continue
				}
				y = (b.PPL/full - 1) * 100
				text = increase(y) + " against full"
			}
			spots = append(spots, spot{(float64(b.Begin) + float64(b.End)) / 2, y, fmt.Sprintf("%s, tokens %s to %s: %s",
				g.varying.title(r.Setting), integer(b.Begin), integer(b.End-1), text)})
		}
		return spots
	}
	type view struct {
		budget string
		lines  []line
	}
	var views []view
	var all []line
	dropped := 0
	names := budgets(g.rows, func(r *eval.Perplexity) eval.Setting { return r.Setting })
	if len(names) == 0 {
		names = []string{""}
	}
	for _, name := range names[:min(len(names), maxPanels)] {
		lines, n := drawn(g.curves(l, func(r *eval.Perplexity) bool { return isFull(r.Setting) || budget(r.Setting) == name }, points), above)
		dropped += n
		if len(lines) > 0 {
			views = append(views, view{name, lines})
			all = append(all, lines...)
		}
	}
	ys := values(all, func(s spot) float64 { return s.y })
	xs := values(all, func(s spot) float64 { return s.x })
	if len(xs) == 0 || slices.Min(xs) == slices.Max(xs) {
		return nil // one stretch is the perplexity of the whole
	}
	p := plot{xTitle: "position in the text, tokens", yTitle: yTitle, xs: linear{0, float64(max(1, g.end()))}, ys: courseScale(ys)}
	if relative {
		p.ys = scaleFor(append(ys, 0), -100)
	}
	noted := false
	reading := join(dashed(all), explain(p.ys, "vertical"), omitted(dropped), beyond(len(names), maxPanels, "budget"))
	for _, v := range views {
		p.label = f.Title + "; the figures are in the table below."
		if v.budget != "" {
			p.label = f.Title + " at a budget of " + v.budget + "; the figures are in the table below."
		}
		p.lines, p.notes = v.lines, nil
		if at := g.slots(v.budget); at > 0 {
			p.notes = []note{{float64(at), fmt.Sprintf("%s slots reached", integer(at))}}
		}
		noted = noted || p.notes != nil
		f.add("", panel{Title: v.budget, Drawing: p.draw()})
	}
	if noted {
		f.Note = join(f.Note, "The thin upright line is where the budget is reached and eviction begins.")
	}
	f.Note = join(f.Note, reading)
	return f
}

// courseScale is logarithmic where values lie far apart: a text has hard and easy stretches, so there is no gap to break at.
func courseScale(ys []float64) scale {
	if lo := slices.Min(ys); lo > 1/largest && slices.Max(ys) > 2*lo {
		return newLogarithmic(ys, 0.05)
	}
	return newLinear(ys, 0.07)
}

// end is where the last stretch ends.
func (g *passage) end() (end int) {
	for _, r := range g.rows {
		for _, b := range r.Buckets {
			end = max(end, b.End)
		}
	}
	return end
}

// bucketsOfFull has the perplexity of full over each stretch.
func (g *passage) bucketsOfFull() map[[2]int]float64 {
	of := map[[2]int]float64{}
	if g.full == nil {
		return of
	}
	for _, b := range g.full.Buckets {
		if b.PPL > 0 && !math.IsInf(b.PPL, 0) {
			of[[2]int{b.Begin, b.End}] = b.PPL
		}
	}
	return of
}

// slots is how many slots a budget means; 0 if the policies do not agree.
func (g *passage) slots(name string) int {
	n := 0
	for _, r := range g.rows {
		if !isFull(r.Setting) && budget(r.Setting) == name {
			if n != 0 && n != r.BudgetSlots {
				return 0
			}
			n = r.BudgetSlots
		}
	}
	return n
}

// positionTable has the figures of the plots by position: a row for each stretch, a column for each setting. With a
// reference it has increases over it.
func (g *passage) positionTable(reference map[[2]int]float64) *table {
	t := &table{Title: "Perplexity by position", Heads: []string{"tokens"}}
	if reference != nil {
		t.Title = "Increase of perplexity by position"
	}
	var rows []row
	at := map[[2]int]int{} // place of a stretch in rows
	columns := 0
	pad := func(r *row) {
		for len(r.Cells) < columns {
			r.Cells = append(r.Cells, field{Text: absent})
		}
	}
	for _, r := range g.rows {
		if !r.Complete || len(r.Buckets) == 0 || reference != nil && isFull(r.Setting) {
			continue
		}
		if columns == maxColumns {
			t.Caption = "Only the first settings have room here."
			break
		}
		t.Heads = append(t.Heads, short(g.varying.title(r.Setting), 40))
		for _, b := range r.Buckets {
			key := [2]int{b.Begin, b.End}
			i, ok := at[key]
			if !ok && len(rows) == maxStretch {
				t.Caption = "Only the first stretches have room here."
				continue
			}
			if !ok {
				i = len(rows)
				at[key] = i
				rows = append(rows, row{Name: fmt.Sprintf("%s to %s", integer(b.Begin), integer(b.End-1))})
			}
			text := number(b.PPL, 4)
			if full, ok := reference[key]; reference != nil && ok {
				text = increase((b.PPL/full - 1) * 100)
			} else if reference != nil {
				text = absent
			}
			pad(&rows[i])
			rows[i].Cells = append(rows[i].Cells[:columns], field{Text: text})
		}
		columns++
	}
	for i := range rows {
		pad(&rows[i])
	}
	t.Bodies = []body{{Rows: rows}}
	return t
}
