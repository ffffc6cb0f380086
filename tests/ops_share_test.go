package tests

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"vkdecode/h2o"
	"vkdecode/ref"
	"vkdecode/shaders"
)

// shareCase gives the heads of a layer budgets of their own.
type shareCase struct {
	kvHeads       int
	seqs          []sequence
	budget, added int
	alpha         int // thousandths
	recent        int
	uneven        bool // heads have lost other numbers of tokens
	scores        scoring
	forge         func(c *cacheRig)
}

func (c shareCase) String() string {
	return fmt.Sprintf("%d heads, %v live and new, %d slots each and %d more, alpha %d, %d recent, uneven %t", c.kvHeads, c.seqs, c.budget, c.added, c.alpha, c.recent, c.uneven)
}

func shareCases(l launch) (all []opCase) {
	few, many := []sequence{{live: 9, rows: 2}, {rows: 1}, {live: 7}, {live: 30, rows: 3}}, []sequence{{live: 17*l.lanes + 5, rows: 7}}
	all = []opCase{
		shareCase{kvHeads: 1, seqs: few, budget: 10, added: 1, alpha: 200, recent: 2, scores: distinct},
		shareCase{kvHeads: 5, seqs: few, budget: 12, added: 1, alpha: 200, recent: 4, scores: distinct},
		shareCase{kvHeads: 5, seqs: few, budget: 8, added: 9, alpha: 333, recent: 3, uneven: true, scores: tied},
		shareCase{kvHeads: 5, seqs: many, budget: 60, added: 2, alpha: 0, recent: 11, scores: distinct},
		shareCase{kvHeads: 5, seqs: many, budget: 60, added: 2, alpha: 1000, recent: 0, uneven: true, scores: distinct},
		shareCase{kvHeads: 5, seqs: many, budget: 16*l.lanes - 3, added: 2, alpha: 777, recent: 3, uneven: true, scores: tied},
		shareCase{kvHeads: 5, seqs: few, budget: 5, added: 1, alpha: 500, recent: 5, scores: equal}, // nothing is left beside the window
		shareCase{kvHeads: 5, seqs: few, budget: 9, added: 1, alpha: 123, recent: 1, scores: equal},
	}
	if l.many { // lavapipe's loops end after 65,535 iterations
		all = append(all, shareCase{kvHeads: 3, seqs: []sequence{{live: 100_000, rows: 3}}, budget: 2000, added: 1, alpha: 200, recent: 40, scores: distinct})
	}
	return all
}

func (c shareCase) run(b *bench, l launch) error {
	rnd := rand.New(rand.NewPCG(26, uint64(c.budget)))
	seqs := slices.Clone(c.seqs)
	for i := range seqs {
		seqs[i].first = seqs[i].live // all tokens are there, the protected ones in every head
	}
	r := b.newCache(l, rnd, h2o.Types{K: "f16", V: "f16"}, 8, c.kvHeads, seqs, func(h *ref.Head, seq int, slots []ref.Slot) {
		h.Recent, h.Sinks, h.Admit = c.recent, 1, rnd.IntN(2) == 1
		h.Pinned[0] = ref.Span{Begin: 2, End: 3}
		kept := slots[:0]
		for pos := range slots {
			h.Live = len(slots) // of the last position
			if s := (ref.Slot{Pos: pos, Score: c.scores(rnd)}); !c.uneven || eligible(h, []ref.Slot{s}, len(slots)-1) == 0 || rnd.IntN(4) > 0 {
				kept = append(kept, s)
			}
		}
		h.Live = len(kept)
	})
	defer r.free()
	const before = 77 // slots of other layers
	pool := randomTable(rnd, len(r.heads))
	table := in(r.rig, "pool table", pool)
	r.add(shaders.Share{Lanes: uint32(l.lanes), KvHeads: uint32(c.kvHeads), Head: others, Slot: before, Budget: uint32(c.budget), Added: uint32(c.added), Alpha: uint32(c.alpha),
		Step: r.step.Range, Table: r.table.Range, Slots: r.slots.Range, PromptTable: r.table.Range, PoolTable: table.Range}, "", "", len(c.seqs), 1, 1)
	if err := r.rig.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(r)
	}
	for seq := range c.seqs {
		added, last := r.added(seq)
		if added == 0 {
			continue
		}
		offset := before + seq*c.kvHeads*(c.budget+c.added)
		for kv, budget := range r.twin.Share(r.heads[seq*c.kvHeads:][:c.kvHeads], last, c.budget, c.alpha) {
			copy(pool[16*(others+seq*c.kvHeads+kv):], []uint32{uint32(offset), uint32(budget + c.added), uint32(budget)})
			offset += budget + c.added
			r.head(seq, kv).Budget = budget
		}
	}
	if err := compareWords("table", r.words(r.table), r.tableWords()); err != nil {
		return err
	}
	if err := compareWords("pool table", r.words(table), pool); err != nil {
		return err
	}
	return compareWords("slots", r.words(r.slots), r.slotWords())
}
