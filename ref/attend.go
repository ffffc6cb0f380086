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

// Part is what a walk over a range of a head's slots leaves of one query: attend_token.comp.
type Part struct {
	Peak float64   // largest q k
	Sum  float64   // of e = exp(q k - Peak)
	O    []float64 // (pad) sum of e v

	Peaks []float64 // (splits of the range) largest q k so far
	E     []float64 // (slots of the range) exp(q k - the split's Peaks)
}

// Walk is the attention of a query that sees all live slots of a head, in so many ranges of as many splits each. The last
// ranges may be empty.
func (p *Pool) Walk(h Head, live int, q []float64, split, ranges int) []Part {
	parts := make([]Part, ranges)
	perRange := (live + split*ranges - 1) / (split * ranges) * split
	for i := range parts {
		part := &parts[i]
		*part = Part{Peak: Never, O: make([]float64, p.Pad)}
		begin, end := min(i*perRange, live), min((i+1)*perRange, live)
		logits := make([]float64, end-begin)
		for n := range logits {
			logits[n] = dot(q, p.key(h.Offset+begin+n))
		}
		for first := 0; first < len(logits); first += split {
			of := logits[first:min(first+split, len(logits))]
			for _, l := range of {
				part.Peak = max(part.Peak, l)
			}
			part.Peaks = append(part.Peaks, part.Peak)
			for _, l := range of {
				part.E = append(part.E, math.Exp(l-part.Peak))
			}
		}
		for n, l := range logits {
			e := math.Exp(l - part.Peak)
			part.Sum += e
			addTo(part.O, e, p.value(h.Offset+begin+n))
		}
	}
	return parts
}

// whole is the largest q k of all parts, and the sum of exp(q k - largest).
func whole(parts []Part) (peak, sum float64) {
	peak = Never
	for _, p := range parts {
		peak = max(peak, p.Peak)
	}
	for _, p := range parts {
		sum += math.Exp(p.Peak-peak) * p.Sum
	}
	return peak, sum
}

// Merge is softmax(q k) v, from its parts.
func Merge(parts []Part) []float64 {
	y := make([]float64, len(parts[0].O))
	peak, sum := whole(parts)
	for _, p := range parts {
		addTo(y, math.Exp(p.Peak-peak)/sum, p.O)
	}
	return y
}

// Probabilities are softmax(q k) of all slots, from parts in splits of so many.
func Probabilities(parts []Part, split int) (p []float64) {
	for _, part := range parts {
		shares := Shares(parts, part.Peaks)
		for i, e := range part.E {
			p = append(p, e*shares[i/split])
		}
	}
	return p
}

// Shares turn e for some peaks into probabilities.
func Shares(parts []Part, peaks []float64) (f []float64) {
	peak, sum := whole(parts)
	for _, p := range peaks {
		f = append(f, math.Exp(p-peak)/sum)
	}
	return f
}
