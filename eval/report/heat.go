package report

import (
	"fmt"
	"math"
	"strings"
)

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
		Label: fmt.Sprintf("Needles found by depth and context: %s, %d of %d; the figures are in the table below.",
			m.title(), m.found, m.needles),
	}
	d.rect("empty", left+1, top+1, w*float64(len(contexts))-2, cellHeight*float64(len(depths))-2, "not measured") // shows between the cells
	d.text("axis", 2, 13, "depth")
	for i, depth := range depths {
		y := top + cellHeight*float64(i)
		d.text("tick e", left-7, y+cellHeight/2+4, percentTick(depth))
		for j, context := range contexts {
			x := left + w*float64(j)
			c := m.cells[[2]int{i, j}]
			if c == nil {
				continue
			}
			d.rect("cell "+shade(c.rate()), x+1, y+1, w-2, cellHeight-2, fmt.Sprintf("%s, depth %s, context %s: %d of %d found",
				m.title(), percentTick(depth), integer(context), c.found, c.needles))
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

// percentTick prints a share of 1 with one decimal if it has one.
func percentTick(share float64) string { return strings.TrimSuffix(fixed(share*100, 1), ".0") + "%" }

// key is the legend of the colours.
func key() drawing {
	d := drawing{W: shades*26 + 166, H: 24, Label: "Colours from no needle found to all found."}
	d.text("tick", 2, 16, "none found")
	for i := range shades {
		d.rect(fmt.Sprintf("cell h%d", i), 78+26*float64(i), 3, 26, 18, fixed(float64(i)*10, 0)+"% found")
	}
	d.text("tick", 86+26*shades, 16, "all found")
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
	outside := 0
	for _, m := range maps[:min(len(maps), maxMaps)] {
		outside += m.outside
		sub := fmt.Sprintf("%s of %s, %s", integer(m.found), integer(m.needles), percent(rate(m.found, m.needles)))
		if m.partial {
			sub += ", interrupted"
		}
		f.add(m.budget, panel{Title: short(m.name, 40), Sub: sub, Drawing: m.draw(depths, contexts)})
	}
	f.Note = join(f.Note, beyond(len(maps), maxMaps, "setting"))
	if outside > 0 {
		f.Note = join(f.Note, "There is no room for all depths and contexts; the sums have them.")
	}
	return f
}
