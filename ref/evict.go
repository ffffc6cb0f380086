package ref

import (
	"cmp"
	"math"
	"slices"
)

// Move is a survivor that takes the slot of a victim; slots of the head.
type Move struct{ From, To int }

// Evict counts added tokens, of which the last has position last, as live and chooses who goes so that the budget is
// kept: the eligible slots of lowest score, of equal scores the older position; with Admit those that leave the recent
// window in this step come last. Up to Slack slots above the budget wait, unless the step settles. Victims are by
// ascending slot. Survivors that would lie behind the live slots move into the victims' slots, in order.
func (h *Head) Evict(pool *Pool, added, last int, settle bool) (victims []int, moves []Move) {
	slots := pool.Slots[h.Offset:]
	live := h.Live + added
	excess := max(0, live-h.Budget)
	if excess <= h.Slack && !settle {
		excess = 0
	}
	victims = h.lowest(slots[:live], excess, last, last+1-added)
	h.Live, h.Evicted, h.Last = live-excess, h.Evicted+excess, excess
	from := h.Live
	for _, to := range victims {
		for _, gone := slices.BinarySearch(victims, from); gone; _, gone = slices.BinarySearch(victims, from) {
			from++
		}
		if to < h.Live {
			moves = append(moves, Move{from, to})
			from++
		}
	}
	return victims, moves
}

// lowest are the slots, in ascending order, of the n tokens that go when the last one has position last. Those that have
// left the recent window since it ended at position from come last with Admit.
func (h *Head) lowest(slots []Slot, n, last, from int) (victims []int) {
	for i, s := range slots {
		if h.Eligible(s.Pos, last) {
			victims = append(victims, i)
		}
	}
	score := func(i int) float64 {
		if h.Admit && slots[i].Pos >= from-h.Recent {
			return math.Inf(1)
		}
		return float64(slots[i].Score)
	}
	slices.SortFunc(victims, func(a, b int) int {
		return cmp.Or(cmp.Compare(score(a), score(b)), cmp.Compare(slots[a].Pos, slots[b].Pos))
	})
	victims = victims[:n]
	slices.Sort(victims)
	return victims
}

// Eligible tells whether the token at a position may go.
func (h *Head) Eligible(pos, last int) bool {
	for _, s := range h.Pinned {
		if pos >= s.Begin && pos < s.End {
			return false
		}
	}
	return pos >= h.Sinks && pos <= last-h.Recent
}

// Compact carries moves out.
func (p *Pool) Compact(h Head, moves []Move) {
	for _, m := range moves {
		from, to := h.Offset+m.From, h.Offset+m.To
		copy(p.key(to), p.key(from))
		copy(p.value(to), p.value(from))
		p.Slots[to] = p.Slots[from]
	}
}
