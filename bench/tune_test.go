package bench

import (
	"errors"
	"testing"

	"vkdecode/runtime"
	"vkdecode/shaders"
)

// steps gives values in turn, the last one for ever.
func steps(values ...float64) func() (float64, error) {
	n := 0
	return func() (float64, error) {
		v := values[min(n, len(values)-1)]
		n++
		return v, nil
	}
}

// slower are the times of a device on which everything takes longer and longer.
func slower(micros float64) func() (float64, error) {
	return func() (float64, error) {
		micros *= 1.02
		return micros, nil
	}
}

func ways(all ...*way) []*way {
	for i, w := range all {
		w.Form, w.Launch, w.Table = shaders.Shared.String(), runtime.Launch{Lanes: 64, Run: 32, Rows: 4 * (i + 1)}, i == 0
	}
	return all
}

func TestAWayWinsOnlyIfItIsClearlyQuickerAndNoSlowerInPrompts(t *testing.T) {
	once, broken := steps(10), func() (float64, error) { return 0, errors.New("NMSE 1") }
	for _, c := range []struct {
		name string
		ways []*way
		won  int
	}{
		{"the table alone", ways(&way{decode: once, chunk: once}), 0},
		{"quicker", ways(&way{decode: steps(10), chunk: once}, &way{decode: steps(9), chunk: once}), 1},
		{"the quickest", ways(&way{decode: steps(10), chunk: once}, &way{decode: steps(9), chunk: once}, &way{decode: steps(8), chunk: once}), 2},
		{"hardly quicker", ways(&way{decode: steps(10), chunk: once}, &way{decode: steps(9.6), chunk: once}), 0},
		{"slower", ways(&way{decode: steps(10), chunk: once}, &way{decode: steps(19), chunk: once}), 0},
		{"slower in prompts", ways(&way{decode: steps(10), chunk: once}, &way{decode: steps(5), chunk: steps(10.6)}), 0},
		{"slower in prompts, and the next best", ways(&way{decode: steps(10), chunk: once}, &way{decode: steps(5), chunk: steps(10.6)}, &way{decode: steps(8), chunk: steps(10.4)}), 2},
		{"wrong in prompts, and the next best", ways(&way{decode: steps(10), chunk: once}, &way{decode: steps(5), chunk: broken}, &way{decode: steps(8), chunk: once}), 2},
		{"quicker now and then", ways(&way{decode: steps(10), chunk: once}, &way{decode: steps(1, 1, 10, 10, 1, 10, 10, 10, 1, 10), chunk: once}), 0},
		{"beside a table's way that was held up", ways(&way{decode: steps(30, 30, 10, 30), chunk: once}, &way{decode: steps(20), chunk: once}), 0},
		{"quicker by chance", ways(&way{decode: steps(10), chunk: once}, &way{decode: steps(8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 10), chunk: once}), 0},
		{"on a device that slows down", ways(&way{decode: slower(10), chunk: once}, &way{decode: slower(10), chunk: once}), 0},
		{"quicker on a device that slows down", ways(&way{decode: slower(10), chunk: once}, &way{decode: slower(9), chunk: once}), 1},
	} {
		contest := &contest{ways: c.ways}
		choice, err := contest.measure(t.Context(), c.ways[0])
		if err != nil {
			t.Fatal(err)
		}
		if choice.Launch != c.ways[c.won].Launch || !c.ways[c.won].Won {
			t.Errorf("%s: %v won, want %v", c.name, choice.Launch, c.ways[c.won].Launch)
		}
		if choice.Best > choice.Table || c.won > 0 && choice.Best*runtime.Margin > choice.Table || c.won == 0 && choice.Best != choice.Table {
			t.Errorf("%s: %g us, the table's way takes %g", c.name, choice.Best, choice.Table)
		}
	}
}

// Of another form all times are told as ratios to the first form's, measured beside it.
func TestAnotherFormIsMeasuredBesideTheFirst(t *testing.T) {
	base, all := &way{decode: steps(20)}, ways(&way{decode: steps(40), chunk: steps(1)}, &way{decode: steps(10), chunk: steps(1)})
	c := &contest{ways: all, other: &runtime.Engine{}, micros: 7} // what the first form took when it was measured
	choice, err := c.measure(t.Context(), base)
	if err != nil || choice.Table != 14 || choice.Best != 3.5 || choice.Launch != all[1].Launch {
		t.Errorf("%+v, %v", choice, err)
	}
}

func TestAWayThatIsHopelessIsNotMeasuredAgain(t *testing.T) {
	n := 0
	count := func() (float64, error) {
		n++
		return 100, nil
	}
	all := ways(&way{decode: steps(10)}, &way{decode: count})
	if err := race(t.Context(), all, decoding); err != nil || n != 2 || len(all[1].times) != 1 || len(all[0].times) != tuneRounds {
		t.Errorf("measured %d times, %v", n, err)
	}
	broken := errors.New("lost")
	all[1].decode = func() (float64, error) { return 0, broken }
	if err := race(t.Context(), all, decoding); err != broken {
		t.Errorf("%v", err)
	}
}
