package tests

import (
	"fmt"
	"math/rand/v2"

	"vkdecode/h2o"
	"vkdecode/ref"
	"vkdecode/shaders"
)

// countCase counts the tokens of a step where none ever goes.
type countCase struct {
	kvHeads int
	seqs    []sequence
	forge   func(c *cacheRig)
}

func (c countCase) String() string {
	return fmt.Sprintf("%d heads, %v live and new", c.kvHeads, c.seqs)
}

func countCases(l launch) []opCase {
	return []opCase{countCase{kvHeads: 1, seqs: []sequence{{rows: 1}}}, countCase{kvHeads: l.lanes + 3, seqs: []sequence{{live: 5, rows: 2}}},
		countCase{kvHeads: 3, seqs: []sequence{{live: 4, rows: 3}, {live: 7}, {rows: 1}}}}
}

func (c countCase) run(b *bench, l launch) error {
	r := b.newCache(l, rand.New(rand.NewPCG(uint64(c.kvHeads), 3)), h2o.Types{K: "f32", V: "f32"}, 4, c.kvHeads, c.seqs, func(h *ref.Head, _ int, _ []ref.Slot) { h.Evicted, h.Last = 0, 0 })
	defer r.free()
	r.add(shaders.Count{Lanes: uint32(l.lanes), KvHeads: uint32(c.kvHeads), Head: others, Count: uint32(len(r.heads)), Step: r.step.Range, Table: r.table.Range, TableOut: r.table.Range},
		"", "", ceil(len(r.heads), l.lanes)+1, 1, 1)
	if err := r.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(r)
	}
	for i := range r.heads {
		added, last := r.added(i / c.kvHeads)
		r.heads[i].Evict(r.twin, added, last, false)
	}
	return compareWords("table", r.words(r.table), r.tableWords())
}
