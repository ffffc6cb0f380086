package runtime

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Sampling says how the next token is chosen from the logits. In every field
// zero means off; the zero Sampling is greedy.
type Sampling struct {
	Temperature   float64 // divides the logits; 0 takes the largest, ties the lowest id
	TopK          int     // keep the k largest
	TopP          float64 // keep the fewest of largest probability that reach this sum; 1 keeps all
	MinP          float64 // keep those with at least this share of the largest probability
	RepeatPenalty float64 // divides positive, multiplies other logits of tokens seen lately; 1 changes nothing
	RepeatLast    int     // tokens of the history that count as lately; 0 is all of it
	Seed          uint64
}

// Sampler chooses the token that follows history. It neither changes nor keeps
// logits (vocabulary) f32. Logits that are NaN or +Inf, or all -Inf, are an
// error: a broken model must not decode on. A logit of -Inf is never chosen.
type Sampler interface {
	Next(logits []float32, history []int32) (int32, error)
}

// NewSampler checks s and returns its Sampler: repeat penalty (CTRL, arXiv
// 1909.05858), top-k (arXiv 1805.04833), top-p (arXiv 1904.09751), min-p (arXiv
// 2407.01082), then temperature, llama.cpp's default order: what is cut does
// not depend on the temperature.
func NewSampler(s Sampling) (Sampler, error) {
	for _, f := range []struct {
		name   string
		value  float64
		lo, hi float64
	}{
		{"temperature", s.Temperature, 0, math.MaxFloat64},
		{"top-k", float64(s.TopK), 0, math.MaxInt32},
		{"top-p", s.TopP, 0, 1},
		{"min-p", s.MinP, 0, 1},
		{"repeat penalty", s.RepeatPenalty, 0, math.MaxFloat64},
		{"repeat window", float64(s.RepeatLast), 0, math.MaxInt32},
	} {
		if !(f.value >= f.lo && f.value <= f.hi) { // NaN fails both
			if f.hi == 1 {
				return nil, fmt.Errorf("runtime: sampling: %s of %v, want 0 to 1", f.name, f.value)
			}
			return nil, fmt.Errorf("runtime: sampling: %s of %v, want a finite number of at least 0", f.name, f.value)
		}
	}
	return &hostSampler{Sampling: s}, nil
}

// hostSampler draws on the CPU with float64 sums.
type hostSampler struct {
	Sampling
	draws      uint64      // tokens drawn so far, the generator's counter
	candidates []candidate // reused
	seen       []int32     // reused
}

// candidate is a token that may still be chosen.
type candidate struct {
	id     int32
	logit  float64
	weight float64 // exp(logit - largest), later by temperature; unnormalised
}

func (s *hostSampler) Next(logits []float32, history []int32) (int32, error) {
	if err := s.load(logits, history); err != nil {
		return 0, err
	}
	if s.Temperature == 0 {
		return slices.MinFunc(s.candidates, byLogit).id, nil
	}
	s.cut()
	total := s.weigh(s.Temperature)
	point := uniform(s.Seed, s.draws) * total
	s.draws++
	sum := 0.0
	for _, c := range s.candidates {
		if sum += c.weight; sum > point {
			return c.id, nil
		}
	}
	panic("runtime: a sum repeated in the same order fell short of itself")
}

// load fills candidates with every possible token, in order of id, and applies
// the repeat penalty.
func (s *hostSampler) load(logits []float32, history []int32) error {
	s.candidates = slices.Grow(s.candidates[:0], len(logits))[:len(logits)]
	possible := false
	for id, l := range logits {
		x := float64(l)
		if math.IsNaN(x) || math.IsInf(x, 1) {
			return fmt.Errorf("runtime: logit of token %d is %v, want a finite number; the weights or a kernel are broken (vkdecode doctor)", id, x)
		}
		possible = possible || !math.IsInf(x, -1)
		s.candidates[id] = candidate{id: int32(id), logit: x}
	}
	if !possible {
		return fmt.Errorf("runtime: none of %d logits is finite: there is no token to choose", len(logits))
	}
	if s.RepeatPenalty == 0 || s.RepeatPenalty == 1 {
		return nil
	}
	if s.RepeatLast > 0 && len(history) > s.RepeatLast {
		history = history[len(history)-s.RepeatLast:]
	}
	s.seen = append(s.seen[:0], history...)
	slices.Sort(s.seen)
	for _, id := range slices.Compact(s.seen) { // once, however often it was seen
		if id < 0 || int(id) >= len(logits) {
			return fmt.Errorf("runtime: history holds token %d, want one of the vocabulary's %d", id, len(logits))
		}
		if c := &s.candidates[id]; c.logit > 0 {
			c.logit /= s.RepeatPenalty
		} else {
			c.logit *= s.RepeatPenalty
		}
	}
	return nil
}

// cut drops what top-k, top-p and min-p exclude and leaves the rest in order of
// id: the draw must not depend on how they were found.
func (s *hostSampler) cut() {
	if s.TopK > 0 && s.TopK < len(s.candidates) {
		s.candidates = largest(s.candidates, s.TopK)
	}
	if s.TopP > 0 && s.TopP < 1 {
		s.cutTail()
	}
	if s.MinP > 0 {
		s.weigh(1)
		s.candidates = slices.DeleteFunc(s.candidates, func(c candidate) bool { return c.weight < s.MinP }) // the largest weighs 1
	}
	slices.SortFunc(s.candidates, func(a, b candidate) int { return cmp.Compare(a.id, b.id) })
}

// cutTail keeps the fewest candidates whose probabilities reach TopP.
func (s *hostSampler) cutTail() {
	total := s.weigh(1)
	// Tokens below an even share of what top-p gives up sum to less than that:
	// none is needed to reach it, and only the others have to be sorted.
	floor := (1 - s.TopP) * total / float64(len(s.candidates)) / 2
	s.candidates = slices.DeleteFunc(s.candidates, func(c candidate) bool { return c.weight < floor })
	slices.SortFunc(s.candidates, byLogit)
	sum := 0.0
	for i, c := range s.candidates {
		if sum += c.weight; sum >= s.TopP*total {
			s.candidates = s.candidates[:i+1]
			return
		}
	}
}

// weigh sets every weight to exp((logit - largest) / temperature) and returns
// their sum, at least 1.
func (s *hostSampler) weigh(temperature float64) (total float64) {
	peak := slices.MinFunc(s.candidates, byLogit).logit
	for i := range s.candidates {
		c := &s.candidates[i]
		c.weight = 1
		if c.logit != peak { // a temperature near 0 makes 0/0 of no difference
			c.weight = math.Exp((c.logit - peak) / temperature)
		}
		total += c.weight
	}
	return total
}

// byLogit orders the likeliest first; of equals, the lowest id.
func byLogit(a, b candidate) int {
	if a.logit != b.logit {
		return cmp.Compare(b.logit, a.logit)
	}
	return cmp.Compare(a.id, b.id)
}

// largest returns the k likeliest of all, in no order, within the same memory:
// a heap whose root is the least likely kept.
func largest(all []candidate, k int) []candidate {
	heap := all[:k]
	sink := func(i int) {
		for {
			child := 2*i + 1
			if child >= k {
				return
			}
			if child+1 < k && byLogit(heap[child], heap[child+1]) < 0 {
				child++
			}
			if byLogit(heap[i], heap[child]) >= 0 {
				return
			}
			heap[i], heap[child] = heap[child], heap[i]
			i = child
		}
	}
	for i := k/2 - 1; i >= 0; i-- {
		sink(i)
	}
	for _, c := range all[k:] {
		if byLogit(c, heap[0]) < 0 {
			heap[0] = c
			sink(0)
		}
	}
	return heap
}
