package ref

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Known answers of Random123's kat_vectors, philox4x32 with 10 rounds.
func TestPhiloxGivesThePublishedAnswers(t *testing.T) {
	const ones = 0xffffffff
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{want: [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{ones, ones, ones, ones}, [2]uint32{ones, ones}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{ // digits of pi
			[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
		},
	} {
		if got := Philox(c.counter, c.key); got != c.want {
			t.Errorf("philox(%x, %x) = %x, want %x", c.counter, c.key, got, c.want)
		}
	}
	if got, want := Uniform(0, 0), (0x6627e8d5+0.5)/(1<<32); got != want {
		t.Errorf("uniform(0, 0) = %v, want %v", got, want)
	}
	if Uniform(1<<32, 0) == Uniform(0, 0) || Uniform(0, 1) == Uniform(0, 0) {
		t.Error("the high half of the seed or the index does not count")
	}
}

func TestGreedyTakesTheLargestLogit(t *testing.T) {
	inf := float32(math.Inf(-1))
	for _, c := range []struct {
		logits []float32
		want   int
	}{
		{[]float32{1, 3, 2}, 1},
		{[]float32{5}, 0},
		{[]float32{2, 7, 7, 1, 7}, 1}, // ties: the lowest id
		{[]float32{inf, inf, -900, inf}, 2},
	} {
		if got, _ := (Sampling{}).Sample(c.logits, nil); got != c.want {
			t.Errorf("%v: token %d, want %d", c.logits, got, c.want)
		}
	}
}

func TestPenaltiesLowerWhatStandsInTheWindow(t *testing.T) {
	logits := []float32{4, 3, -1, -1.5}
	for _, c := range []struct {
		name    string
		s       Sampling
		history []int
		want    []float32
	}{
		{"off", Sampling{}, []int{0, 1, 2}, []float32{4, 3, -1, -1.5}},
		{"one changes nothing", Sampling{RepeatPenalty: 1}, []int{0, 2}, []float32{4, 3, -1, -1.5}},
		{"divides positive, multiplies negative", Sampling{RepeatPenalty: 2}, []int{0, 2}, []float32{2, 3, -2, -1.5}},
		{"once for all times seen", Sampling{RepeatPenalty: 2}, []int{0, 0, 0}, []float32{2, 3, -1, -1.5}},
		{"only the window", Sampling{RepeatPenalty: 2, Window: 2}, []int{0, 1, 3}, []float32{4, 1.5, -1, -3}},
		{"presence counts once", Sampling{Presence: 0.5}, []int{0, 0, 2}, []float32{3.5, 3, -1.5, -1.5}},
		{"frequency counts each time", Sampling{Frequency: 0.5}, []int{0, 0, 2}, []float32{3, 3, -1.5, -1.5}},
		{"all of them, with a bias", Sampling{RepeatPenalty: 2, Presence: 1, Frequency: 0.5, Bias: map[int]float32{0: 10, 3: float32(math.Inf(-1))}}, []int{0, 0},
			[]float32{10, 3, -1, float32(math.Inf(-1))}},
	} {
		if got := c.s.Logits(logits, c.history); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if logits[0] != 4 {
		t.Error("the caller's logits were changed")
	}
}

// kept are the tokens that may be drawn.
func kept(s Sampling, logits []float32) (ids []int) {
	s.Temperature = 1
	for _, t := range s.Distribution(logits, nil).Tokens {
		ids = append(ids, t.ID)
	}
	return ids
}

// Four equal logits have probability 1/4 each, exactly.
func TestTopPKeepsTheFewestThatReachIt(t *testing.T) {
	even := []float32{1, 1, 1, 1}
	for _, c := range []struct {
		topP float64
		want []int
	}{
		{0.1, []int{0}}, {0.25, []int{0}}, {0.2500001, []int{0, 1}}, {0.5, []int{0, 1}},
		{0.75, []int{0, 1, 2}}, {0.7500001, []int{0, 1, 2, 3}}, {1, []int{0, 1, 2, 3}}, {0, []int{0, 1, 2, 3}},
	} {
		if got := kept(Sampling{TopP: c.topP}, even); !slices.Equal(got, c.want) {
			t.Errorf("top-p %v keeps %v, want %v", c.topP, got, c.want)
		}
	}
	// Top-p counts shares of what top-k left: of two equals each is a half.
	if got := kept(Sampling{TopK: 2, TopP: 0.5}, even); !slices.Equal(got, []int{0}) {
		t.Errorf("top-k 2, top-p 0.5 keeps %v, want [0]", got)
	}
}

func TestTopKAndMinPCutTheUnlikely(t *testing.T) {
	logits := []float32{0, 3, 1, 3, 2} // the largest are 1 and 3
	for _, c := range []struct {
		s    Sampling
		want []int
	}{
		{Sampling{TopK: 1}, []int{1}},
		{Sampling{TopK: 2}, []int{1, 3}},
		{Sampling{TopK: 3}, []int{1, 3, 4}},
		{Sampling{TopK: 5}, []int{0, 1, 2, 3, 4}},
		{Sampling{TopK: 99}, []int{0, 1, 2, 3, 4}},
		{Sampling{MinP: 1}, []int{1, 3}},
		{Sampling{MinP: 0.36}, []int{1, 3, 4}}, // e^-1 = 0.3679
		{Sampling{MinP: 0.37}, []int{1, 3}},
		{Sampling{MinP: 0.1, TopK: 4}, []int{1, 2, 3, 4}}, // e^-2 = 0.135
	} {
		if got := kept(c.s, logits); !slices.Equal(got, c.want) {
			t.Errorf("%+v keeps %v, want %v", c.s, got, c.want)
		}
	}
}

// What is drawn, and how often, is what the definitions say when they are read one after the other.
func TestDistributionsAreThoseOfTheDefinitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := rapid.SliceOfN(rapid.Float32Range(-8, 8), 1, 300).Draw(t, "logits")
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(logits)-1), 0, 5).Draw(t, "copied") {
			logits[i] = logits[0] // ties
		}
		s := Sampling{
			Temperature: rapid.SampledFrom([]float64{1e-3, 0.3, 1, 2}).Draw(t, "temperature"),
			TopK:        rapid.IntRange(0, 310).Draw(t, "top-k"),
			TopP:        rapid.Float64Range(0, 1).Draw(t, "top-p"),
			MinP:        rapid.SampledFrom([]float64{0, 0, 0.05, 0.5}).Draw(t, "min-p"),
		}
		want, d := plain(s, logits), s.Distribution(logits, nil)
		if len(d.Tokens) != len(want) {
			t.Fatalf("%d tokens left, want %d", len(d.Tokens), len(want))
		}
		for i, got := range d.Tokens {
			if i > 0 && d.Tokens[i-1].ID >= got.ID {
				t.Fatal("not in order of id")
			}
			if p, ok := want[got.ID]; !ok || math.Abs(got.Weight/d.Total-p) > 1e-12 {
				t.Fatalf("token %d has probability %v, want %v", got.ID, got.Weight/d.Total, p)
			}
		}
		// The token at a share is the one whose part of the whole it lies in.
		u := rapid.Float64Range(1e-9, 1-1e-9).Draw(t, "u")
		token, near := d.At(u)
		below, upto := 0.0, 0.0
		for _, other := range d.Tokens {
			if other.ID < token {
				below += want[other.ID]
			}
			if other.ID <= token {
				upto += want[other.ID]
			}
		}
		if u < below-1e-12 || u > upto+1e-12 || near > math.Abs(u-below)+1e-12 && token != d.Tokens[0].ID {
			t.Fatalf("at %v token %d, whose part is %v to %v, near %v", u, token, below, upto, near)
		}
	})
}

// plain gives each token that may be drawn its probability, step by step as the papers put it.
func plain(s Sampling, logits []float32) map[int]float64 {
	type token struct {
		id   int
		x, p float64
	}
	var all []token
	for id, l := range logits {
		all = append(all, token{id: id, x: float64(l)})
	}
	slices.SortStableFunc(all, func(a, b token) int {
		switch {
		case a.x > b.x:
			return -1
		case a.x < b.x:
			return 1
		}
		return 0
	})
	softmax := func(temperature float64) {
		total := 0.0
		for i := range all {
			all[i].p = math.Exp((all[i].x - all[0].x) / temperature)
			total += all[i].p
		}
		for i := range all {
			all[i].p /= total
		}
	}
	if s.TopK > 0 {
		all = all[:min(s.TopK, len(all))]
	}
	softmax(1)
	if s.TopP > 0 && s.TopP < 1 {
		sum, n := 0.0, 0
		for sum < s.TopP && n < len(all) {
			sum += all[n].p
			n++
		}
		all = all[:n]
	}
	for s.MinP > 0 && all[len(all)-1].p < s.MinP*all[0].p {
		all = all[:len(all)-1]
	}
	softmax(s.Temperature)
	left := map[int]float64{}
	for _, k := range all {
		left[k.id] = k.p
	}
	return left
}

func TestBrokenLogitsHaveNoToken(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, temperature := range []float64{0, 1} {
		s := Sampling{Temperature: temperature}
		for _, logits := range [][]float32{{0, nan, 1}, {0, 1, inf}, {-inf, -inf}, nil} {
			if got, _ := s.Sample(logits, nil); got != NoToken {
				t.Errorf("%v: token %d, want none", logits, got)
			}
		}
		for n := range 100 {
			if got, _ := s.Sample([]float32{-inf, 3, -inf}, make([]int, n)); got != 1 {
				t.Fatalf("drew token %d, whose logit is -inf", got)
			}
		}
	}
}
