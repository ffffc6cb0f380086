package tests

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// Expected values that are no numbers.
var (
	untouched = math.NaN()  // must still be blank
	anything  = math.Inf(1) // is not looked at
)

// exact, as a bound, asks for the twin's value rounded to f32.
const exact = 0

// values are n expected values, untouched at first.
func values(n int) []float64 { return slices.Repeat([]float64{untouched}, n) }

// compare reports where values differ from the twin's: their NMSE = sum (got - want)^2 / sum want^2 must not exceed most.
func compare(what string, got []float32, want []float64, most float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%s: %d values, want %d", what, len(got), len(want))
	}
	var wrong, all, worst float64
	var at int
	for i, w := range want {
		g := float64(got[i])
		switch {
		case math.IsInf(w, 1):
		case math.IsNaN(w):
			if math.Float32bits(got[i]) != blank {
				return fmt.Errorf("%s: element %d of %d is %v, want it untouched", what, i, len(got), got[i])
			}
		default:
			if most == exact {
				w = float64(float32(w))
			}
			if math.IsNaN(g) || math.IsInf(g, 0) {
				return fmt.Errorf("%s: element %d of %d is %v, want %v", what, i, len(got), g, w)
			}
			d := (g - w) * (g - w)
			wrong, all = wrong+d, all+w*w
			if d > worst {
				worst, at = d, i
			}
		}
	}
	if wrong > most*all {
		return fmt.Errorf("%s: NMSE %.2g, want at most %.2g; element %d of %d is %v, want %v", what, wrong/all, most, at, len(got), got[at], want[at])
	}
	return nil
}

// compareWords reports the first word that differs.
func compareWords(what string, got, want []uint32) error {
	if len(got) != len(want) {
		return fmt.Errorf("%s: %d words, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Errorf("%s: word %d of %d is %d (%#x), want %d (%#x)", what, i, len(got), got[i], got[i], want[i], want[i])
		}
	}
	return nil
}

func TestCompareFindsWhatDiffers(t *testing.T) {
	nan, still := float32(math.NaN()), math.Float32frombits(blank)
	for _, c := range []struct {
		name string
		got  []float32
		want []float64
		most float64
		same bool
	}{
		{"equal", []float32{1, 2}, []float64{1, 2}, exact, true},
		{"rounded", []float32{0.1}, []float64{0.1}, exact, true},
		{"near", []float32{1, 2.00001}, []float64{1, 2}, 1e-10, true},
		{"blank", []float32{still, nan}, []float64{untouched, anything}, exact, true},
		{"zero", []float32{0}, []float64{0}, exact, true},
		{"far", []float32{1, 2.0001}, []float64{1, 2}, 1e-10, false},
		{"not exact", []float32{1, 2.0000002}, []float64{1, 2}, exact, false},
		{"written", []float32{1}, []float64{untouched}, 1, false},
		{"another NaN", []float32{nan}, []float64{untouched}, 1, false},
		{"not written", []float32{still}, []float64{0}, 1, false},
		{"not a number", []float32{nan}, []float64{1}, 1, false},
		{"infinite", []float32{float32(math.Inf(1))}, []float64{1}, 1, false},
		{"not zero", []float32{1e-20}, []float64{0}, 1, false},
		{"short", []float32{1}, []float64{1, 1}, 1, false},
	} {
		if err := compare(c.name, c.got, c.want, c.most); (err == nil) != c.same {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if compareWords("equal", []uint32{1, 2}, []uint32{1, 2}) != nil || compareWords("second", []uint32{1, 2}, []uint32{1, 3}) == nil ||
		compareWords("short", []uint32{1}, []uint32{1, 3}) == nil {
		t.Error("words: wrong")
	}
}
