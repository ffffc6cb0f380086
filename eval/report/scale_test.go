package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func texts(ticks []tick) string {
	var all []string
	for _, t := range ticks {
		all = append(all, t.text)
	}
	return strings.Join(all, " ")
}

func TestTicksAreRoundNumbers(t *testing.T) {
	for _, c := range []struct {
		scale scale
		n     int
		want  string
	}{
		{linear{0, 10}, 5, "0 2 4 6 8 10"},
		{linear{22.5, 24.7}, 5, "22.5 23.0 23.5 24.0 24.5"},
		{linear{-3, 3}, 3, "−2 0 2"},
		{linear{0, 0.004}, 4, "0 0.001 0.002 0.003 0.004"},
		{linear{0, 12000}, 3, "0 5,000 10,000"},
		{linear{1e8, 4e8}, 3, "10⁸ 2×10⁸ 3×10⁸ 4×10⁸"},
		{linear{1.1e7, 1.5e7}, 4, "1.1×10⁷ 1.2×10⁷ 1.3×10⁷ 1.4×10⁷ 1.5×10⁷"},
		{logarithmic{1, 1000}, 6, "1 2 5 10 20 50 100 200 500 1,000"},
		{logarithmic{0.5, 2e6}, 5, "1 100 10,000 10⁶"},
		{logarithmic{22, 45}, 4, "30 40"}, // too narrow for 1, 2, 5
		{broken{linear{22, 25}, linear{33, 41}, 25, 33, 0.66, 0.06}, 6, "22 23 24 25 34 36 38 40"},
		{bent{math.Asinh(-21), math.Asinh(700)}, 8, "−20 −10 −5 −2 −1 0 1 2 5 10 20 50 100 200 500"},
	} {
		if got := texts(c.scale.ticks(c.n)); got != c.want {
			t.Errorf("ticks of %T %v are %q, want %q", c.scale, c.scale, got, c.want)
		}
	}
}

func TestScalesKeepTheirPromises(t *testing.T) {
	for _, c := range []struct {
		scale scale
		at    map[float64]float64
	}{
		{linear{10, 20}, map[float64]float64{10: 0, 15: 0.5, 20: 1}},
		{logarithmic{1, 100}, map[float64]float64{1: 0, 10: 0.5, 100: 1, -4: 0}},
		{broken{linear{0, 10}, linear{50, 100}, 10, 50, 0.6, 0.1}, map[float64]float64{0: 0, 5: 0.3, 10: 0.6, 30: 0.65, 50: 0.7, 75: 0.85, 100: 1}},
		{bent{-math.Asinh(50), math.Asinh(50)}, map[float64]float64{-50: 0, 0: 0.5, 50: 1}},
	} {
		for v, want := range c.at {
			if got := c.scale.at(v); math.Abs(got-want) > 1e-12 {
				t.Errorf("%T puts %v at %v, want %v", c.scale, v, got, want)
			}
		}
	}
}

func TestTheScaleShowsMost(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		zero   float64
		want   string
	}{
		{"near each other", []float64{22.6, 23.2, 24.5}, 0, "linear"},
		{"one value", []float64{22.6}, 0, "linear"},
		{"the reference's window and random explode", []float64{22.6, 23.2, 24.5, 33.3, 36.0, 38.4, 39.4}, 0, "broken"},
		{"the same as increases", []float64{0, 1.5, 2.5, 8.5, 47, 59, 70, 74}, -100, "broken"},
		{"a guide's figures", []float64{8.21, 8.28, 9.45, 42.85, 58.12}, 0, "broken"},
		{"a thousand times worse", []float64{5.2, 5.4, 5.9, 500, 5158}, 0, "broken"},
		{"spread without a gap", []float64{8, 10, 14, 20, 30, 45, 60}, 0, "logarithmic"},
		{"increases without a gap", []float64{0, 3, 10, 40, 90, 200, 600}, -100, "bent"},
		{"better than full", []float64{-4, 0, 2, 3}, -100, "linear"},
		{"nothing but zeros", []float64{0, 0}, 0, "linear"},
		{"zeros and large ones", []float64{0, 5, 1e6}, 0, "bent"},
		{"only two, far apart", []float64{8, 58}, 0, "logarithmic"},
	} {
		got := strings.TrimPrefix(fmt.Sprintf("%T", scaleFor(c.values, c.zero)), "report.")
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestABrokenAxisIsSaid(t *testing.T) {
	got := explain(scaleFor([]float64{8.21, 8.28, 9.45, 42.85, 58.12}, 0), "vertical")
	if want := "The vertical axis is broken: it leaves out 9.55 to 41.0, and its two parts differ in scale."; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := explain(scaleFor([]float64{5.2, 5.4, 5.9, 500, 5158}, 0), "vertical"); !strings.HasSuffix(got, "and is logarithmic above.") {
		t.Errorf("the logarithmic part is not said: %q", got)
	}
	if got := explain(linear{0, 1}, "vertical"); got != "" {
		t.Errorf("a linear axis needs no words, got %q", got)
	}
}

// faults lists what is wrong with a scale for these values.
func faults(s scale, values []float64) (wrong []string) {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	last := math.Inf(-1)
	for _, v := range sorted {
		at := s.at(v)
		if !(at >= -1e-9 && at <= 1+1e-9) {
			wrong = append(wrong, fmt.Sprintf("%v lies at %v", v, at))
		}
		if at < last-1e-9 {
			wrong = append(wrong, fmt.Sprintf("%v lies below its predecessor", v))
		}
		last = at
	}
	for _, n := range []int{1, 5, 9} {
		ticks := s.ticks(n)
		if len(ticks) > 5*n+12 {
			wrong = append(wrong, fmt.Sprintf("%d ticks for %d", len(ticks), n))
		}
		for i, t := range ticks {
			if at := s.at(t.value); !(at >= -1e-6 && at <= 1+1e-6) {
				wrong = append(wrong, fmt.Sprintf("tick %s lies at %v", t.text, at))
			}
			if i > 0 && t.value <= ticks[i-1].value {
				wrong = append(wrong, fmt.Sprintf("tick %s comes after %s", t.text, ticks[i-1].text))
			}
		}
	}
	return wrong
}

func TestEveryScaleHoldsItsValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Float64Range(1, 100), rapid.Float64Range(-50, 1e4), rapid.Float64Range(-largest, largest),
			rapid.SampledFrom([]float64{0, 1e-300, 1e-12, 1, 1e16, 1e16 + 2, largest, -largest}))
		values := rapid.SliceOfN(value, 1, 12).Draw(t, "values")
		zero := rapid.SampledFrom([]float64{0, -100}).Draw(t, "zero")
		s := scaleFor(values, zero)
		for _, wrong := range faults(s, values) {
			t.Errorf("%T %v: %s", s, s, wrong)
		}
	})
}

func TestFaultyScalesAreFound(t *testing.T) {
	for _, s := range []scale{linear{0, 5}, linear{10, 0}, linear{math.NaN(), 1}} {
		if len(faults(s, []float64{1, 7, 9})) == 0 {
			t.Errorf("%v passes", s)
		}
	}
}
