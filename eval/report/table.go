package report

import (
	"math"
	"slices"

	"vkdecode/eval"
)

// table is rows of text under headings. The first column names the row.
type table struct {
	Number  int // 0: none, as inside a figure
	Title   string
	Caption string
	Heads   []string
	Bodies  []body
}

// body is the rows of one budget.
type body struct {
	Title string // none: no heading
	Rows  []row
}

type row struct {
	Name  string
	Note  string // after the name: what is wrong with the row
	Full  bool   // the reference
	Cells []field
}

type field struct {
	Text string
	Best bool
}

// column makes the cells of one column from rows of type T.
type column[T any] struct {
	head string
	good direction
	of   func(T) float64 // what is compared; NaN: absent
	show func(T) string
}

// newTable makes a table with a body for each budget. A column without any figure is left out. The best figure of each
// budget is marked where there is a choice: two or more complete rows of which not all are best.
func newTable[T any](title, caption string, rows []T, setting func(T) eval.Setting, name func(T) string, complete func(T) bool, columns []column[T]) *table {
	columns = slices.DeleteFunc(columns, func(c column[T]) bool {
		return !slices.ContainsFunc(rows, func(r T) bool { return !math.IsNaN(c.of(r)) })
	})
	if slices.ContainsFunc(rows, func(r T) bool { return !complete(r) }) {
		caption = join(caption, "Interrupted: the figures are of what was done so far, and are not compared or drawn.")
	}
	t := &table{Title: title, Heads: []string{"policy"}}
	for _, c := range columns {
		t.Heads = append(t.Heads, c.head)
	}
	marked := false
	for from := 0; from < len(rows); {
		title := budget(setting(rows[from]))
		to := from
		for to < len(rows) && budget(setting(rows[to])) == title {
			to++
		}
		b := body{Title: title}
		group := rows[from:to]
		for i, r := range group {
			line := row{Name: short(name(r), 60), Full: isFull(setting(r))}
			if !complete(r) {
				line.Note = "interrupted"
			}
			for _, c := range columns {
				cell := field{c.show(r), !line.Full && c.best(group, i, complete)}
				marked = marked || cell.Best
				line.Cells = append(line.Cells, cell)
			}
			b.Rows = append(b.Rows, line)
		}
		t.Bodies = append(t.Bodies, b)
		from = to
	}
	if marked {
		t.Caption = "Bold: the best of its budget."
	}
	t.Caption = join(t.Caption, caption)
	return t
}

// best is whether no row of the group beats row i in this column, and row i beats at least one.
func (c column[T]) best(group []T, i int, complete func(T) bool) bool {
	mine, beats := c.of(group[i]), false
	if c.good == neither || math.IsNaN(mine) || !complete(group[i]) {
		return false
	}
	for _, r := range group {
		v := c.of(r)
		if math.IsNaN(v) || !complete(r) {
			continue
		}
		if c.good.better(v, mine) {
			return false
		}
		beats = beats || c.good.better(mine, v)
	}
	return beats
}

func pointed(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// measured is v, or NaN for a zero that only means that nothing was measured.
func measured(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}

// figureOf makes a column of numbers with a number of digits.
func figureOf[T any](head string, good direction, digits int, of func(T) float64) column[T] {
	return column[T]{head, good, of, func(r T) string { return number(of(r), digits) }}
}

func shareOf[T any](head string, good direction, of func(T) float64) column[T] {
	return column[T]{head, good, of, func(r T) string { return percent(of(r)) }}
}

func countOf[T any](head string, of func(T) float64) column[T] {
	return column[T]{head, neither, of, func(r T) string {
		if v := of(r); drawable(v) {
			return fixed(v, 0)
		}
		return absent
	}}
}

// settingsTable is the perplexity of every policy at every budget.
func (g *passage) settingsTable() *table {
	type P = *eval.Perplexity
	columns := []column[P]{
		countOf("slots", func(p P) float64 { return measured(float64(p.BudgetSlots)) }),
		figureOf("perplexity", lower, 4, func(p P) float64 { return measured(p.PPL) }),
		{"against full", lower, g.increase, func(p P) string {
			if p == g.full {
				return "reference"
			}
			return increase(g.increase(p))
		}},
		figureOf("after the budget", lower, 4, func(p P) float64 { return pointed(p.PPLAfterBudget) }),
		figureOf("last half", lower, 4, func(p P) float64 { return measured(p.PPLLastHalf) }),
		figureOf("KL, nats", lower, 3, func(p P) float64 { return pointed(p.KL) }),
		{"K and V, MiB", lower, func(p P) float64 { return measured(float64(p.BytesHeld)) }, func(p P) string {
			return mebibytes(measured(float64(p.BytesHeld)))
		}},
		shareOf("of full", lower, g.share),
		figureOf("tokens/s", higher, 3, func(p P) float64 { return measured(p.TPS) }),
	}
	if slices.ContainsFunc(g.rows, func(p P) bool { return !p.Complete }) {
		columns = slices.Insert(columns, 1, countOf("tokens", func(p P) float64 { return float64(p.Tokens) }))
	}
	caption := ""
	if slices.ContainsFunc(g.rows, func(p P) bool { return p.PPLAfterBudget != nil }) {
		caption = join(caption, "After the budget: of the tokens that came when the cache was full.")
	}
	if slices.ContainsFunc(g.rows, func(p P) bool { return p.KL != nil }) {
		caption = join(caption, "KL: how far the model's predictions are from those with the full cache.")
	}
	return newTable("Perplexity by policy and budget", caption,
		g.rows, func(p P) eval.Setting { return p.Setting }, func(p P) string { return g.varying.series(p.Setting) },
		func(p P) bool { return p.Complete }, columns)
}
