package ref

import (
	"cmp"
	"slices"
)

// Ranks are the places of a head's first live slots in order of position: how many of these tokens have a lower one.
func (p *Pool) Ranks(h Head, live int) []int {
	ranks := make([]int, live)
	for rank, slot := range p.inOrder(h, live) {
		ranks[slot] = rank
	}
	return ranks
}

// inOrder are a head's first live slots by ascending position.
func (p *Pool) inOrder(h Head, live int) []int {
	slots := make([]int, live)
	for i := range slots {
		slots[i] = i
	}
	slices.SortFunc(slots, func(a, b int) int {
		return cmp.Compare(p.Slots[h.Offset+a].Pos, p.Slots[h.Offset+b].Pos)
	})
	return slots
}
