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

// grid lists the depths and contexts that were measured, ascending.
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
	return depths, contexts
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
		place := [2]int{slices.Index(depths, r.Depth), slices.Index(contexts, r.Context)}
		if m.cells[place] == nil {
			m.cells[place] = &cell{}
		}
		m.cells[place].needles += r.Needles
		m.cells[place].found += r.Found
		m.needles += r.Needles
		m.found += r.Found
		m.partial = m.partial || !r.Complete
	}
	return maps
}

const (
	cellWidth, cellHeight = 54.0, 27.0
	manyCells             = 24 // columns of a map that still have room for numbers
	shades                = 11 // classes h0 to h10 of the style sheet
)

func shade(rate float64) string {
	if math.IsNaN(rate) {
		rate = 0
	}
	return fmt.Sprintf("h%d", int(math.Round(rate*(shades-1))))
}

// draw makes the picture of a map: depth downwards, as one reads a text, context to the right.
func (m *heatmap) draw(depths []float64, contexts []int) drawing {
	w, numbers := cellWidth, true
	if len(contexts) > manyCells {
		w, numbers = max(2, cellWidth*manyCells/float64(len(contexts))), false
	}
	left, top := 50.0, 22.0
	d := drawing{
		W: px(left + w*float64(len(contexts)) + 4), H: px(top + cellHeight*float64(len(depths)) + 40),
		Label: fmt.Sprintf("Needles found by depth and context: %s, %s, %d of %d; the figures are in the table below.",
			m.name, m.budget, m.found, m.needles),
	}
	d.text("axis", 2, 13, "depth")
	for i, depth := range depths {
		y := top + cellHeight*float64(i)
		d.text("tick e", left-7, y+cellHeight/2+4, percentTick(depth))
		for j, context := range contexts {
			x := left + w*float64(j)
			c := m.cells[[2]int{i, j}]
			if c == nil {
				d.rect("empty", x+1, y+1, w-2, cellHeight-2, fmt.Sprintf("depth %s, context %s: not measured", percentTick(depth), integer(context)))
				continue
			}
			d.rect("cell "+shade(c.rate()), x+1, y+1, w-2, cellHeight-2, fmt.Sprintf("%s, %s, depth %s, context %s: %d of %d found",
				m.name, m.budget, percentTick(depth), integer(context), c.found, c.needles))
			if numbers {
				d.text("m t"+shade(c.rate()), x+w/2, y+cellHeight/2+4, fixed(c.rate()*100, 0))
			}
		}
	}
	bottom := top + cellHeight*float64(len(depths))
	end := math.Inf(-1)
	for j, context := range contexts {
		x, text := left+w*(float64(j)+0.5), integer(context)
		if half := width(text, smallSize) / 2; x-half > end+4 {
			d.text("tick m", x, bottom+16, text)
			end = x + half
		}
	}
	d.text("axis m", left+w*float64(len(contexts))/2, bottom+33, "context, tokens")
	return d
}

func percentTick(share float64) string { return number(share*100, 3) + "%" }

// key is the legend of the colours.
func key() drawing {
	d := drawing{W: 11*26 + 160, H: 24, Label: "Colours from no needle found to all found."}
	d.text("tick", 2, 16, "none found")
	for i := range shades {
		d.rect(fmt.Sprintf("cell h%d", i), 72+26*float64(i), 3, 26, 18, fixed(float64(i)*10, 0)+"% found")
	}
	d.text("tick", 80+26*shades, 16, "all found")
	return d
}

// recallFigure shows a map for each setting; nil if nothing was measured.
func (h *haystack) recallFigure() *figure {
	depths, contexts := h.grid()
	maps := h.maps()
	if len(maps) == 0 {
		return nil
	}
	f := &figure{
		Title: "Needles found, in percent",
		Note:  "Downwards: where in the text the needle was hidden, from its beginning to its end. To the right: how long the text was.",
		Key:   new(drawing), Small: true, Table: h.table(),
	}
	*f.Key = key()
	for _, m := range maps {
		title := m.name
		if !m.full {
			title += ", " + m.budget
		}
		sub := fmt.Sprintf("%s of %s, %s", integer(m.found), integer(m.needles), percent(rate(m.found, m.needles)))
		if m.partial {
			sub += ", interrupted"
		}
		f.Panels = append(f.Panels, panel{Title: short(title, 40), Sub: sub, Drawing: m.draw(depths, contexts)})
	}
	return f
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
