package ref

import (
	"cmp"
	"slices"
)

// Share gives each head of a layer a budget of its own: Ada-KV, arXiv 2407.11550. budget is the mean of all, of which base
// are left when the protected tokens have theirs. Of the tokens that may go, the len(heads) base of highest score, of equal
// scores the newer ones, are counted by head. alpha is in thousandths. The last token has position last.
func (p *Pool) Share(heads []Head, last, budget, alpha int) (budgets []int) {
	type candidate struct {
		Slot
		head int
	}
	var all []candidate
	have, counts, protected := make([]int, len(heads)), make([]int, len(heads)), 0
	for i, h := range heads {
		for _, s := range p.Slots[h.Offset:][:h.Live] {
			if h.Eligible(s.Pos, last) {
				all = append(all, candidate{s, i})
			}
		}
		have[i] = len(all)
		for _, n := range have[:i] {
			have[i] -= n
		}
		protected = h.Live - have[i]
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return -cmp.Or(cmp.Compare(a.Score, b.Score), cmp.Compare(a.Pos, b.Pos), cmp.Compare(a.head, b.head))
	})
	base := max(0, budget-protected)
	for _, c := range all[:min(len(all), len(heads)*base)] {
		counts[c.head]++
	}
	for _, n := range Divide(counts, have, base, alpha) {
		budgets = append(budgets, n+budget-base)
	}
	return budgets
}

// Divide shares len(have) base slots: head i gets (1 - alpha) counts[i] + alpha base, rounded so that the sum is right. The
// rest goes to the largest remainders, of equal ones to the lower head; a head that has no more tokens is passed over.
// What a head has too many goes round the others, one slot at a time, lower heads first. Where there are more slots than
// tokens, the room goes round all heads in the same way.
func Divide(counts, have []int, base, alpha int) []int {
	heads, left := len(have), len(have)*base
	keep, fits := slices.Clone(have), true
	for _, n := range have {
		left -= n
	}
	if left < 0 {
		fits, left = false, heads*base
		remainders, order := make([]int, heads), make([]int, heads)
		for i, n := range counts {
			share := (1000-alpha)*n + alpha*base
			keep[i], remainders[i], order[i] = share/1000, share%1000, i
			left -= keep[i]
		}
		slices.SortStableFunc(order, func(a, b int) int { return remainders[b] - remainders[a] })
		for _, i := range order {
			if left > 0 && keep[i] < have[i] {
				keep[i]++
				left--
			}
		}
		for i, n := range have {
			if keep[i] > n {
				keep[i], left = n, left+keep[i]-n
			}
		}
	}
	for i := 0; left > 0; i++ {
		if head := i % heads; fits || keep[head] < have[head] {
			keep[head]++
			left--
		}
	}
	return keep
}
