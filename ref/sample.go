package ref

import (
	"cmp"
	"math"
	"slices"
)

// Sampling is how the next token is chosen from the logits. In every field zero means off; the zero Sampling is greedy.
type Sampling struct {
	Temperature   float64 // divides the logits; 0 takes the largest, ties the lowest id
	TopK          int     // keep the k largest, of equals the lowest ids
	TopP          float64 // keep the fewest of largest probability that reach this sum
	MinP          float64 // keep those with at least this share of the largest probability
	RepeatPenalty float32 // divides positive, multiplies other logits of tokens in the window
	Presence      float32 // taken from the logits of tokens in the window
	Frequency     float32 // the same, for each time
	Window        int     // last tokens of the history that count, 0 = all of it
	Bias          map[int]float32
	Seed          uint64
}

// NoToken stands where no token can be chosen: a logit is NaN or +inf, or none is finite.
const NoToken = -1

// Distribution is the tokens that may be drawn.
type Distribution struct {
	Tokens []Weighted // by ascending id; none where no token can be chosen
	Total  float64    // of their weights
	Near   float64    // how near, as a share, the cut came to keeping a token more or less
}

// Weighted is a token with its logit and exp((logit - largest) / temperature).
type Weighted struct {
	ID     int
	Logit  float64
	Weight float64
}

// Logits are those that the sampler sees after a history: repeat penalty (CTRL, arXiv 1909.05858), then presence and
// frequency penalty, then bias. Each step is rounded to f32.
func (s Sampling) Logits(logits []float32, history []int) []float32 {
	out := slices.Clone(logits)
	for id, times := range Count(history, s.Window) {
		x := out[id]
		if s.RepeatPenalty != 0 {
			if x > 0 {
				x *= 1 / s.RepeatPenalty
			} else {
				x *= s.RepeatPenalty
			}
		}
		often := s.Frequency * float32(times)
		penalty := often + s.Presence
		out[id] = x - penalty
	}
	for id, b := range s.Bias {
		out[id] += b
	}
	return out
}

// Distribution applies top-k (arXiv 1805.04833), top-p (arXiv 1904.09751), min-p (arXiv 2407.01082), then temperature: what
// is cut does not depend on the temperature.
func (s Sampling) Distribution(logits []float32, history []int) Distribution {
	var all []Weighted
	for id, l := range s.Logits(logits, history) {
		x := float64(l)
		switch {
		case math.IsNaN(x) || math.IsInf(x, 1):
			return Distribution{}
		case !math.IsInf(x, -1):
			all = append(all, Weighted{ID: id, Logit: x})
		}
	}
	if len(all) == 0 {
		return Distribution{}
	}
	d := Distribution{Tokens: all, Near: 1}
	if s.Temperature == 0 {
		best := slices.MinFunc(all, byLogit)
		best.Weight = 1
		return Distribution{Tokens: []Weighted{best}, Total: 1, Near: 1}
	}
	d.cut(s)
	d.weigh(s.Temperature)
	return d
}

// cut keeps the beginning of the tokens in order of falling logit and rising id, then sorts them by id.
func (d *Distribution) cut(s Sampling) {
	if s.TopK == 0 && s.TopP == 0 && s.MinP == 0 {
		return
	}
	slices.SortFunc(d.Tokens, byLogit)
	if s.TopK > 0 {
		d.Tokens = d.Tokens[:min(s.TopK, len(d.Tokens))]
	}
	d.weigh(1)
	if s.TopP > 0 && s.TopP < 1 {
		sum := 0.0
		for i, t := range d.Tokens {
			sum += t.Weight
			d.Near = min(d.Near, math.Abs(sum/d.Total-s.TopP))
			if sum >= s.TopP*d.Total {
				d.Tokens = d.Tokens[:i+1]
				break
			}
		}
	}
	if s.MinP > 0 {
		for i, t := range d.Tokens {
			if t.Weight < 1 { // the largest weighs 1, exactly
				d.Near = min(d.Near, math.Abs(t.Weight/s.MinP-1))
			}
			if t.Weight < s.MinP {
				d.Tokens = d.Tokens[:i]
				break
			}
		}
	}
	slices.SortFunc(d.Tokens, func(a, b Weighted) int { return cmp.Compare(a.ID, b.ID) })
}

// weigh sets every weight, and their sum.
func (d *Distribution) weigh(temperature float64) {
	peak := slices.MinFunc(d.Tokens, byLogit).Logit
	d.Total = 0
	for i := range d.Tokens {
		t := &d.Tokens[i]
		t.Weight = 1
		if t.Logit != peak { // a temperature near 0 makes 0/0 of no difference
			t.Weight = math.Exp((t.Logit - peak) / temperature)
		}
		d.Total += t.Weight
	}
}

// byLogit orders the likeliest first; of equals, the lowest id.
func byLogit(a, b Weighted) int {
	if a.Logit != b.Logit {
		return cmp.Compare(b.Logit, a.Logit)
	}
	return cmp.Compare(a.ID, b.ID)
}

// At is the token at a share u of the whole, 0 < u < 1: the first, in order of id, with which the sum of the weights passes
// it. near is how far u is from the bounds of its part.
func (d Distribution) At(u float64) (token int, near float64) {
	sum, near := 0.0, 1.0
	for i, t := range d.Tokens {
		before := sum
		if sum += t.Weight; sum > u*d.Total || i == len(d.Tokens)-1 {
			if i > 0 {
				near = min(near, math.Abs(u-before/d.Total))
			}
			if i < len(d.Tokens)-1 {
				near = min(near, math.Abs(sum/d.Total-u))
			}
			return t.ID, near
		}
	}
	return NoToken, 1
}

// Sample chooses the token that follows history, with the random number of its position. near is how near, as a share of the
// whole, another choice was.
func (s Sampling) Sample(logits []float32, history []int) (token int, near float64) {
	d := s.Distribution(logits, history)
	token, near = d.At(Uniform(s.Seed, uint64(len(history))))
	if token == NoToken {
		return token, 1
	}
	return token, min(near, d.Near)
}
