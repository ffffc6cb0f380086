package runtime

import (
	"math"
	"strings"
	"testing"
)

func TestSamplingOutsideItsRangeIsAnError(t *testing.T) {
	const vocab = 1 << 18
	nan, inf := math.NaN(), math.Inf(1)
	for _, s := range []Sampling{
		{Temperature: -1}, {Temperature: nan}, {Temperature: inf}, {TopK: -1}, {TopP: 1.01}, {TopP: -0.1}, {TopP: nan}, {MinP: 2},
		{RepeatPenalty: -1}, {RepeatPenalty: 1e-3}, {RepeatPenalty: 101}, {RepeatPenalty: nan}, {RepeatLast: -1},
		{Presence: inf}, {Presence: -1001}, {Frequency: nan}, {Frequency: 1001},
		{TopK: MaxTopK + 1}, {Bias: map[int32]float64{-1: 0}}, {Bias: map[int32]float64{vocab: 0}}, {Bias: map[int32]float64{0: inf}}, {Bias: map[int32]float64{0: nan}},
	} {
		if err := s.Check(vocab); err == nil || !strings.HasPrefix(err.Error(), "runtime: sampling: ") {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for _, s := range []Sampling{
		{}, {Temperature: math.MaxFloat64}, {Temperature: math.SmallestNonzeroFloat64}, {TopK: MaxTopK}, {TopK: vocab}, {TopK: math.MaxInt32}, {TopP: 1, MinP: 1},
		{RepeatPenalty: 1.3, Presence: -2, Frequency: 2, RepeatLast: 64, Bias: map[int32]float64{vocab - 1: math.Inf(-1), 0: -MaxBias}},
	} {
		if err := s.Check(vocab); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if err := (Sampling{}).Check(MaxVocab + 1); err == nil {
		t.Error("a vocabulary that is too large passes")
	}
}

// What a setting cannot change must not be looked up.
func TestSettingsThatChangeNothingAreOff(t *testing.T) {
	const flags, k, p = 0, 1, 2
	for _, s := range []Sampling{{Temperature: 1}, {Temperature: 1, RepeatPenalty: 1, TopP: 1, TopK: 100, RepeatLast: 7}} {
		if w := s.Words(100); w[flags] != 0 || w[k] != 0 || w[p] != 0 {
			t.Errorf("%+v: %v", s, w)
		}
	}
	for _, s := range []Sampling{{RepeatPenalty: 1.1}, {Presence: 1}, {Frequency: -1}} {
		if w := s.Words(100); w[flags] != flagSees|flagCounts || w[k] != 1 {
			t.Errorf("%+v: %v", s, w)
		}
	}
	if w := (Sampling{Bias: map[int32]float64{1: 1}}).Words(100); w[flags] != flagSees {
		t.Errorf("a bias: %v", w)
	}
}
