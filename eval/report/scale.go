package report

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// scale maps the values of an axis to a length from 0 to 1.
type scale interface {
	at(v float64) float64
	ticks(n int) []tick // about n, ascending
}

// tick is a value that the axis names.
type tick struct {
	value float64
	text  string
}

// linear is a scale of equal steps from lo to hi.
type linear struct{ lo, hi float64 }

// newLinear covers the values with a margin, a share of their range, on both sides.
func newLinear(values []float64, margin float64) linear {
	lo, hi := slices.Min(values), slices.Max(values)
	if wide := max(math.Abs(lo), math.Abs(hi)); hi-lo <= 1e-9*wide || wide == 0 {
		room := max(wide*0.1, 1e-9)
		if wide == 0 {
			room = 1
		}
		return linear{lo - room, hi + room}
	}
	return linear{lo - margin*(hi-lo), hi + margin*(hi-lo)}
}

func (s linear) at(v float64) float64 { return (v - s.lo) / (s.hi - s.lo) }

func (s linear) ticks(n int) []tick {
	step := niceStep((s.hi - s.lo) / float64(max(n, 1)))
	begin := math.Ceil(s.lo/step - 1e-9)
	count := int(min(math.Floor(s.hi/step+1e-9)-begin, float64(3*n))) // beyond 2^53 steps would not be counted right
	var ticks []tick
	for i := 0; i <= count; i++ {
		v := (begin + float64(i)) * step
		ticks = append(ticks, tick{v, tickText(v, step)})
	}
	return ticks
}

// niceStep is the smallest of 1, 2 or 5 times a power of ten that is not below v.
func niceStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// tickText prints a tick with the decimals that its step needs.
func tickText(v, step float64) string {
	if math.Abs(v) < step/2 {
		return "0"
	}
	if a := math.Abs(v); a >= 1e6 || a < 1e-4 {
		return strings.TrimPrefix(scientific(strconv.FormatFloat(v, 'e', decimalsOf(v), 64)), "1×")
	}
	return fixed(v, max(0, -int(math.Floor(math.Log10(step)+1e-9))))
}

// decimalsOf is how many decimals the mantissa of v has, of at most two.
func decimalsOf(v float64) int {
	text := strings.TrimRight(strconv.FormatFloat(math.Abs(v), 'e', 2, 64)[2:4], "0")
	return len(text)
}

// logarithmic is a scale of equal factors from lo to hi, both above 0.
type logarithmic struct{ lo, hi float64 }

// newLogarithmic covers values above 0.
func newLogarithmic(values []float64, margin float64) logarithmic {
	lo, hi := slices.Min(values), slices.Max(values)
	room := math.Pow(hi/lo, margin)
	if room < 1.001 {
		room = 1.1
	}
	return logarithmic{lo / room, hi * room}
}

func (s logarithmic) at(v float64) float64 {
	if v <= 0 {
		return 0
	}
	return math.Log(v/s.lo) / math.Log(s.hi/s.lo)
}

func (s logarithmic) ticks(n int) []tick {
	decades := math.Log10(s.hi / s.lo)
	if decades < 0.8 { // too narrow for 1, 2, 5: equal steps read better
		ticks := linear{s.lo, s.hi}.ticks(n)
		return slices.DeleteFunc(ticks, func(t tick) bool { return t.value <= 0 })
	}
	within, stride := []float64{1, 2, 5}, 1
	if decades*3 > float64(n)*1.5 {
		within = []float64{1}
		stride = max(1, int(math.Ceil(decades/float64(n))))
	}
	var ticks []tick
	end := int(math.Ceil(math.Log10(s.hi)))
	for e := int(math.Floor(math.Log10(s.lo))); e <= end; e++ {
		if e%stride != 0 {
			continue
		}
		for _, m := range within {
			if v := m * math.Pow(10, float64(e)); v >= s.lo && v <= s.hi {
				ticks = append(ticks, tick{v, tickText(v, math.Pow(10, float64(e)))})
			}
		}
	}
	return ticks
}
