package report

import (
	"math"
	"slices"
)

const (
	textSize  = 13.0 // of labels
	smallSize = 12.0 // of ticks
	radius    = 4.2  // of markers
)

// frame is the area of a plot inside its picture, with a scale for each direction.
type frame struct {
	*drawing
	left, right, top, bottom float64
	horizontal, vertical     scale
}

func (f *frame) x(v float64) float64 { return f.left + (f.right-f.left)*f.horizontal.at(v) }
func (f *frame) y(v float64) float64 { return f.bottom - (f.bottom-f.top)*f.vertical.at(v) }

// yAxis draws grid lines and ticks, and the title above them, where it can be read without turning the head.
func (f *frame) yAxis(title string) {
	f.text("axis", 2, f.top-20, title)
	last := math.Inf(1)
	for _, t := range f.vertical.ticks(int((f.bottom - f.top) / 32)) {
		y := f.y(t.value)
		if last-y >= smallSize {
			f.line("grid", f.left, y, f.right, y)
			f.text("tick e", f.left-7, y+4, t.text)
			last = y
		}
	}
	if s, ok := f.vertical.(broken); ok {
		f.breakAt(f.y(s.from), f.y(s.to), s)
	}
}

// breakAt marks the piece that a broken axis leaves out, between two heights.
func (f *frame) breakAt(below, above float64, s broken) {
	f.rect("gap", f.left-4, above, f.right-f.left+4, below-above, "The axis leaves out "+number(s.from, 3)+" to "+number(s.to, 3))
	for _, y := range []float64{below, above} {
		f.path("zigzag", zigzag(f.left-4, f.right, y), "")
	}
	f.text("gaptext m", (f.left+f.right)/2, (below+above)/2+3.5, "axis broken")
}

func zigzag(left, right, y float64) string {
	var points []point
	for i := 0; ; i++ {
		x := left + 8*float64(i)
		if x > right {
			return polyline(points)
		}
		points = append(points, point{x, y + 2*float64(i%2*2-1)})
	}
}

// xAxis draws the bottom line, the ticks that have room, and the title below. Second lines of ticks are optional.
func (f *frame) xAxis(title string, ticks []tick, second []string) {
	f.line("base", f.left, f.bottom, f.right, f.bottom)
	end := math.Inf(-1)
	for i, t := range ticks {
		x := f.x(t.value)
		f.line("base", x, f.bottom, x, f.bottom+5)
		half := width(t.text, smallSize) / 2
		if second != nil {
			half = max(half, width(second[i], smallSize-1)/2)
		}
		x = max(half, min(x, float64(f.W)-half))
		if x-half < end+5 {
			continue
		}
		end = x + half
		f.text("tick m", x, f.bottom+19, t.text)
		if second != nil {
			f.text("tick2 m", x, f.bottom+33, second[i])
		}
	}
	f.text("axis m", (f.left+f.right)/2, float64(f.H)-6, title)
}

// label names a series at the right of a plot.
type label struct {
	y     float64 // where its line ends
	x     float64
	text  string
	title string
	style style
}

// labels writes the names to the right of at, each as near to its line as the others allow, with a leader to it.
// Before the name stands the marker of its series, unless plain: inside a plot it would be taken for a point.
func (f *frame) labels(at float64, plain bool, labels []label) {
	s, ok := f.vertical.(broken)
	if !ok {
		f.labelsWithin(at, plain, labels, f.top, f.bottom)
		return
	}
	var high, low []label // each on its side of the break
	for _, l := range labels {
		if l.y <= f.y(s.to) {
			high = append(high, l)
		} else {
			low = append(low, l)
		}
	}
	f.labelsWithin(at, plain, high, f.top-textSize, f.y(s.to)-0.7*textSize)
	f.labelsWithin(at, plain, low, f.y(s.from)+textSize/2, f.bottom)
}

func (f *frame) labelsWithin(at float64, plain bool, labels []label, top, bottom float64) {
	ys := make([]float64, len(labels))
	for i, l := range labels {
		ys[i] = l.y
	}
	for i, y := range spread(ys, textSize+3, top, bottom) {
		l := labels[i]
		f.path("leader "+l.style.colour(), polyline([]point{{l.x + radius + 2, l.y}, {at + 6, l.y}, {at + 18, y}, {at + 22, y}}), "")
		if l.style.reference || plain {
			class := "name"
			if l.style.reference {
				class = "name ref"
			}
			f.titled(class, at+26, y+4, l.text, l.title)
			continue
		}
		f.path("dot "+l.style.colour(), outline(l.style.marker(), at+28, y, radius), "")
		f.titled("name", at+37, y+4, l.text, l.title)
	}
}

// spread moves places apart until they are gap from each other, each as little as possible, within lo and hi as long as
// there is room. The result is in the order of ys.
func spread(ys []float64, gap, lo, hi float64) []float64 {
	order := make([]int, len(ys))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case ys[a] < ys[b]:
			return -1
		case ys[a] > ys[b]:
			return 1
		}
		return 0
	})
	// Places that touch form a block, which stands where the mean of its members is least moved.
	type block struct {
		sum  float64 // of where the first member would like the block to begin
		n    int
		from int
	}
	begin := func(b block) float64 {
		at := b.sum / float64(b.n)
		return max(lo, min(at, hi-gap*float64(b.n-1)))
	}
	var blocks []block
	for i, k := range order {
		b := block{ys[k], 1, i}
		for len(blocks) > 0 {
			before := blocks[len(blocks)-1]
			if begin(before)+gap*float64(before.n) <= begin(b) {
				break
			}
			b = block{before.sum + b.sum - gap*float64(before.n*b.n), before.n + b.n, before.from}
			blocks = blocks[:len(blocks)-1]
		}
		blocks = append(blocks, b)
	}
	placed := make([]float64, len(ys))
	for _, b := range blocks {
		for i := range b.n {
			placed[order[b.from+i]] = begin(b) + gap*float64(i)
		}
	}
	return placed
}
