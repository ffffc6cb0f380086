package ref

import "math"

// ScoreQuery is one row of a step: what its query heads, those of a KV head's group or of the layer, gave the live slots.
type ScoreQuery struct {
	Pos           int         // of the row
	Probabilities [][]float64 // (query heads, live)
}

// Score is what the rows of a step make of the scores of a head's first live slots. head, the number of the KV head in the
// model, is what hashes of other heads differ by.
func (p *Pool) Score(h Head, live, head int, rows []ScoreQuery) []float64 {
	scores := make([]float64, live)
	for i := range scores {
		slot := p.Slots[h.Offset+i]
		scores[i] = h.Next(float64(slot.Score), slot.Pos, i, head, rows)
	}
	return scores
}

// Next is what the rows of a step make of the score of the token at a position, which they saw in slot number i.
func (r Rule) Next(score float64, pos, i, head int, rows []ScoreQuery) float64 {
	last := rows[len(rows)-1]
	switch r.Update {
	case UpdateAdd:
		return r.added(score, pos, i, rows)
	case UpdateLast:
		return r.given(pos, i, last)
	case UpdateHash:
		return Hash(r.Seed, last.Pos+1, head, pos)
	}
	return score
}

// added is decay S + p, row by row; with Lifetime the score is the mean of that over the queries that saw the token.
func (r Rule) added(score float64, pos, i int, rows []ScoreQuery) float64 {
	if r.Lifetime {
		score *= float64(max(rows[0].Pos-pos, 0))
	}
	for _, row := range rows {
		score = float64(r.Decay)*score + r.given(pos, i, row)
	}
	if r.Lifetime {
		score /= float64(max(rows[len(rows)-1].Pos+1-pos, 1))
	}
	return score
}

// given is what a row gives the token at a position, in slot number i.
func (r Rule) given(pos, i int, row ScoreQuery) float64 {
	if r.Selfless && pos == row.Pos {
		return 0
	}
	sum, most := 0.0, 0.0
	for _, p := range row.Probabilities {
		sum += p[i]
		most = max(most, p[i])
	}
	switch r.Reduce {
	case ReduceMean:
		return sum / float64(len(row.Probabilities))
	case ReduceMax:
		return most
	}
	return sum
}

// Hash is a number in [0, 1) of 24 bits that depends on all its arguments. seen is the number of tokens seen, with those
// of the step.
func Hash(seed uint32, seen, head, pos int) float64 {
	return math.Ldexp(float64(mixed(uint32(pos)^mixed(uint32(seen)^mixed(uint32(head)^mixed(seed))))>>8), -24)
}

// mixed is Chris Wellons's lowbias32.
func mixed(v uint32) uint32 {
	v = (v ^ v>>16) * 0x7FEB352D
	v = (v ^ v>>15) * 0x846CA68B
	return v ^ v>>16
}
