package report

import (
	"math"
	"slices"
)

// plot is a picture of lines, named at their ends.
type plot struct {
	label          string // for screen readers
	xTitle, yTitle string
	xs, ys         scale
	ticks          []tick   // of the horizontal axis; nil: its scale's
	second         []string // a second line under each of ticks, or nil
	lines          []line
	notes          []note
	under          func(*frame) // paints behind the lines, or nil
	inside         bool         // names stand right behind the last point of all lines but full, not outside the plot
}

// line is a series of points, from left to right.
type line struct {
	name   string
	style  style
	points []spot
	across bool // one value that holds for the whole axis
}

// spot is a point with its tooltip.
type spot struct {
	x, y  float64
	title string
}

// note is a thin vertical line that says what begins there.
type note struct {
	x    float64
	text string
}

const (
	plotWidth   = 560.0
	plotHeight  = 370.0
	nameLength  = 26   // characters of a series' name beside a plot; the tooltip has it whole
	manyPoints  = 30   // a line with more has no markers, for they would hide it
	maxLines    = 24   // more cannot be told apart
	titleHeight = 36.0 // above the plot area
)

func (p plot) draw() drawing {
	d := drawing{W: plotWidth, H: px(max(plotHeight, float64(len(p.lines))*(textSize+3)+titleHeight+60)), Label: p.label}
	f := &frame{drawing: &d, left: 8, top: titleHeight, right: plotWidth - 14, bottom: float64(d.H) - 46,
		horizontal: p.xs, vertical: p.ys}
	if p.second != nil {
		f.bottom -= 14
	}
	for _, t := range p.ys.ticks(8) {
		f.left = max(f.left, width(t.text, smallSize)+12)
	}
	names := 0.0
	for _, l := range p.lines {
		names = max(names, width(short(l.name, nameLength), textSize))
	}
	if !p.inside {
		f.right = plotWidth - names - 42
	}
	f.yAxis(p.yTitle)
	ticks := p.ticks
	if ticks == nil {
		ticks = p.xs.ticks(int((f.right - f.left) / 60))
	}
	f.xAxis(p.xTitle, ticks, p.second)
	for _, n := range p.notes {
		f.note(n)
	}
	if p.under != nil {
		p.under(f)
	}
	ends := f.lines(p.lines)
	at := f.right
	if p.inside {
		at = f.left
		for _, l := range ends {
			if l.style.reference {
				f.titled("name ref e", l.x-radius-4, l.y-radius-3, l.text, l.title)
			} else {
				at = max(at, l.x)
			}
		}
		ends = slices.DeleteFunc(ends, func(l label) bool { return l.style.reference })
		if at+names+44 > f.right { // no room behind the last point: then before the right edge
			at = f.right - names - 44
		}
	}
	f.labels(at, ends)
	return d
}

// lines draws all lines, then all markers, and returns where the names belong.
func (f *frame) lines(lines []line) []label {
	var ends []label
	for _, l := range lines {
		var places []point
		for _, s := range l.points {
			places = append(places, point{f.x(s.x), f.y(s.y)})
		}
		if l.across {
			places = []point{{f.left, places[0].y}, {f.right, places[0].y}}
		}
		if len(places) > 1 {
			title := ""
			if l.across || len(places) > manyPoints {
				title = l.points[0].title
			}
			f.path("line "+l.style.colour(), polyline(places), title)
		}
		last := places[len(places)-1]
		ends = append(ends, label{y: last.y, x: last.x, text: short(l.name, nameLength), title: l.name, style: l.style})
	}
	for _, l := range lines {
		if l.across || len(l.points) > manyPoints {
			continue
		}
		for _, s := range l.points {
			f.path("dot "+l.style.colour(), outline(l.style.marker(), f.x(s.x), f.y(s.y), radius), s.title)
		}
	}
	return ends
}

func (f *frame) note(n note) {
	x := f.x(n.x)
	if x < f.left || x > f.right {
		return
	}
	f.line("note", x, f.top, x, f.bottom)
	class, at := "notetext", x+5
	if x > (f.left+f.right)/2 {
		class, at = "notetext e", x-5
	}
	f.text(class, at, f.bottom-7, n.text)
}

// values lists what the lines show in one direction.
func values(lines []line, of func(spot) float64) (vs []float64) {
	for _, l := range lines {
		for _, s := range l.points {
			vs = append(vs, of(s))
		}
	}
	return vs
}

// drawn drops what no plot can show, and says how much that was.
func drawn(lines []line, above float64) (kept []line, dropped int) {
	for _, l := range lines {
		var points []spot
		for _, s := range l.points {
			if drawable(s.x) && drawable(s.y) && s.y > above {
				points = append(points, s)
			} else {
				dropped++
			}
		}
		switch {
		case len(points) == 0:
		case len(kept) == maxLines:
			dropped += len(points)
		default:
			l.points = points
			kept = append(kept, l)
		}
	}
	return kept, dropped
}

// omitted says that a figure does not show everything.
func omitted(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 value cannot be drawn here; the table has it."
	}
	return integer(n) + " values cannot be drawn here; the table has them."
}

// anyValue is a lower limit that nothing falls under.
var anyValue = math.Inf(-1)
