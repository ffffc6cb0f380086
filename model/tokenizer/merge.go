package tokenizer

import (
	"fmt"
	"strings"
)

// pair is two adjacent tokens, the left one in the upper half.
type pair uint64

func pairOf(left, right int32) pair { return pair(uint32(left))<<32 | pair(uint32(right)) }

// merge is what a pair becomes.
type merge struct {
	rank int32 // the lowest goes first
	id   int32
}

func newMerges(rules []string, ids map[string]int32) (map[pair]merge, error) {
	merges := make(map[pair]merge, len(rules))
	for rank, rule := range rules {
		left, right, ok := strings.Cut(rule, " ")
		if !ok || left == "" || right == "" || strings.Contains(right, " ") {
			return nil, fmt.Errorf("tokenizer: merge %d %q, want two tokens with a blank between them", rank, rule)
		}
		var found [3]int32
		for i, text := range []string{left, right, left + right} {
			id, ok := ids[text]
			if !ok {
				return nil, fmt.Errorf("tokenizer: merge %d %q: %q is not a token; convert the model again", rank, rule, text)
			}
			found[i] = id
		}
		merges[pairOf(found[0], found[1])] = merge{rank: int32(rank), id: found[2]}
	}
	return merges, nil
}

// symbol is a token of the word being merged, in a doubly linked list.
type symbol struct {
	id         int32 // gone = merged into its left neighbour
	prev, next int32 // index; gone = none
}

const gone = -1

// candidate is a pair that might be merged, unless its tokens have changed when its turn comes.
type candidate struct {
	order uint64 // rank, then position
	id    int32  // what the pair would become
}

// queue is a binary heap of candidates, the lowest order on top.
type queue []candidate

func (q *queue) push(c candidate) {
	h := append(*q, c)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if h[up].order <= c.order {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = c
	*q = h
}

func (q *queue) pop() candidate {
	h := *q
	top, c := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	i := 0
	for {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if down+1 < len(h) && h[down+1].order < h[down].order {
			down++
		}
		if c.order <= h[down].order {
			break
		}
		h[i] = h[down]
		i = down
	}
	if len(h) > 0 {
		h[i] = c
	}
	*q = h
	return top
}

// merge appends the tokens of a word: its bytes, of which the pair with the
// lowest rank (the leftmost of equals) is merged until no pair is left.
func (e *encoder) merge(ids []int32, word string) []int32 {
	s := e.symbols[:0]
	for i := range len(word) {
		if id := e.base[word[i]]; id >= 0 {
			s = append(s, symbol{id: id, prev: int32(len(s)) - 1, next: int32(len(s)) + 1})
		}
	}
	e.symbols = s
	if len(s) == 0 {
		return ids
	}
	s[len(s)-1].next = gone
	for i := range len(s) - 1 {
		e.consider(int32(i))
	}
	for len(e.queue) > 0 {
		c := e.queue.pop()
		at := int32(uint32(c.order))
		if s[at].id == gone || s[at].next == gone {
			continue
		}
		right := s[at].next
		if m, ok := e.merges[pairOf(s[at].id, s[right].id)]; !ok || m.id != c.id {
			continue
		}
		s[at].id = c.id
		s[at].next = s[right].next
		s[right].id = gone
		if next := s[at].next; next != gone {
			s[next].prev = at
			e.consider(at)
		}
		if prev := s[at].prev; prev != gone {
			e.consider(prev)
		}
	}
	for i := int32(0); i != gone; i = s[i].next {
		ids = append(ids, s[i].id)
	}
	return ids
}

// consider queues the pair of the symbol at at and its right neighbour, if it can be merged.
func (e *encoder) consider(at int32) {
	s := e.symbols
	if m, ok := e.merges[pairOf(s[at].id, s[s[at].next].id)]; ok {
		e.queue.push(candidate{order: uint64(m.rank)<<32 | uint64(at), id: m.id})
	}
}
