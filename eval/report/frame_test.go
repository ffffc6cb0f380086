package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNamesMoveApartAsLittleAsPossible(t *testing.T) {
	for _, c := range []struct {
		ys   []float64
		want []float64
	}{
		{nil, []float64{}},
		{[]float64{50}, []float64{50}},
		{[]float64{50, 52}, []float64{46, 56}},
		{[]float64{52, 50}, []float64{56, 46}},
		{[]float64{20, 50, 50, 50, 80}, []float64{20, 40, 50, 60, 80}},
		{[]float64{1, 2}, []float64{0, 10}},     // at the upper edge
		{[]float64{99, 98}, []float64{100, 90}}, // at the lower edge
	} {
		if got := spread(c.ys, 10, 0, 100); !slices.Equal(got, c.want) {
			t.Errorf("spread(%v) is %v, want %v", c.ys, got, c.want)
		}
	}
}

func TestNamesKeepTheirOrderAndDistance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ys := rapid.SliceOfN(rapid.Float64Range(0, 100), 1, 10).Draw(t, "ys")
		placed := spread(ys, 10, 0, 100)
		for i := range ys {
			if placed[i] < -1e-9 || placed[i] > 100+1e-9 {
				t.Errorf("%v is placed at %v", ys[i], placed[i])
			}
			for j := range ys {
				if ys[i] < ys[j] && placed[j]-placed[i] < 10-1e-9 {
					t.Errorf("%v and %v are placed at %v and %v", ys[i], ys[j], placed[i], placed[j])
				}
			}
		}
	})
}

// box is where a text stands.
type box struct {
	left, right, top, bottom float64
	text                     string
}

func boxes(d drawing) (all []box) {
	for _, m := range d.Marks {
		if m.Shape != "text" {
			continue
		}
		classes := strings.Fields(m.Class)
		size := textSize
		for _, c := range classes {
			switch c {
			case "tick", "axis", "value", "heading":
				size = smallSize
			case "tick2", "notetext", "gaptext":
				size = smallSize - 1
			}
		}
		w := width(m.Text, size)
		left := float64(m.X)
		if slices.Contains(classes, "m") {
			left -= w / 2
		} else if slices.Contains(classes, "e") {
			left -= w
		}
		all = append(all, box{left, left + w, float64(m.Y) - 0.75*size, float64(m.Y) + 0.1*size, m.Text})
	}
	return all
}

// collisions lists texts that stand in each other or outside the picture.
func collisions(d drawing) (wrong []string) {
	all := boxes(d)
	for i, a := range all {
		if a.left < -1 || a.right > float64(d.W)+1 || a.top < -1 || a.bottom > float64(d.H)+1 {
			wrong = append(wrong, fmt.Sprintf("%q leaves the picture", a.text))
		}
		for _, b := range all[i+1:] {
			if math.Min(a.right, b.right)-math.Max(a.left, b.left) > 1 && math.Min(a.bottom, b.bottom)-math.Max(a.top, b.top) > 1 {
				wrong = append(wrong, fmt.Sprintf("%q stands in %q", a.text, b.text))
			}
		}
	}
	return wrong
}

// drawings are all pictures of a page.
func drawings(p page) (all []drawing) {
	for _, s := range p.Sections {
		for _, f := range s.Figures {
			if f.Key != nil {
				all = append(all, *f.Key)
			}
			for _, g := range f.Groups {
				for _, panel := range g.Panels {
					all = append(all, panel.Drawing)
				}
			}
		}
	}
	return all
}

func TestNoTextStandsInAnother(t *testing.T) {
	for name, r := range samples() {
		for _, d := range drawings(newPage(r)) {
			for _, wrong := range collisions(d) {
				t.Errorf("%s: %q: %s", name, d.Label, wrong)
			}
		}
	}
}

func TestCollisionsAreFound(t *testing.T) {
	d := drawing{W: 100, H: 100}
	d.text("name", 10, 50, "window")
	d.text("tick e", 60, 52, "random")
	d.text("axis", 80, 90, "perplexity")
	want := []string{`"window" stands in "random"`, `"perplexity" leaves the picture`}
	if got := collisions(d); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
