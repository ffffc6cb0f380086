package report

import "slices"

// dots is a picture of one figure per row, with its interval where there is one.
type dots struct {
	label string // for screen readers
	title string // of the horizontal axis
	rows  []dot
	share bool // values are shares of 1: the axis is in percent
}

// dot is a row: a heading, or a name, a place and the figure in words.
type dot struct {
	heading   string // stands for itself, without a value
	name      string
	style     style
	value     float64
	low, high float64 // interval; none if they are equal
	text      string  // at the right
	title     string  // tooltip
}

const (
	rowHeight = 25.0
	nameWidth = 24 // characters of a row's name
)

// draw also returns how many rows had a value that cannot be drawn, and the scale.
func (p dots) draw() (drawing, int, scale) {
	var shown []dot
	var vs []float64
	dropped := 0
	names, texts := 0.0, 0.0
	for _, r := range p.rows {
		switch {
		case r.heading != "":
		case !drawable(r.value):
			dropped++
			continue
		default:
			vs = append(vs, r.value)
			if r.interval() {
				vs = append(vs, r.low, r.high)
			}
			names = max(names, width(short(r.name, nameWidth), textSize))
			texts = max(texts, width(r.text, smallSize))
		}
		shown = append(shown, r)
	}
	if len(vs) == 0 {
		return drawing{}, dropped, nil
	}
	xs := scale(newLinear(vs, 0.06))
	if lo := slices.Min(vs); !p.share && lo > 1/largest && slices.Max(vs) > 2*lo {
		xs = newLogarithmic(vs, 0.06)
	}
	// Few rows stand wider apart, so that the picture is as high as the plot that may stand beside it.
	height := max(rowHeight, min(1.6*rowHeight, (plotHeight-62)/float64(len(shown))))
	d := drawing{W: plotWidth, H: px(float64(len(shown))*height + 62), Label: p.label}
	f := &frame{drawing: &d, left: names + 26, right: plotWidth - texts - 18, top: 8, bottom: float64(d.H) - 48, horizontal: xs}
	ticks := xs.ticks(int((f.right - f.left) / 55))
	if p.share {
		ticks = linear{xs.(linear).lo * 100, xs.(linear).hi * 100}.ticks(int((f.right - f.left) / 55))
		for i, t := range ticks {
			ticks[i] = tick{t.value / 100, t.text + "%"}
		}
	}
	for _, t := range ticks {
		f.line("grid", f.x(t.value), f.top, f.x(t.value), f.bottom)
	}
	f.xAxis(p.title, ticks, nil)
	for _, r := range shown {
		if r.style.reference && r.heading == "" {
			if r.interval() {
				f.rect("band", f.x(r.low), f.top, f.x(r.high)-f.x(r.low), f.bottom-f.top, "")
			}
			f.line("line cref", f.x(r.value), f.top, f.x(r.value), f.bottom)
		}
	}
	for i, r := range shown {
		f.row(r, f.top+height*(float64(i)+0.5), height)
	}
	return d, dropped, xs
}

func (r dot) interval() bool {
	return drawable(r.low) && drawable(r.high) && r.low < r.high && r.low <= r.value && r.value <= r.high
}

func (f *frame) row(r dot, y, height float64) {
	if r.heading != "" {
		f.line("rule", 2, y-height/2+1, float64(f.W)-2, y-height/2+1)
		f.text("heading", 2, y+6, r.heading)
		return
	}
	class := "name e"
	if r.style.reference {
		class = "name ref e"
	}
	x := f.x(r.value)
	f.titled(class, f.left-12, y+4, short(r.name, nameWidth), r.name)
	if r.interval() {
		low, high := f.x(r.low), f.x(r.high)
		f.path("whisker "+r.style.colour(), polyline([]point{{low, y}, {high, y}})+
			polyline([]point{{low, y - 4}, {low, y + 4}})+polyline([]point{{high, y - 4}, {high, y + 4}}), r.title)
	}
	f.path("dot "+r.style.colour(), outline(r.style.marker(), x, y, radius+0.6), r.title)
	f.text("value e", float64(f.W)-4, y+4, r.text)
}
