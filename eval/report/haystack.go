package report

import (
	"fmt"
	"math"
	"slices"

	"vkdecode/eval"
)

// haystack is the recall in one text: figures that may be compared.
type haystack struct {
	model, device, text string
	varying             varying
	rows                []*eval.Recall // full first, then by budget
}

// haystacks puts together what may be compared, in order of appearance.
func haystacks(rows []eval.Recall) []*haystack {
	var all []*haystack
	for i := range rows {
		r := &rows[i]
		at := slices.IndexFunc(all, func(h *haystack) bool { return h.model == r.Model && h.device == r.Device && h.text == r.Text })
		if at < 0 {
			at = len(all)
			all = append(all, &haystack{model: r.Model, device: r.Device, text: r.Text})
		}
		all[at].rows = append(all[at].rows, r)
	}
	for _, h := range all {
		var settings []eval.Setting
		for _, r := range h.rows {
			settings = append(settings, r.Setting)
		}
		h.varying = differences(settings)
		sortBySetting(h.rows, func(r *eval.Recall) eval.Setting { return r.Setting })
	}
	return all
}

// heatmap is the recall under one setting, by depth and context.
type heatmap struct {
	name, budget   string
	full           bool
	cells          map[[2]int]*cell // by places in the haystack's depths and contexts
	needles, found int
	partial        bool // a part of it was interrupted
	outside        int  // results at depths or contexts for which a map has no room
}

// cell is the recall at one depth and context.
type cell struct{ needles, found int }

func (c cell) rate() float64 { return rate(c.found, c.needles) }

func rate(n, of int) float64 {
	if of <= 0 {
		return math.NaN()
	}
	return min(1, max(0, float64(n)/float64(of)))
}

// maxSide and maxMaps are far more than can be read.
const (
	maxSide = 32  // depths and contexts of a map
	maxMaps = 100 // settings
)

// grid lists the depths and contexts that were measured, ascending, as many as a map can have.
func (h *haystack) grid() (depths []float64, contexts []int) {
	for _, r := range h.rows {
		if drawable(r.Depth) && !slices.Contains(depths, r.Depth) {
			depths = append(depths, r.Depth)
		}
		if !slices.Contains(contexts, r.Context) {
			contexts = append(contexts, r.Context)
		}
	}
	slices.Sort(depths)
	slices.Sort(contexts)
	return depths[:min(len(depths), maxSide)], contexts[:min(len(contexts), maxSide)]
}

// maps gathers the rows by setting, in their order.
func (h *haystack) maps() []*heatmap {
	depths, contexts := h.grid()
	var maps []*heatmap
	for _, r := range h.rows {
		if r.Needles <= 0 || !drawable(r.Depth) {
			continue
		}
		name, at := h.varying.series(r.Setting), budget(r.Setting)
		i := slices.IndexFunc(maps, func(m *heatmap) bool { return m.name == name && m.budget == at })
		if i < 0 {
			i = len(maps)
			maps = append(maps, &heatmap{name: name, budget: at, full: isFull(r.Setting), cells: map[[2]int]*cell{}})
		}
		m := maps[i]
		m.needles += r.Needles
		m.found += r.Found
		m.partial = m.partial || !r.Complete
		place := [2]int{slices.Index(depths, r.Depth), slices.Index(contexts, r.Context)}
		if place[0] < 0 || place[1] < 0 {
			m.outside++
			continue
		}
		if m.cells[place] == nil {
			m.cells[place] = &cell{}
		}
		m.cells[place].needles += r.Needles
		m.cells[place].found += r.Found
	}
	return maps
}

// title names the setting.
func (m *heatmap) title() string {
	if m.full {
		return m.name
	}
	return m.name + " at " + m.budget
}

// finding names the policies that find most.
func (h *haystack) finding() string {
	var entries []entry
	full := ""
	for _, m := range h.maps() {
		share := rate(m.found, m.needles)
		if m.full {
			full = " The full cache finds " + percent(share) + "."
			continue
		}
		entries = append(entries, entry{m.budget, m.name, share, percent(share)})
	}
	text := winners("Most needles found", "Needles found", entries, higher)
	if text == "" {
		return ""
	}
	return text + full
}

// table has the figures of the maps: a row for each setting and context, a column for each depth.
func (h *haystack) table() *table {
	depths, contexts := h.grid()
	t := &table{Title: "Needles found, of those hidden, by depth", Heads: []string{"policy", "context"}}
	for _, depth := range depths {
		t.Heads = append(t.Heads, percentTick(depth))
	}
	maps := h.maps()
	for _, m := range maps[:min(len(maps), maxMaps)] {
		if n := len(t.Bodies); n == 0 || t.Bodies[n-1].Title != m.budget {
			t.Bodies = append(t.Bodies, body{Title: m.budget})
		}
		b := &t.Bodies[len(t.Bodies)-1]
		for j, context := range contexts {
			line := row{Name: short(m.name, 60), Full: m.full, Cells: []field{{Text: integer(context)}}}
			seen := false
			for i := range depths {
				text := absent
				if c := m.cells[[2]int{i, j}]; c != nil {
					text, seen = fmt.Sprintf("%s/%s", integer(c.found), integer(c.needles)), true
				}
				line.Cells = append(line.Cells, field{Text: text})
			}
			if seen {
				b.Rows = append(b.Rows, line)
			}
		}
	}
	return t
}
