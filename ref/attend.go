package ref

import "math"

// Never is the peak of a split in which a query sees no slot.
const Never = -1e30

// Attended is the attention of one query, and what the kernels leave between them for it.
type Attended struct {
	Y []float64 // (pad) sum over slots of probability v
	P []float64 // (live) probabilities

	E    []float64   // (live) exp(q k - peak of the slot's split); 0 where the query does not see the slot
	Peak []float64   // (splits) largest q k
	Sum  []float64   // (splits) of E
	O    [][]float64 // (splits, pad) sum over the split's slots of E v
	F    []float64   // (splits) what turns E into P
}

// Attend is softmax(q k) v over the first live slots of a head, of which the query sees those at positions up to pos.
// A split is so many slots.
func (p *Pool) Attend(h Head, live int, q []float32, pos, split int) *Attended {
	a := &Attended{Y: make([]float64, p.Pad)}
	q64, logits, peak := Widen(q), make([]float64, live), Never
	for i := range logits {
		logits[i] = math.Inf(-1)
		if p.Slots[h.Offset+i].Pos <= pos {
			logits[i] = dot(q64, p.key(h.Offset+i))
		}
		peak = max(peak, logits[i])
	}
	sum := 0.0
	for _, l := range logits {
		a.P = append(a.P, math.Exp(l-peak))
		sum += math.Exp(l - peak)
	}
	for i := range a.P {
		a.P[i] /= sum
		addTo(a.Y, a.P[i], p.value(h.Offset+i))
	}
	for begin := 0; begin < live; begin += split {
		a.addSplit(p, h.Offset, begin, logits[begin:min(begin+split, live)])
		last := len(a.Peak) - 1
		a.F = append(a.F, math.Exp(a.Peak[last]-peak)/sum)
	}
	return a
}

// addSplit is the part of a split whose logits begin at slot number begin.
func (a *Attended) addSplit(p *Pool, offset, begin int, logits []float64) {
	peak, sum, o := Never, 0.0, make([]float64, p.Pad)
	for _, l := range logits {
		peak = max(peak, l)
	}
	for i, l := range logits {
		e := math.Exp(l - peak)
		a.E = append(a.E, e)
		sum += e
		addTo(o, e, p.value(offset+begin+i))
	}
	a.Peak, a.Sum, a.O = append(a.Peak, peak), append(a.Sum, sum), append(a.O, o)
}

// addTo adds factor x to sum.
func addTo(sum []float64, factor float64, x []float64) {
	for i, v := range x {
		sum[i] += factor * v
	}
}
