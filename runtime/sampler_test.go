package runtime

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
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
		if got := philox(c.counter, c.key); got != c.want {
			t.Errorf("philox(%x, %x) = %x, want %x", c.counter, c.key, got, c.want)
		}
	}
	if got, want := uniform(0, 0), (0x6627e8d5+0.5)/(1<<32); got != want {
		t.Errorf("uniform(0, 0) = %v, want %v", got, want)
	}
	if uniform(1<<32, 0) == uniform(0, 0) || uniform(0, 1<<32) == uniform(0, 0) {
		t.Error("the high half of a seed or index does not count")
	}
}

func TestGreedyTakesTheLargestLogit(t *testing.T) {
	s := sampler(t, Sampling{})
	inf := float32(math.Inf(-1))
	for _, c := range []struct {
		logits []float32
		want   int32
	}{
		{[]float32{1, 3, 2}, 1},
		{[]float32{5}, 0},
		{[]float32{2, 7, 7, 1, 7}, 1}, // ties: the lowest id
		{[]float32{inf, inf, -900, inf}, 2},
	} {
		if got := next(t, s, c.logits, nil); got != c.want {
			t.Errorf("%v: token %d, want %d", c.logits, got, c.want)
		}
	}
}

func TestRepeatPenaltyLowersWhatWasSeenLately(t *testing.T) {
	logits := []float32{4, 3, -1, -1.5}
	for _, c := range []struct {
		name    string
		s       Sampling
		history []int32
		want    []float64
	}{
		{"off", Sampling{}, []int32{0, 1, 2}, []float64{4, 3, -1, -1.5}},
		{"one changes nothing", Sampling{RepeatPenalty: 1}, []int32{0, 2}, []float64{4, 3, -1, -1.5}},
		{"divides positive, multiplies negative", Sampling{RepeatPenalty: 2}, []int32{0, 2}, []float64{2, 3, -2, -1.5}},
		{"once for all times seen", Sampling{RepeatPenalty: 2}, []int32{0, 0, 0}, []float64{2, 3, -1, -1.5}},
		{"only the window", Sampling{RepeatPenalty: 2, RepeatLast: 2}, []int32{0, 1, 3}, []float64{4, 1.5, -1, -3}},
	} {
		s := sampler(t, c.s)
		if err := s.load(logits, c.history); err != nil {
			t.Fatal(err)
		}
		for i, want := range c.want {
			if got := s.candidates[i].logit; got != want {
				t.Errorf("%s: logit %d is %v, want %v", c.name, i, got, want)
			}
		}
	}
	if logits[0] != 4 {
		t.Error("the caller's logits were changed")
	}
	if got := next(t, sampler(t, Sampling{RepeatPenalty: 2}), logits, []int32{0}); got != 1 {
		t.Errorf("greedy with a penalty on token 0 took %d, want 1", got)
	}
}

// Four equal logits have probability 1/4 each, exactly.
func TestTopPKeepsTheFewestThatReachIt(t *testing.T) {
	even := []float32{1, 1, 1, 1}
	for _, c := range []struct {
		topP float64
		want []int32
	}{
		{0.1, []int32{0}}, {0.25, []int32{0}}, {0.2500001, []int32{0, 1}}, {0.5, []int32{0, 1}},
		{0.75, []int32{0, 1, 2}}, {0.7500001, []int32{0, 1, 2, 3}}, {1, []int32{0, 1, 2, 3}}, {0, []int32{0, 1, 2, 3}},
	} {
		if got := kept(t, Sampling{TopP: c.topP}, even); !slices.Equal(got, c.want) {
			t.Errorf("top-p %v keeps %v, want %v", c.topP, got, c.want)
		}
	}
	// Top-p counts shares of what top-k left: of two equals each is a half.
	if got := kept(t, Sampling{TopK: 2, TopP: 0.5}, even); !slices.Equal(got, []int32{0}) {
		t.Errorf("top-k 2, top-p 0.5 keeps %v, want [0]", got)
	}
}

func TestTopKAndMinPCutTheUnlikely(t *testing.T) {
	logits := []float32{0, 3, 1, 3, 2} // the largest are 1 and 3
	for _, c := range []struct {
		s    Sampling
		want []int32
	}{
		{Sampling{TopK: 1}, []int32{1}},
		{Sampling{TopK: 2}, []int32{1, 3}},
		{Sampling{TopK: 3}, []int32{1, 3, 4}},
		{Sampling{TopK: 5}, []int32{0, 1, 2, 3, 4}},
		{Sampling{TopK: 99}, []int32{0, 1, 2, 3, 4}},
		{Sampling{MinP: 1}, []int32{1, 3}},
		{Sampling{MinP: 0.36}, []int32{1, 3, 4}}, // e^-1 = 0.3679
		{Sampling{MinP: 0.37}, []int32{1, 3}},
		{Sampling{MinP: 0.1, TopK: 4}, []int32{1, 2, 3, 4}}, // e^-2 = 0.135
	} {
		if got := kept(t, c.s, logits); !slices.Equal(got, c.want) {
			t.Errorf("%+v keeps %v, want %v", c.s, got, c.want)
		}
	}
}

// Every combination leaves what a plain reading of the definitions leaves, with
// the same probabilities.
func TestSamplerAgreesWithThePlainDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := rapid.SliceOfN(rapid.Float32Range(-8, 8), 1, 300).Draw(t, "logits")
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(logits)-1), 0, 5).Draw(t, "copied") {
			logits[i] = logits[0] // ties
		}
		c := Sampling{
			Temperature:   rapid.SampledFrom([]float64{1e-3, 0.3, 1, 2}).Draw(t, "temperature"),
			TopK:          rapid.IntRange(0, 310).Draw(t, "top-k"),
			TopP:          rapid.Float64Range(0, 1).Draw(t, "top-p"),
			MinP:          rapid.SampledFrom([]float64{0, 0, 0.05, 0.5}).Draw(t, "min-p"),
			RepeatPenalty: rapid.SampledFrom([]float64{0, 1, 1.3}).Draw(t, "penalty"),
			RepeatLast:    rapid.IntRange(0, 20).Draw(t, "last"),
		}
		history := rapid.SliceOfN(rapid.Int32Range(0, int32(len(logits)-1)), 0, 40).Draw(t, "history")
		want := plain(c, logits, history)

		s := &hostSampler{Sampling: c}
		if err := s.load(logits, history); err != nil {
			t.Fatal(err)
		}
		s.cut()
		total := s.weigh(c.Temperature)
		if len(s.candidates) != len(want) {
			t.Fatalf("%d tokens left, want %d", len(s.candidates), len(want))
		}
		for i, got := range s.candidates {
			if i > 0 && s.candidates[i-1].id >= got.id {
				t.Fatal("not in order of id")
			}
			if p, ok := want[got.id]; !ok || math.Abs(got.weight/total-p) > 1e-12 {
				t.Fatalf("token %d has probability %v, want %v", got.id, got.weight/total, p)
			}
		}
	})
}

// plain gives each token that may be drawn its probability, step by step as
// the papers put it.
func plain(c Sampling, logits []float32, history []int32) map[int32]float64 {
	type token struct {
		id   int32
		x, p float64
	}
	var all []token
	recent := history
	if c.RepeatLast > 0 {
		recent = history[max(0, len(history)-c.RepeatLast):]
	}
	for id, l := range logits {
		x := float64(l)
		if c.RepeatPenalty != 0 && slices.Contains(recent, int32(id)) {
			if x > 0 {
				x /= c.RepeatPenalty
			} else {
				x *= c.RepeatPenalty
			}
		}
		all = append(all, token{id: int32(id), x: x})
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
	if c.TopK > 0 {
		all = all[:min(c.TopK, len(all))]
	}
	softmax(1)
	if c.TopP > 0 && c.TopP < 1 {
		sum, n := 0.0, 0
		for sum < c.TopP && n < len(all) {
			sum += all[n].p
			n++
		}
		all = all[:n]
	}
	for c.MinP > 0 && all[len(all)-1].p < c.MinP*all[0].p {
		all = all[:len(all)-1]
	}
	softmax(c.Temperature)
	left := map[int32]float64{}
	for _, k := range all {
		left[k.id] = k.p
	}
	return left
}

func TestDrawsFollowTheDistribution(t *testing.T) {
	logits := []float32{0.5, 2, -1, 1, 0, 1.5, -3, 0.2}
	for _, c := range []Sampling{
		{Temperature: 1, Seed: 1},
		{Temperature: 0.5, Seed: 2},
		{Temperature: 3, Seed: 3},
		{Temperature: 0.8, TopK: 5, TopP: 0.9, MinP: 0.05, Seed: 4},
	} {
		drawn := draw(t, c, logits, 200_000)
		if excess := chiSquare(t, drawn, plain(c, logits, nil)); excess > 4 {
			t.Errorf("%+v: chi-square lies %.1f standard deviations above its mean", c, excess)
		}
		// The check must notice a temperature off by five per cent.
		wrong := c
		wrong.Temperature *= 1.05
		if excess := chiSquare(t, drawn, plain(wrong, logits, nil)); excess < 10 {
			t.Errorf("%+v: a wrong temperature passes (%.1f standard deviations)", c, excess)
		}
	}
}

// Draws that repeat a shorter sequence would pass a chi-square test of single
// tokens; pairs of neighbours show it.
func TestDrawsAreIndependent(t *testing.T) {
	ids := sequence(t, Sampling{Temperature: 1, Seed: 9}, make([]float32, 8), 128_000)
	drawn, want := map[int32]int{}, map[int32]float64{}
	for i := 0; i+1 < len(ids); i += 2 {
		drawn[8*ids[i]+ids[i+1]]++
	}
	for pair := range int32(64) {
		want[pair] = 1.0 / 64
	}
	if excess := chiSquare(t, drawn, want); excess > 4 {
		t.Errorf("pairs: chi-square lies %.1f standard deviations above its mean", excess)
	}
	clear(drawn)
	for i := 0; i+1 < len(ids); i += 2 {
		drawn[8*ids[i]+ids[i]]++
	}
	if excess := chiSquare(t, drawn, want); excess < 10 {
		t.Errorf("a sequence that repeats each token passes (%.1f standard deviations)", excess)
	}
}

func TestSeedsRepeatAndDiffer(t *testing.T) {
	logits := make([]float32, 1000)
	first := sequence(t, Sampling{Temperature: 1, Seed: 7}, logits, 64)
	if again := sequence(t, Sampling{Temperature: 1, Seed: 7}, logits, 64); !slices.Equal(first, again) {
		t.Error("the same seed drew other tokens")
	}
	for _, seed := range []uint64{8, 7 + 1<<32, 0} {
		if other := sequence(t, Sampling{Temperature: 1, Seed: seed}, logits, 64); slices.Equal(first, other) {
			t.Errorf("seeds 7 and %d drew the same tokens", seed)
		}
	}
}

func TestBrokenLogitsAreAnError(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, temperature := range []float64{0, 1} {
		s := sampler(t, Sampling{Temperature: temperature, RepeatPenalty: 1.1})
		for _, c := range []struct {
			logits  []float32
			history []int32
			want    string
		}{
			{[]float32{0, nan, 1}, nil, "logit of token 1 is NaN"},
			{[]float32{0, 1, inf}, nil, "logit of token 2 is +Inf"},
			{[]float32{-inf, -inf}, nil, "none of 2 logits is finite"},
			{nil, nil, "none of 0 logits"},
			{[]float32{0, 1}, []int32{2}, "history holds token 2"},
			{[]float32{0, 1}, []int32{-1}, "history holds token -1"},
		} {
			if _, err := s.Next(c.logits, c.history); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v after %v: %v, want %q", c.logits, c.history, err, c.want)
			}
		}
		for range 100 {
			if got := next(t, s, []float32{-inf, 3, -inf}, nil); got != 1 {
				t.Fatalf("drew token %d, whose logit is -Inf", got)
			}
		}
	}
}

func TestSamplingOutsideItsRangeIsAnError(t *testing.T) {
	for _, s := range []Sampling{
		{Temperature: -1}, {Temperature: math.NaN()}, {Temperature: math.Inf(1)}, {TopK: -1},
		{TopP: 1.01}, {TopP: -0.1}, {MinP: 2}, {RepeatPenalty: -1}, {RepeatLast: -1},
	} {
		if _, err := NewSampler(s); err == nil || !strings.HasPrefix(err.Error(), "runtime: sampling: ") {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if got := next(t, sampler(t, Sampling{Temperature: math.SmallestNonzeroFloat64}), []float32{1, 2, 1.999}, nil); got != 1 {
		t.Errorf("the smallest temperature drew %d, want the largest logit", got)
	}
}

func BenchmarkSampler(b *testing.B) {
	logits := make([]float32, 49152)
	source := rand.New(rand.NewPCG(1, 2))
	for i := range logits {
		logits[i] = float32(source.NormFloat64() * 3)
	}
	for _, s := range []Sampling{{}, {Temperature: 0.7}, {Temperature: 0.7, TopK: 40, TopP: 0.95}, {Temperature: 0.7, TopP: 0.95}} {
		b.Run(fmt.Sprintf("temp=%v,top-k=%d,top-p=%v", s.Temperature, s.TopK, s.TopP), func(b *testing.B) {
			sampler := &hostSampler{Sampling: s}
			for b.Loop() {
				if _, err := sampler.Next(logits, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func sampler(t *testing.T, s Sampling) *hostSampler {
	t.Helper()
	made, err := NewSampler(s)
	if err != nil {
		t.Fatal(err)
	}
	return made.(*hostSampler)
}

func next(t *testing.T, s Sampler, logits []float32, history []int32) int32 {
	t.Helper()
	id, err := s.Next(logits, history)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// kept returns the ids that may be drawn.
func kept(t *testing.T, s Sampling, logits []float32) (ids []int32) {
	t.Helper()
	made := sampler(t, s)
	if err := made.load(logits, nil); err != nil {
		t.Fatal(err)
	}
	made.cut()
	for _, c := range made.candidates {
		ids = append(ids, c.id)
	}
	return ids
}

func sequence(t *testing.T, s Sampling, logits []float32, n int) []int32 {
	t.Helper()
	made, ids := sampler(t, s), make([]int32, n)
	for i := range ids {
		ids[i] = next(t, made, logits, nil)
	}
	return ids
}

func draw(t *testing.T, s Sampling, logits []float32, n int) map[int32]int {
	t.Helper()
	drawn := map[int32]int{}
	for _, id := range sequence(t, s, logits, n) {
		drawn[id]++
	}
	return drawn
}

// chiSquare returns how many standard deviations the statistic of the draws
// lies above its mean under want; a token outside want fails.
func chiSquare(t *testing.T, drawn map[int32]int, want map[int32]float64) float64 {
	t.Helper()
	n := 0
	for id, count := range drawn {
		n += count
		if _, possible := want[id]; !possible {
			t.Errorf("drew %d, which has no probability", id)
		}
	}
	sum := 0.0
	for id, p := range want {
		expected := p * float64(n)
		sum += (float64(drawn[id]) - expected) * (float64(drawn[id]) - expected) / expected
	}
	freedom := float64(len(want) - 1)
	return (sum - freedom) / math.Sqrt(2*freedom)
}
