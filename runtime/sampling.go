package runtime

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Sampling says how the next token is chosen from the logits: repeat penalty, presence and frequency penalty, bias, then
// top-k, top-p, min-p, then temperature, llama.cpp's default order: what is cut does not depend on the temperature. In every
// field zero means off; the zero Sampling is greedy.
//
// The device draws with Philox4x32-10 under the seed and the position of the token: a text that is continued with the same
// seed goes on as if it had never stopped.
type Sampling struct {
	Temperature   float64 // divides the logits; 0 takes the largest, ties the lowest id
	TopK          int     // keep the k largest; MaxTopK at most, unless it keeps the whole vocabulary
	TopP          float64 // keep the fewest of largest probability that reach this sum; 1 keeps all
	MinP          float64 // keep those with at least this share of the largest probability
	RepeatPenalty float64 // divides positive, multiplies other logits of tokens in the window; 1 changes nothing
	Presence      float64 // taken from the logits of tokens in the window
	Frequency     float64 // the same, for each time
	RepeatLast    int     // tokens of the history in the window; 0 is all of it
	Bias          map[int32]float64
	Seed          uint64
}

// MaxTopK bounds top-k: one workgroup searches the candidates for the cut, and drivers end its loops after so many rounds.
const MaxTopK = 2048

// MaxVocab is the largest vocabulary that can be sampled from: the weights of all its tokens fit into 64 bits.
const MaxVocab = 1 << 19

// Check refuses what the device cannot do for a vocabulary.
func (s Sampling) Check(vocab int) error {
	if vocab > MaxVocab {
		return fmt.Errorf("runtime: sampling: a vocabulary of %d tokens, want at most %d", vocab, MaxVocab)
	}
	for _, f := range []struct {
		name   string
		value  float64
		lo, hi float64
	}{
		{"temperature", s.Temperature, 0, math.MaxFloat64},
		{"top-k", float64(s.TopK), 0, math.MaxInt32},
		{"top-p", s.TopP, 0, 1},
		{"min-p", s.MinP, 0, 1},
		{"presence penalty", s.Presence, -MaxPenalty, MaxPenalty},
		{"frequency penalty", s.Frequency, -MaxPenalty, MaxPenalty},
		{"repeat window", float64(s.RepeatLast), 0, math.MaxInt32},
	} {
		if !(f.value >= f.lo && f.value <= f.hi) { // NaN fails both
			if f.hi >= math.MaxInt32 {
				return fmt.Errorf("runtime: sampling: %s of %v, want a finite number of at least 0", f.name, f.value)
			}
			return fmt.Errorf("runtime: sampling: %s of %v, want %v to %v", f.name, f.value, f.lo, f.hi)
		}
	}
	if r := s.RepeatPenalty; r != 0 && !(r >= MinRepeat && r <= MaxRepeat) {
		return fmt.Errorf("runtime: sampling: repeat penalty of %v, want %v to %v, or 0 for none", r, MinRepeat, MaxRepeat)
	}
	if s.TopK > MaxTopK && s.TopK < vocab {
		return fmt.Errorf("runtime: sampling: top-k of %d, want at most %d, or 0 for the whole vocabulary", s.TopK, MaxTopK)
	}
	ids := make([]int32, 0, len(s.Bias))
	for id := range s.Bias {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, cmp.Compare) // the first one is the one that is named
	for _, id := range ids {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("runtime: sampling: a bias for token %d, want 0 to %d", id, vocab-1)
		}
		if b := s.Bias[id]; !(b >= -MaxBias && b <= MaxBias) && !math.IsInf(b, -1) {
			return fmt.Errorf("runtime: sampling: a bias of %v for token %d, want %v to %v, or -inf to ban it", b, id, -MaxBias, MaxBias)
		}
	}
	return nil
}

// Bounds of penalties and biases: no sum of them makes a finite logit infinite.
const (
	MinRepeat, MaxRepeat = 0.01, 100.0
	MaxPenalty, MaxBias  = 1000.0, 1e6
)

// Draws tells whether a random number has a say.
func (s Sampling) Draws() bool { return s.Temperature > 0 }

// counts tells whether the tokens of the window matter.
func (s Sampling) counts() bool {
	return s.RepeatPenalty != 0 && s.RepeatPenalty != 1 || s.Presence != 0 || s.Frequency != 0
}

// The flags of the settings, as in include/sampling.glsl and advance.comp.
const (
	flagSees   = 1 // the table of adjustments is looked at
	flagCounts = 2 // tokens are counted as they are sampled
)

// SettingWords is the size of the settings of a row, in u32.
const SettingWords = 16

// Words are the settings of a row as the kernels read them.
func (s Sampling) Words(vocab int) [SettingWords]uint32 {
	float := func(v float64) uint32 { return math.Float32bits(float32(v)) }
	flags, k, p, weight, scale, repeat := uint32(0), uint32(s.TopK), uint32(0), uint64(0), 0.0, float32(1)
	if s.counts() {
		flags |= flagCounts
	}
	if flags != 0 || len(s.Bias) > 0 {
		flags |= flagSees
	}
	if s.TopK >= vocab {
		k = 0
	}
	if s.TopP > 0 && s.TopP < 1 {
		p = uint32(min(max(math.Round(s.TopP*(1<<32)), 1), math.MaxUint32))
	}
	if s.MinP > 0 {
		weight = max(uint64(math.Round(s.MinP*(1<<44))), 1)
	}
	if s.RepeatPenalty != 0 {
		repeat = float32(s.RepeatPenalty)
	}
	// A weight is 2^(scale (x - max)). Beyond these bounds only the largest logit weighs anything, or all weigh the same.
	scale = min(max(math.Log2E/s.Temperature, 1e-30), 1e30)
	if s.Temperature == 0 {
		k, p, weight, scale = 1, 0, 0, 1 // the largest, of equals the lowest id
	}
	return [SettingWords]uint32{flags, k, p, uint32(s.RepeatLast),
		uint32(weight), uint32(weight >> 32), uint32(s.Seed), uint32(s.Seed >> 32),
		float(scale), math.Float32bits(repeat), math.Float32bits(1 / repeat), float(s.Presence),
		float(s.Frequency)}
}
