package tests

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"vkdecode/h2o"
	"vkdecode/ref"
	"vkdecode/runtime"
	"vkdecode/shaders"
)

// cacheRig is a layer's part of a cache on the device and its twin. Tokens of a sequence lie in the first slots of each
// of its heads, in no order of position.
type cacheRig struct {
	*rig
	twin    *ref.Pool
	heads   []ref.Head // (sequences, kvHeads)
	kvHeads int
	rows    []ref.Row
	ranks   []uint32                         // of all slots, blank where they are not known
	places  func(h ref.Head, live int) []int // of slots in order of position: the twin's ranks, or a forgery's

	table, k, v, slots *tensor
	kPlane, vPlane     uint32 // uvec4 of k and v at which scales begin
	ranksAt            uint32 // element of slots at which ranks begin
}

// others is the number of entries before the layer's in the table; they are another layer's.
const others = 3

// sequence is what a sequence has in the cache and what a step adds.
type sequence struct {
	live, rows int
	first      int // position of the first new token, at least live; 0: any
	place      int // of the first new token in its prompt
}

// newCache fills a cache with random tokens. set changes a head before it is written, with all its slots.
func (b *bench) newCache(l launch, rnd *rand.Rand, types h2o.Types, pad, kvHeads int, seqs []sequence, set func(h *ref.Head, seq int, slots []ref.Slot)) *cacheRig {
	c := &cacheRig{kvHeads: kvHeads, twin: &ref.Pool{KType: types.K, VType: types.V, Pad: pad}}
	c.places = c.twin.Ranks
	capacity := 0
	for _, s := range seqs {
		capacity = max(capacity, s.live+s.rows+2)
	}
	n := capacity * kvHeads * len(seqs)
	c.twin.Slots = make([]ref.Slot, n)
	k, v := randomCache(rnd, types.K, n, pad), randomCache(rnd, types.V, n, pad)
	c.twin.K, c.twin.V = widen(unpacked(types.K, k, n, pad)), widen(unpacked(types.V, v, n, pad))
	c.kPlane, c.vPlane = uint32(layoutOf(types.K, n, pad).plane/4), uint32(layoutOf(types.V, n, pad).plane/4)
	var rows []runtime.Row
	for seq, s := range seqs {
		end := cmp.Or(s.first, s.live*3/2+rnd.IntN(4)) // positions before the step's; some are gone
		for kv := range kvHeads {
			h := ref.Head{Offset: n - capacity*(len(c.heads)+1), Capacity: capacity, Budget: capacity, Live: s.live, Evicted: rnd.IntN(9),
				Rule: ref.Rule{Birth: kv % 3, Update: ref.UpdateAdd, Decay: 1}}
			slots := c.twin.Slots[h.Offset : h.Offset+capacity]
			for i, pos := range rnd.Perm(end)[:s.live] {
				slots[i] = ref.Slot{Pos: pos, Score: float32(rnd.NormFloat64())}
			}
			for i := range s.rows {
				slots[s.live+i] = ref.Slot{Pos: end + i, Score: float32(rnd.NormFloat64())}
			}
			if set != nil {
				set(&h, seq, slots[:s.live+s.rows])
			}
			c.heads = append(c.heads, h)
		}
		for i := range s.rows {
			rows = append(rows, runtime.Row{Token: 1, Seq: int32(seq), Pos: int32(end + i), Place: int32(s.place + i)})
			c.rows = append(c.rows, ref.Row{Token: 1, Seq: seq, Pos: end + i, Place: s.place + i})
		}
	}
	c.rank()
	c.rig = b.rig(l, rows)
	c.table = in(c.rig, "table", c.tableWords())
	c.slots = in(c.rig, "slots", c.slotWords())
	c.k, c.v = in(c.rig, "k", k), in(c.rig, "v", v)
	return c
}

// tableWords is the table as include/heads.glsl has it.
func (c *cacheRig) tableWords() (words []uint32) {
	for i := range 16 * others {
		words = append(words, uint32(1000+i))
	}
	for _, h := range c.heads {
		for _, v := range []int{h.Offset, h.Capacity, h.Budget, h.Live, h.Recent, h.Sinks, ruleWord(h.Rule), h.Evicted,
			h.Pinned[0].Begin, h.Pinned[0].End, h.Pinned[1].Begin, h.Pinned[1].End, h.Last, int(math.Float32bits(h.Decay)), int(h.Seed), h.Slack} {
			words = append(words, uint32(v))
		}
	}
	return words
}

// ruleWord packs a rule as include/heads.glsl has it.
func ruleWord(r ref.Rule) int {
	w := r.Birth | r.Update<<4 | r.Reduce<<8
	for i, set := range []bool{r.Layer, r.Selfless, r.Lifetime, r.Admit} {
		w |= int(word(set)) << (16 + i)
	}
	return w
}

// slotWords are position and score of all slots, then their ranks.
func (c *cacheRig) slotWords() (words []uint32) {
	for _, s := range c.twin.Slots {
		words = append(words, uint32(s.Pos), math.Float32bits(s.Score))
	}
	return append(words, c.ranks...)
}

// rank gives live slots their ranks, two to an element.
func (c *cacheRig) rank() {
	n := len(c.twin.Slots)
	c.ranksAt, c.ranks = uint32(n), slices.Repeat([]uint32{blank}, (n+1)/2*2)
	for _, h := range c.heads {
		for slot, rank := range c.places(h, h.Live) {
			c.ranks[h.Offset+slot] = uint32(rank)
		}
	}
}

// head is the entry of a sequence's KV head.
func (c *cacheRig) head(seq, kv int) *ref.Head { return &c.heads[seq*c.kvHeads+kv] }

// added is the number of a sequence's rows in the step, last the position of the last of them.
func (c *cacheRig) added(seq int) (n, last int) {
	for _, row := range c.rows {
		if row.Seq == seq {
			n, last = n+1, row.Pos
		}
	}
	return n, last
}

// seenEnd is the number of a head's slots in front of which all lie that a row may see.
func (c *cacheRig) seenEnd(row int) int {
	n := c.head(c.rows[row].Seq, 0).Live + 1
	for i := range row {
		if c.rows[i].Seq == c.rows[row].Seq {
			n++
		}
	}
	return n
}

// capacity is the number of slots of a head.
func (c *cacheRig) capacity() int { return len(c.twin.Slots) / len(c.heads) }

// rerank expects a head's live slots to have their ranks; those behind, up to number before, may have any.
func (c *cacheRig) rerank(h ref.Head, before int) {
	got := c.words(c.slots)[2*len(c.twin.Slots):]
	copy(c.ranks[h.Offset:][:before], got[h.Offset:])
	for slot, rank := range c.places(h, h.Live) {
		c.ranks[h.Offset+slot] = uint32(rank)
	}
}

// compareCache compares K, V and the slots with the twin's.
func (c *cacheRig) compareCache(mostK, mostV float64) error {
	if err := compareWords("slots", c.words(c.slots), c.slotWords()); err != nil {
		return err
	}
	n, pad := len(c.twin.Slots), c.twin.Pad
	if err := compare("k", unpacked(c.twin.KType, c.words(c.k), n, pad), c.twin.K, mostK); err != nil {
		return err
	}
	return compare("v", unpacked(c.twin.VType, c.words(c.v), n, pad), c.twin.V, mostV)
}

// ropeCacheCase brings the rows of three sequences into the cache.
type ropeCacheCase struct {
	types          h2o.Types
	group, kvHeads int
	dim, ropeDim   int
	halves         bool
	renumber       bool
	huge           float32 // if not 0: a value of v
	forge          func(rope *ref.RopeCache)
}

func (c ropeCacheCase) String() string {
	return fmt.Sprintf("%v, %d heads of group %d, %d of %d dimensions rotated, halves %t, renumbered %t", c.types, c.kvHeads, c.group, c.ropeDim, c.dim, c.halves, c.renumber)
}

func ropeCacheCases(l launch) (all []opCase) {
	for i, c := range []ropeCacheCase{
		{group: 1, kvHeads: 3, dim: 20, ropeDim: 20, halves: true, renumber: true}, {group: 3, kvHeads: 1, dim: 32, ropeDim: 32},
		{group: 4, kvHeads: 2, dim: 48, ropeDim: 24, halves: true}, {group: 16, kvHeads: 1, dim: 64, ropeDim: 64, huge: 1e6},
		{group: 2, kvHeads: 2, dim: 80, ropeDim: 20, renumber: true}, {group: 1, kvHeads: 2, dim: 128, ropeDim: 128, halves: true},
	} {
		c.types = typesOf(i, l.lanes/32)
		all = append(all, c)
	}
	for i, dim := range []int{32, 48, 64, 80, 128} {
		for _, types := range mixed {
			all = append(all, ropeCacheCase{types: types, group: 2, kvHeads: 2, dim: dim, ropeDim: dim, halves: i%2 == 1, renumber: i > 2})
		}
	}
	return all
}

func (c ropeCacheCase) run(b *bench, l launch) error {
	rnd := rand.New(rand.NewPCG(uint64(c.dim), 1))
	pad, qHeads := padOf(c.types, c.dim), c.group*c.kvHeads
	r := b.newCache(l, rnd, c.types, pad, c.kvHeads, []sequence{{live: 4, rows: 2}, {live: 2}, {rows: 3}}, nil)
	defer r.free()
	heads := qHeads + 2*c.kvHeads
	x := randomFloats(rnd, len(r.rows)*heads*c.dim)
	if c.huge != 0 {
		x[len(x)-1], x[len(x)-2] = c.huge, -c.huge
	}
	xStride := heads*c.dim + 5
	strided := values32(len(r.rows) * xStride)
	for i := range r.rows {
		copy(strided[i*xStride:], x[i*heads*c.dim:(i+1)*heads*c.dim])
	}
	rope := &ref.RopeCache{QHeads: qHeads, KVHeads: c.kvHeads, Dim: c.dim, Pad: pad, RopeDim: c.ropeDim, Halves: c.halves, Renumber: c.renumber, Scale: float64(float32(0.3))}
	rope.Turns = randomTurns(rnd, 16, c.ropeDim)
	q := r.out("q", (len(r.rows)+1)*qHeads*pad)
	xs, turns := in(r.rig, "x", strided), in(r.rig, "rope", rope.Turns)
	enter := func(cache string, begin, count int) {
		units := map[string]int{"f32": pad / 4, "f16": pad / 8, "q8_0": ceil(pad, 64), "q4_0": ceil(pad, 64)}[cache]
		r.add(shaders.RopeCache{Lanes: uint32(l.lanes), QHeads: uint32(qHeads), KvHeads: uint32(c.kvHeads), HeadDim: uint32(c.dim), HeadPad: uint32(pad), RopeDim: uint32(c.ropeDim),
			Halves: word(c.halves), Renumber: word(c.renumber), Head: others, XStride: uint32(xStride), Scale: 0.3, Begin: uint32(begin), Count: uint32(count), KPlane: r.kPlane, VPlane: r.vPlane,
			Step: r.step.Range, Table: r.table.Range, X: xs.Range, Rope: turns.Range, Q: q.Range, K: r.k.Range, V: r.v.Range, Slots: r.slots.Range},
			"", cache, ceil(count*units, l.lanes)+1, len(r.rows)+1, 1)
	}
	if c.types.K == c.types.V {
		enter(c.types.K, 0, heads)
	} else {
		enter(c.types.K, 0, qHeads+c.kvHeads)
		enter(c.types.V, qHeads+c.kvHeads, c.kvHeads)
	}
	if err := r.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(rope)
	}
	want := values((len(r.rows) + 1) * qHeads * pad)
	copy(want, rope.Append(r.rows, x, r.heads, r.twin))
	if err := compare("q", r.floats(q), want, productError); err != nil {
		return err
	}
	return r.compareCache(roundingError(c.types.K), roundingError(c.types.V))
}

// randomTurns are cos and sin of each of so many positions, (positions, ropeDim/2).
func randomTurns(rnd *rand.Rand, positions, ropeDim int) (turns [][2]float32) {
	for range positions * ropeDim / 2 {
		sin, cos := math.Sincos(2 * math.Pi * rnd.Float64())
		turns = append(turns, [2]float32{float32(cos), float32(sin)})
	}
	return turns
}
