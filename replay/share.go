package replay

import (
	"cmp"
	"slices"

	"vkdecode/ref"
)

// share gives the heads of a layer budgets of their own, as shaders/share.comp does (Ada-KV, arXiv 2407.11550): of the
// tokens that may go, the H base with the highest scores of all heads are c_i in head i, which keeps
// (1 - alpha) c_i + alpha base, in thousandths; the rest goes to the largest remainders, of equal ones to the lower head.
// What a head has no tokens for goes round the others.
func share(heads [][]ref.Slot, budget, alpha int, eligible func(pos int) bool) []int {
	type token struct {
		ref.Slot
		head int
	}
	n := len(heads)
	have, all, fixed := make([]int, n), []token(nil), 0
	for kv, slots := range heads {
		for _, s := range slots {
			if eligible(s.Pos) {
				have[kv]++
				all = append(all, token{s, kv})
			}
		}
		fixed = len(slots) - have[kv] // the same in each head
	}
	base := budget - min(fixed, budget)
	keep, wanted := make([]int, n), n*base
	if len(all) <= wanted {
		over := wanted - len(all)
		for kv := range keep {
			keep[kv] = have[kv] + over/n
			if kv < over%n {
				keep[kv]++
			}
		}
	} else {
		slices.SortFunc(all, func(a, b token) int {
			return cmp.Or(cmp.Compare(a.Score, b.Score), cmp.Compare(a.Pos, b.Pos), cmp.Compare(a.head, b.head))
		})
		highest := slices.Clone(have)
		for _, t := range all[:len(all)-wanted] {
			highest[t.head]--
		}
		apportion(keep, have, highest, base, alpha)
	}
	for kv := range keep {
		keep[kv] += budget - base
	}
	return keep
}

// apportion sets what each head keeps of the tokens that may go, of which it has so many and so many of the highest.
func apportion(keep, have, highest []int, base, alpha int) {
	const thousand, taken = 1000, -1
	left, rest := len(keep)*base, make([]int, len(keep))
	for kv, c := range highest {
		share := (thousand-alpha)*c + alpha*base
		keep[kv], rest[kv] = share/thousand, share%thousand
		left -= keep[kv]
	}
	for left > 0 && slices.Max(rest) != taken {
		most := slices.Index(rest, slices.Max(rest))
		if keep[most] < have[most] {
			keep[most]++
			left--
		}
		rest[most] = taken
	}
	for kv := range keep {
		if over := keep[kv] - have[kv]; over > 0 {
			keep[kv] -= over
			left += over
		}
	}
	for left > 0 {
		open := 0
		for kv := range keep {
			if keep[kv] < have[kv] {
				open++
			}
		}
		if open == 0 {
			return
		}
		each := max(left/open, 1)
		for kv := range keep {
			more := min(each, have[kv]-keep[kv], left)
			keep[kv] += more
			left -= more
		}
	}
}
