package tests

import (
	"fmt"
	"math"
	"math/rand/v2"

	"vkdecode/h2o"
	"vkdecode/ref"
	"vkdecode/shaders"
)

// evictCase evicts from the cache, ranks what is left, and compacts it.
type evictCase struct {
	types   h2o.Types
	dim     int
	kvHeads int
	most    int // tokens added between two evictions, at most
	seqs    []sequence
	excess  []int // per sequence, where so many are eligible
	seed    uint64
	scores  scoring
	protect bool // recent, sinks and pinned spans
	wait    bool // every other sequence has slack
	ranked  bool // slots have ranks
	set     func(h *ref.Head, seq int, slots []ref.Slot)
	forge   func(c *cacheRig)
}

func (c evictCase) String() string {
	return fmt.Sprintf("%v of %d, %d heads, %v live and new, up to %d of %d go, protected %t, waiting %t, ranked %t, seed %d", c.types, c.dim, c.kvHeads, c.seqs, c.excess, c.most, c.protect, c.wait, c.ranked, c.seed)
}

// scoring draws a score.
type scoring func(rnd *rand.Rand) float32

func distinct(rnd *rand.Rand) float32 { return float32(rnd.NormFloat64()) }
func tied(rnd *rand.Rand) float32     { return float32(rnd.IntN(3)) - 1 }
func equal(*rand.Rand) float32        { return 0.25 }

func evictCases(l launch) (all []opCase) {
	for seed, scores := range []scoring{distinct, tied, equal, distinct, tied} {
		protect := seed != 3
		for i, c := range []evictCase{
			{most: 1, seqs: []sequence{{live: 40, rows: 1}, {live: 150, rows: 1}, {rows: 1}}, excess: []int{1, 1, 0}},
			{most: 8, seqs: []sequence{{}, {live: 150, rows: 8}, {live: 9, rows: 1}, {live: 30, rows: 7}}, excess: []int{0, 8, 1, 5}},
			{most: 300, seqs: []sequence{{live: 700, rows: 212}, {rows: 300}}, excess: []int{300, 200}},
			{most: 300, seqs: []sequence{{live: 100, rows: 2}, {live: 300, rows: 20}}, excess: []int{70, 2}},
		} {
			c.types, c.dim = typesOf(4*seed+i, seed), []int{24, 80}[seed%2]
			c.kvHeads, c.seed, c.scores, c.protect, c.wait, c.ranked = 2, uint64(seed), scores, protect, seed == 4, (seed+i)%2 == 0
			all = append(all, c)
		}
	}
	if l.many { // lavapipe's loops end after 65,535 iterations
		big := evictCase{types: h2o.Types{K: "f16", V: "q8_0"}, dim: 24, kvHeads: 1, scores: distinct, ranked: true}
		slots, moves := big, big
		slots.most, slots.seqs, slots.excess = 64, []sequence{{live: 140_000, rows: 40}}, []int{40}
		moves.most, moves.seqs, moves.excess = 16_000, []sequence{{live: 40_000, rows: 40}}, []int{16_000}
		all = append(all, slots, moves)
	}
	return append(all, tiesCase)
}

// tiesCase is the example of the definition: of equal scores at positions 15, 36, 13 and 10, two go: 10 and 13.
var tiesCase = evictCase{types: h2o.Types{K: "f16", V: "f16"}, dim: 24, kvHeads: 1, most: 8, seqs: []sequence{{live: 4, rows: 1, first: 40}}, excess: []int{2}, scores: equal,
	set: func(_ *ref.Head, _ int, slots []ref.Slot) {
		for i, pos := range []int{15, 36, 13, 10} {
			slots[i].Pos = pos
		}
	}}

func (c evictCase) run(b *bench, l launch) error {
	pad := padOf(c.types, c.dim)
	rnd := rand.New(rand.NewPCG(c.seed, uint64(c.most)))
	r := b.newCache(l, rnd, c.types, pad, c.kvHeads, c.seqs, func(h *ref.Head, seq int, slots []ref.Slot) {
		last := 0
		for i := range slots {
			slots[i].Score = c.scores(rnd)
			last = max(last, slots[i].Pos)
		}
		if c.set != nil {
			c.set(h, seq, slots)
		}
		if c.protect {
			h.Recent, h.Sinks, h.Admit = rnd.IntN(1+len(slots)/8), rnd.IntN(5), rnd.IntN(2) == 1
			for i := range h.Pinned {
				begin := rnd.IntN(last + 1)
				h.Pinned[i] = ref.Span{Begin: begin, End: begin + rnd.IntN(1+last/8)}
			}
		}
		h.Budget = len(slots) - min(c.excess[seq], eligible(h, slots, last))
		if c.wait && seq%2 == 0 { // as many slots above the budget as may wait, or one more
			h.Slack = max(0, len(slots)-h.Budget-seq/2%2)
		}
	})
	defer r.free()
	moves, log := r.out("moves", len(r.heads)*c.most*2), r.out("log", (others+len(r.heads))*c.most*2)
	r.add(shaders.Evict{Lanes: uint32(l.lanes), KvHeads: uint32(c.kvHeads), Added: uint32(c.most), Head: others,
		Step: r.step.Range, Table: r.table.Range, Slots: r.slots.Range, TableOut: r.table.Range, Moves: moves.Range, Log: log.Range}, "", "", c.kvHeads, len(c.seqs), 1)
	if c.ranked {
		const depth = 3 // slots per lane
		r.add(shaders.Rank{Lanes: uint32(l.lanes), KvHeads: uint32(c.kvHeads), Added: uint32(c.most), Depth: depth, Head: others, Ranks: r.ranksAt,
			Step: r.step.Range, Table: r.table.Range, Slots: r.slots.Range, Log: log.Range, SlotsOut: r.slots.Range},
			"", "", ceil(r.capacity(), depth*l.lanes), c.kvHeads, len(c.seqs))
	}
	k, v := layoutOf(c.types.K, 0, pad), layoutOf(c.types.V, 0, pad)
	r.add(shaders.Compact{Lanes: uint32(l.lanes), KvHeads: uint32(c.kvHeads), Added: uint32(c.most), KQuads: uint32(k.quads), VQuads: uint32(v.quads),
		KScales: uint32(k.scales), VScales: uint32(v.scales), Ranked: word(c.ranked), Head: others, KPlane: r.kPlane, VPlane: r.vPlane, Ranks: r.ranksAt,
		Step: r.step.Range, Table: r.table.Range, Moves: moves.Range, K: r.k.Range, V: r.v.Range, Slots: r.slots.Range}, "", "", c.kvHeads, len(c.seqs), 1+c.most/300)
	if err := r.rig.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(r)
	}
	return c.compare(r, moves, log)
}

// eligible counts the tokens that may go.
func eligible(h *ref.Head, slots []ref.Slot, last int) (n int) {
	inside := func(s ref.Span, pos int) bool { return s.Begin <= pos && pos < s.End }
	for _, s := range slots {
		if s.Pos >= h.Sinks && s.Pos+h.Recent <= last && !inside(h.Pinned[0], s.Pos) && !inside(h.Pinned[1], s.Pos) {
			n++
		}
	}
	return n
}

func (c evictCase) compare(r *cacheRig, moves, log *tensor) error {
	gotMoves, wantLog := r.words(moves), r.words(r.out("blank", (others+len(r.heads))*c.most*2))
	for i := range r.heads {
		h := &r.heads[i]
		added, last := r.added(i / c.kvHeads)
		before := append([]ref.Slot(nil), r.twin.Slots[h.Offset:][:h.Live+added]...)
		victims, twinMoves := h.Evict(r.twin, added, last, false)
		var want []uint32
		for _, m := range twinMoves {
			want = append(want, uint32(m.From), uint32(m.To))
		}
		if err := compareWords(fmt.Sprintf("moves of head %d", i), moved(gotMoves[i*c.most*2:][:c.most*2], len(victims)), want); err != nil {
			return err
		}
		for n, v := range victims {
			at := ((others+i)*c.most + n) * 2
			wantLog[at], wantLog[at+1] = uint32(before[v].Pos), math.Float32bits(before[v].Score)
		}
		r.twin.Compact(*h, twinMoves)
		if c.ranked {
			r.rerank(*h, h.Live+len(victims))
		}
	}
	if err := compareWords("log", r.words(log), wantLog); err != nil {
		return err
	}
	if err := compareWords("table", r.words(r.table), r.tableWords()); err != nil {
		return err
	}
	return r.compareCache(exact, exact)
}

// moved are the moves of a list that ends with 0xffffffff or after so many.
func moved(list []uint32, most int) (moves []uint32) {
	for n := 0; n < most && list[2*n] != 0xFFFFFFFF; n++ {
		moves = append(moves, list[2*n:2*n+2]...)
	}
	return moves
}
