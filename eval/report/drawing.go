package report

import (
	"math"
	"strconv"
	"strings"
)

// drawing is one SVG picture: marks in the order in which they are painted. The template writes it, so that texts are
// escaped there and nowhere else; classes are the style sheet's.
type drawing struct {
	W, H  px
	Label string // what a screen reader says of the picture
	Marks []mark
}

// mark is a path, a rectangle or a text.
type mark struct {
	Shape string // path, rect, text
	Class string
	Path  string // of a path
	X, Y  px     // of a rect: its corner; of a text: its anchor on the base line
	W, H  px     // of a rect
	Text  string
	Title string // tooltip
}

// px is a length in units of the picture.
type px float64

func (p px) String() string {
	v := math.Round(float64(p)*10) / 10
	if v == 0 {
		v = 0 // no minus zero
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

func (d *drawing) path(class, path, title string) {
	d.Marks = append(d.Marks, mark{Shape: "path", Class: class, Path: path, Title: title})
}

func (d *drawing) line(class string, x, y, x2, y2 float64) {
	d.path(class, polyline([]point{{x, y}, {x2, y2}}), "")
}

func (d *drawing) rect(class string, x, y, w, h float64, title string) {
	d.Marks = append(d.Marks, mark{Shape: "rect", Class: class, X: px(x), Y: px(y), W: px(w), H: px(h), Title: title})
}

// text writes at (x, y); a class of "m" centres it there, "e" ends it there.
func (d *drawing) text(class string, x, y float64, text string) {
	d.titled(class, x, y, text, "")
}

func (d *drawing) titled(class string, x, y float64, text, title string) {
	d.Marks = append(d.Marks, mark{Shape: "text", Class: class, X: px(x), Y: px(y), Text: text, Title: title})
}

// point is a place in a picture.
type point struct{ x, y float64 }

// polyline is the path through points.
func polyline(points []point) string {
	var b strings.Builder
	for i, p := range points {
		if i == 0 {
			b.WriteByte('M')
		} else {
			b.WriteByte('L')
		}
		b.WriteString(px(p.x).String() + " " + px(p.y).String())
	}
	return b.String()
}

// markers are the outlines of the marks of series, in units of their radius: with the colour they tell series apart.
var markers = [][]point{
	nil, // a circle
	{{-0.9, -0.9}, {0.9, -0.9}, {0.9, 0.9}, {-0.9, 0.9}},
	{{0, -1.2}, {1.1, 0.8}, {-1.1, 0.8}},
	{{0, -1.25}, {1.25, 0}, {0, 1.25}, {-1.25, 0}},
	{{0, 1.2}, {1.1, -0.8}, {-1.1, -0.8}},
	{{-0.4, -1.2}, {0.4, -1.2}, {0.4, -0.4}, {1.2, -0.4}, {1.2, 0.4}, {0.4, 0.4}, {0.4, 1.2}, {-0.4, 1.2},
		{-0.4, 0.4}, {-1.2, 0.4}, {-1.2, -0.4}, {-0.4, -0.4}},
	{{0, -1.2}, {1.05, -0.6}, {1.05, 0.6}, {0, 1.2}, {-1.05, 0.6}, {-1.05, -0.6}},
}

// outline is the path of marker i with radius r about (x, y).
func outline(i int, x, y, r float64) string {
	shape := markers[i%len(markers)]
	if shape == nil {
		arc := "a" + px(r).String() + " " + px(r).String() + " 0 1 0 "
		return "M" + px(x-r).String() + " " + px(y).String() + arc + px(2*r).String() + " 0" + arc + px(-2*r).String() + " 0Z"
	}
	points := make([]point, len(shape))
	for j, p := range shape {
		points[j] = point{x + r*p.x, y + r*p.y}
	}
	return polyline(points) + "Z"
}

// width estimates the length of a text: fonts are the reader's, so there is nothing to measure.
func width(text string, size float64) float64 {
	em := 0.0
	for _, r := range text {
		switch {
		case strings.ContainsRune("iljtfrI.,:;|'!() ", r):
			em += 0.33
		case strings.ContainsRune("mwMW%—…", r):
			em += 0.9
		case r >= 0x2e80: // East Asian writing is as wide as high
			em++
		default:
			em += 0.57
		}
	}
	return em * size
}
