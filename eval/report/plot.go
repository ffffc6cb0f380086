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
	plotWidth   = 500.0
	plotHeight  = 350.0
	nameLength  = 24   // characters of a series' name beside a plot; the tooltip has it whole
	nameInside  = 22   // the same inside a plot
	manyPoints  = 30   // a line with more has no markers, for they would hide it
	maxLines    = 24   // more cannot be told apart
	titleHeight = 40.0 // above the plot area
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
	names, length := 0.0, nameLength
	if p.inside {
		length = nameInside
	}
	for _, l := range p.lines {
		names = max(names, width(short(l.name, length), textSize))
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
	ends := f.lines(p.lines, length)
	if p.inside {
		f.namesInside(ends, names)
	} else {
		f.labels(f.right, false, ends)
	}
	return d
}

// namesInside writes the names of the series that end furthest right behind their last points. Of the others, and of full,
// the name stands above the last point if it has room there, for a leader would run through what lies between.
func (f *frame) namesInside(ends []label, longest float64) {
	last := f.left
	for _, l := range ends {
		if !l.style.reference {
			last = max(last, l.x)
		}
	}
	var right []label
	type span struct{ left, right, y float64 }
	var above []span
	free := func(l label) bool {
		half := width(l.text, textSize) / 2
		s := span{l.x - half, l.x + half, l.y}
		for _, other := range above {
			if s.left < other.right && other.left < s.right && math.Abs(s.y-other.y) < textSize {
				return false
			}
		}
		if s.left < f.left || s.right > last+20 {
			return false
		}
		above = append(above, s)
		return true
	}
	for _, l := range ends {
		switch {
		case l.style.reference:
			f.titled("name ref e", l.x+radius+4, l.y-radius-8, l.text, l.title)
		case last-l.x > 4*radius && free(l):
			f.titled("name m", l.x, l.y-radius-6, l.text, l.title)
		default:
			right = append(right, l)
		}
	}
	at := last
	if room := f.right - longest - 30; at > room { // no room behind the last point: then before the right edge
		at = room
	}
	f.labels(at, true, right)
}

// lines draws all lines, then all markers, and returns where the names belong.
func (f *frame) lines(lines []line, length int) []label {
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
			title := l.name
			if l.across {
				title = l.points[0].title
			}
			f.path("line "+l.style.colour(), polyline(places), title)
		}
		last := places[len(places)-1]
		ends = append(ends, label{y: last.y, x: last.x, text: short(l.name, length), title: l.name, style: l.style})
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
	class := "notetext"
	if x+width(n.text, smallSize-1) > float64(f.W) {
		class = "notetext e"
	}
	f.text(class, x, f.top-5, n.text)
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

// dashed explains the line of full where there is one.
func dashed(lines []line) string {
	if slices.ContainsFunc(lines, func(l line) bool { return l.style.reference }) {
		return "Dashed: the full cache."
	}
	return ""
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

// beyond says that only the first few of something are shown.
func beyond(n, shown int, noun string) string {
	if n <= shown {
		return ""
	}
	return "Only the first " + counted(shown, noun) + " of " + integer(n) + " are shown."
}

// anyValue is a lower limit that nothing falls under.
var anyValue = math.Inf(-1)
