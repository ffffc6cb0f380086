package report

import (
	"math"
	"slices"
)

// broken is a scale with a piece left out: low fills share of the length, then comes gap, then high fills the rest.
type broken struct {
	low, high  scale
	from, to   float64 // the piece that is left out
	share, gap float64
}

func (s broken) at(v float64) float64 {
	switch {
	case v <= s.from:
		return s.share * s.low.at(v)
	case v < s.to:
		return s.share + s.gap*(v-s.from)/(s.to-s.from)
	}
	return s.share + s.gap + (1-s.share-s.gap)*s.high.at(v)
}

func (s broken) ticks(n int) []tick {
	below := s.low.ticks(max(2, int(math.Round(float64(n)*s.share))))
	above := s.high.ticks(max(4, int(math.Round(float64(n)*(1-s.share)*0.8))))
	return append(below, above...)
}

// bent is linear around 0 and logarithmic far from it, for values of which some are 0 or less.
type bent struct{ lo, hi float64 }

// straight is up to where a bent scale is about linear.
const straight = 1.0

func newBent(values []float64, margin float64) bent {
	lo, hi := math.Asinh(slices.Min(values)/straight), math.Asinh(slices.Max(values)/straight)
	room := max(margin*(hi-lo), 0.1)
	return bent{lo - room, hi + room}
}

func (s bent) at(v float64) float64 { return (math.Asinh(v/straight) - s.lo) / (s.hi - s.lo) }

func (s bent) ticks(n int) []tick {
	lo, hi := straight*math.Sinh(s.lo), straight*math.Sinh(s.hi)
	candidates := []tick{{0, "0"}}
	for _, t := range (logarithmic{straight, max(hi, -lo, 10*straight)}).ticks(n) {
		candidates = append(candidates, t, tick{-t.value, "−" + t.text})
	}
	ticks := slices.DeleteFunc(candidates, func(t tick) bool { return t.value < lo || t.value > hi })
	slices.SortFunc(ticks, func(a, b tick) int {
		if a.value < b.value {
			return -1
		}
		return 1
	})
	return ticks
}

// scaleFor chooses the scale that shows most: linear where values lie together; broken where some explode far above the
// rest, which would be squeezed into one line; logarithmic where they spread without a gap to break at. Ratios are taken
// from zero, which is 0 for a perplexity and -100 for its increase in percent.
func scaleFor(values []float64, zero float64) scale {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	lo, hi := sorted[0]-zero, sorted[len(sorted)-1]-zero
	if lo <= 1/largest {
		if lo < 0 || hi <= 4*straight {
			return newLinear(sorted, 0.07)
		}
		return newBent(sorted, 0.05)
	}
	cut, widest := 0, 0.0 // values from cut on lie above the widest gap
	for i := 2; i < len(sorted); i++ {
		if ratio := (sorted[i] - zero) / (sorted[i-1] - zero); ratio > widest {
			cut, widest = i, ratio
		}
	}
	if cut > 0 && apart(sorted[:cut], sorted[cut:], zero) {
		low, high := newLinear(sorted[:cut], 0.08), scale(nil)
		to := 0.0
		if above := sorted[cut:]; above[0] > 0 && above[len(above)-1] > 2.5*above[0] {
			s := newLogarithmic(above, 0.08)
			high, to = s, s.lo
		} else {
			s := newLinear(above, 0.12)
			high, to = s, s.lo
		}
		if low.hi < to {
			return broken{low, high, low.hi, to, 0.66, 0.06}
		}
	}
	switch {
	case hi <= 4*lo:
		return newLinear(sorted, 0.07)
	case zero == 0:
		return newLogarithmic(sorted, 0.06)
	}
	return newBent(sorted, 0.05)
}

// apart is whether the lower values lie close together and the upper ones far above them.
func apart(low, high []float64, zero float64) bool {
	least, last, next, most := low[0], low[len(low)-1], high[0], high[len(high)-1]
	const squeezed = 0.3 // of a linear axis: in less, the lower values could not be told apart
	return least < last && last-least < squeezed*(most-least) &&
		last-zero < 1.6*(least-zero) && next-zero > 1.25*(last-zero)
}

// explain says in words what a reader of an axis must know, or nothing where its steps are equal.
func explain(s scale, axis string) string {
	switch s := s.(type) {
	case broken:
		text := "The " + axis + " axis is broken: it leaves out " + number(s.from, 3) + " to " + number(s.to, 3)
		if _, ok := s.high.(logarithmic); ok {
			return text + ", and is logarithmic above."
		}
		return text + ", and its two parts differ in scale."
	case logarithmic:
		return "The " + axis + " axis is logarithmic."
	case bent:
		return "The " + axis + " axis is linear around 0 and logarithmic beyond " + number(straight, 1) + "."
	}
	return ""
}
