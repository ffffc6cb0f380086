package ref

// Enter lists a head's live slots in the order in which they lie in the work pool: by ascending position.
func (p *Pool) Enter(h Head) []int { return p.inOrder(h, h.Live) }

// Gather copies listed elements of so many values, whose numbers count from first, to consecutive ones that begin at
// element number at.
func Gather[T any](to []T, at int, from []T, first int, list []int, size int) {
	for n, element := range list {
		copy(to[(at+n)*size:][:size], from[(first+element)*size:])
	}
}

// Choose ends a stage in which the last token has position last: of a head's live slots in the work pool, those above the
// budget go, lowest scores first, of equal scores the older position. Both lists are by ascending slot, which in the work
// pool is by position.
func (h *Head) Choose(work *Pool, last int) (kept, victims []int) {
	excess := max(0, h.Live-h.Budget)
	victims = h.lowest(work.Slots[h.Offset:][:h.Live], excess, last, last+1)
	next := 0
	for slot := range h.Live {
		if next < len(victims) && victims[next] == slot {
			next++
			continue
		}
		kept = append(kept, slot)
	}
	h.Live, h.Evicted, h.Last = h.Live-excess, h.Evicted+excess, excess
	return kept, victims
}

// Begin is the score with which a policy goes on from another one's: that one where it measures attention; where attention
// changes nothing, what a token is born with.
func (r Rule) Begin(score float32, pos int, measured bool) float32 {
	switch {
	case r.Update == UpdateNone:
		return r.Born(pos)
	case !measured:
		return 0
	}
	return score
}
