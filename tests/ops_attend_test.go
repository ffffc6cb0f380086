package tests

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"vkdecode/h2o"
	"vkdecode/ref"
	"vkdecode/shaders"
)

// attendError bounds the NMSE of attention and scores: exp of a dot product that was summed in f32.
const attendError = 1e-10

// attendCase is the attention of a step's rows over the cache, in slices of rows, with the scores it leaves.
type attendCase struct {
	types             h2o.Types
	kvHeads, group    int
	headTile, rowTile int // queries of a workgroup
	dim, depth        int
	seqs              []sequence
	slice             int  // rows
	ropeDim           int  // dimensions of K that are rotated where they are read; 0: they are already
	layers            int  // that the heads are of, where scores are made
	ordered           bool // slots lie in order of position, and ranks are not read
	rule              ref.Rule
	forge             func(c *cacheRig)
}

// rules are what scores are made of, in every way that policies and their options need.
var rules = []ref.Rule{
	{Update: ref.UpdateAdd, Decay: 1},
	{Update: ref.UpdateAdd, Decay: 0.75, Reduce: ref.ReduceMax},
	{Update: ref.UpdateAdd, Decay: 1, Reduce: ref.ReduceMean, Lifetime: true},
	{Update: ref.UpdateAdd, Decay: 1, Layer: true, Selfless: true},
	{Update: ref.UpdateLast, Decay: 1, Reduce: ref.ReduceMean, Layer: true},
	{Update: ref.UpdateHash, Decay: 1, Seed: 7},
	{Update: ref.UpdateLast, Decay: 1, Reduce: ref.ReduceMax},
	{Update: ref.UpdateAdd, Decay: 0.5, Layer: true, Reduce: ref.ReduceMean},
	{Update: ref.UpdateAdd, Decay: 0.75, Layer: true, Reduce: ref.ReduceMax, Selfless: true},
}

func (c attendCase) String() string {
	return fmt.Sprintf("%v, %d heads of group %d by %d, %d dimensions, %d slots deep, %v live and new, slices of %d rows by %d, %d dimensions rotated, scores of %d layers, ordered %t, %+v",
		c.types, c.kvHeads, c.group, c.headTile, c.dim, c.depth, c.seqs, c.slice, c.rowTile, c.ropeDim, c.layers, c.ordered, c.rule)
}

func attendCases(l launch) (all []opCase) {
	for i, c := range []attendCase{
		{kvHeads: 2, group: 1, headTile: 1, rowTile: 4, dim: 20, depth: 1}, {kvHeads: 1, group: 3, headTile: 2, rowTile: 2, dim: 20, depth: 2},
		{kvHeads: 2, group: 4, headTile: 3, rowTile: 1, dim: 48, depth: 4}, {kvHeads: 1, group: 16, headTile: 5, rowTile: 1, dim: 20, depth: 1},
		{kvHeads: 1, group: 2, headTile: 2, rowTile: 1, dim: 128, depth: 2, ropeDim: 128}, {kvHeads: 1, group: 2, headTile: 1, rowTile: 2, dim: 64, depth: 1, ropeDim: 36},
		{kvHeads: 2, group: 3, headTile: 3, rowTile: 1, dim: 80, depth: 1, ropeDim: 20}, {kvHeads: 1, group: 1, headTile: 1, rowTile: 4, dim: 20, depth: 2, ropeDim: 20},
	} {
		if l.form == shaders.Shared && i%2 != l.lanes/64 { // the two sizes share the cases: barriers make pipelines slow to build
			continue
		}
		c.types = typesOf(i, int(l.form))
		split := c.depth * l.lanes
		steps := []attendCase{{seqs: []sequence{{rows: 1}}, slice: 1}, {seqs: []sequence{{live: 2*split + 3, rows: 1}}, slice: 1}, {seqs: []sequence{{live: split - 2, rows: 7}}, slice: 4}, {seqs: []sequence{{live: 3, rows: min(2*split+5, 40)}}, slice: 20}}
		if c.rowTile == 1 { // rows of a tile are of one sequence
			steps = append(steps, attendCase{seqs: []sequence{{live: 5, rows: 2}, {rows: 1}, {live: split}, {live: split - 1, rows: 2}}, slice: 2})
		}
		for n, s := range steps {
			c.seqs, c.slice, c.layers, c.ordered, c.rule = s.seqs, s.slice, 1, (i+n)%2 == 0, rules[(i+3*n)%len(rules)]
			if n%2 == 1 {
				c.layers = c.kvHeads
			}
			all = append(all, c)
		}
	}
	for _, dim := range []int{32, 48, 64, 80, 128} {
		for _, types := range mixed {
			if l.form != shaders.Shared {
				all = append(all, attendCase{types: types, layers: 1, kvHeads: 2, group: 2, headTile: 2, rowTile: 1, dim: dim, depth: 1, ropeDim: dim % 64, seqs: []sequence{{live: 2*l.lanes + 3, rows: 2}}, slice: 2})
			}
		}
	}
	return all
}

// attendSlice is the scratch of a slice of rows.
type attendSlice struct{ e, peaks, o, shares *tensor }

// attendSizes are the strides that the kernels of a case share.
type attendSizes struct {
	pad, heads, split, splits, stride, yStride int
	turns                                      [][2]float32 // of places
}

func (c attendCase) sizes(l launch) (s attendSizes) {
	live := 0
	for _, q := range c.seqs {
		live = max(live, q.live+q.rows)
	}
	s.pad, s.heads, s.split = padOf(c.types, c.dim), c.kvHeads*c.group, c.depth*l.lanes
	s.splits = ceil(live, s.split) + 1 // the last one is empty
	s.stride, s.yStride = s.splits*s.split, s.heads*c.dim+3
	return s
}

func (c attendCase) run(b *bench, l launch) error {
	rnd := rand.New(rand.NewPCG(uint64(c.dim), uint64(len(c.seqs))))
	s := c.sizes(l)
	var first []ref.Slot // of the sequence's first head: with one score for the layer, all heads hold the same tokens
	r := b.newCache(l, rnd, c.types, s.pad, c.kvHeads, c.seqs, func(h *ref.Head, seq int, slots []ref.Slot) {
		h.Rule = c.rule
		if seq == 1 {
			h.Update = ref.UpdateNone
		}
		if len(first) != len(slots) {
			first = slots
		}
		if c.rule.Layer {
			copy(slots, first)
		}
		if c.ordered {
			slices.SortFunc(slots, func(a, b ref.Slot) int { return cmp.Compare(a.Pos, b.Pos) })
		}
	})
	defer r.free()
	s.turns = randomTurns(rnd, s.stride, max(2, c.ropeDim))
	q := randomFloats(rnd, len(r.rows)*s.heads*s.pad)
	for i := range q {
		q[i] *= 0.3
	}
	qs, rope, y := in(r.rig, "q", q), in(r.rig, "rope", s.turns), r.out("y", (len(r.rows)+1)*s.yStride)
	var scratch []attendSlice
	for row := 0; row < len(r.rows); row += c.slice {
		t := c.scratch(r, s)
		c.addLogits(r, s, t, row, qs, rope)
		c.add(r, s, t, row, y)
		scratch = append(scratch, t)
	}
	if err := r.rig.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(r)
	}
	return c.compare(r, s, scratch, q, y)
}

// scratch is that of a slice.
func (c attendCase) scratch(r *cacheRig, s attendSizes) attendSlice {
	n := c.slice * s.heads
	return attendSlice{r.out("e", n*s.stride), r.out("peaks", n*s.splits*2), r.out("o", n*s.splits*s.pad), r.out("shares", n*s.splits)}
}

// addLogits appends the kernel that begins attention.
func (c attendCase) addLogits(r *cacheRig, s attendSizes, t attendSlice, row int, q, rope *tensor) {
	ranks := r.ranksAt
	if c.ordered {
		ranks = math.MaxUint32
	}
	r.add(shaders.AttendLogits{Lanes: uint32(r.lanes), Depth: uint32(c.depth), KvHeads: uint32(c.kvHeads), Group: uint32(c.group), HeadTile: uint32(c.headTile), RowTile: uint32(c.rowTile), HeadPad: uint32(s.pad), RopeDim: uint32(c.ropeDim),
		Head: others, Row: uint32(row), Rows: uint32(c.slice), Stride: uint32(s.stride), Splits: uint32(s.splits), Plane: r.kPlane, Ranks: ranks,
		Step: r.step.Range, Table: r.table.Range, K: r.k.Range, Slots: r.slots.Range, Q: q.Range, Rope: rope.Range, E: t.e.Range, Peaks: t.peaks.Range},
		"", c.types.K, s.splits, c.kvHeads*ceil(c.group, c.headTile), ceil(c.slice, c.rowTile))
}

// add appends the kernels that follow.
func (c attendCase) add(r *cacheRig, s attendSizes, t attendSlice, row int, y *tensor) {
	lanes, kv, group, headTile, rowTile := uint32(r.lanes), uint32(c.kvHeads), uint32(c.group), uint32(c.headTile), uint32(c.rowTile)
	at, rows, stride, splits := uint32(row), uint32(c.slice), uint32(s.stride), uint32(s.splits)
	wide := 1
	for shares := s.pad / min(8, 4*wordValues(c.types.V)); wide < shares && wide < r.lanes; wide *= 2 {
	}
	r.add(shaders.AttendValues{Lanes: lanes, Split: uint32(s.split), KvHeads: kv, Group: group, HeadTile: headTile, RowTile: rowTile, HeadPad: uint32(s.pad), Wide: uint32(wide),
		Head: others, Row: at, Rows: rows, Stride: stride, Splits: splits, Plane: r.vPlane,
		Step: r.step.Range, Table: r.table.Range, V: r.v.Range, E: t.e.Range, O: t.o.Range}, "", c.types.V, s.splits, c.kvHeads*ceil(c.group, c.headTile), ceil(c.slice, c.rowTile))
	r.add(shaders.AttendMerge{Lanes: lanes, Split: uint32(s.split), KvHeads: kv, Group: group, HeadDim: uint32(c.dim), HeadPad: uint32(s.pad), Values: 1,
		Head: others, Row: at, Rows: rows, Splits: splits, YStride: uint32(s.yStride),
		Step: r.step.Range, Table: r.table.Range, Peaks: t.peaks.Range, O: t.o.Range, Y: y.Range, Shares: t.shares.Range}, "", "", s.heads, c.slice+1, 1)
	span := 1 + c.group%3
	r.add(shaders.Score{Lanes: lanes, Split: uint32(s.split), Span: uint32(span), KvHeads: kv, Group: group, LayerHeads: uint32(c.kvHeads / c.layers), Depth: 1, May: 7, Head: others, Number: uint32(c.layer() * (c.kvHeads / c.layers)), Row: at, Rows: rows, Stride: stride, Splits: splits,
		Step: r.step.Range, Table: r.table.Range, E: t.e.Range, Shares: t.shares.Range, Slots: r.slots.Range, SlotsOut: r.slots.Range}, "", "", ceil(s.splits, span), c.kvHeads, len(c.seqs))
}

// compare compares everything that the kernels wrote.
func (c attendCase) compare(r *cacheRig, s attendSizes, scratch []attendSlice, q []float32, y *tensor) error {
	n := c.slice * s.heads
	wantY := values((len(r.rows) + 1) * s.yStride)
	given := make([][]ref.ScoreQuery, len(c.seqs)) // by row, to the slots of each query head's group
	for i, t := range scratch {
		e, peaks, o, shares := values(n*s.stride), values(n*s.splits*2), values(n*s.splits*s.pad), values(n*s.splits)
		for row := i * c.slice; row < min((i+1)*c.slice, len(r.rows)); row++ {
			seq := r.rows[row].Seq
			added, _ := r.added(seq)
			given[seq] = append(given[seq], ref.ScoreQuery{Pos: r.rows[row].Pos})
			for head := range s.heads {
				h := r.head(seq, head/c.group)
				query := q[(row*s.heads+head)*s.pad:][:s.pad]
				a := r.turned(*h, h.Live+added, s.turns, c.ropeDim).Attend(*h, h.Live+added, query, r.rows[row].Pos, s.split)
				at := (row-i*c.slice)*s.heads + head
				written := ceil(r.seenEnd(c.lastOfTile(r, row)), s.split) // splits that a row of the tile may see
				clear(e[at*s.stride:][:written*s.split])                  // a split is written whole
				copy(e[at*s.stride:], a.E[:min(len(a.E), written*s.split)])
				copy(shares[at*s.splits:], a.F[:ceil(r.seenEnd(row), s.split)])
				for split := range written {
					copy(peaks[(at*s.splits+split)*2:], []float64{a.Peak[split], a.Sum[split]})
					copy(o[(at*s.splits+split)*s.pad:], a.O[split])
				}
				copy(wantY[row*s.yStride+head*c.dim:], a.Y[:c.dim])
				last := &given[seq][len(given[seq])-1]
				last.Probabilities = append(last.Probabilities, a.P)
			}
		}
		for _, x := range []struct {
			t    *tensor
			want []float64
		}{{t.e, e}, {t.peaks, peaks}, {t.o, o}, {t.shares, shares}} {
			if err := compare(fmt.Sprintf("%s of slice %d", x.t.name, i), r.floats(x.t), x.want, attendError); err != nil {
				return err
			}
		}
	}
	if err := compare("y", r.floats(y), wantY, attendError); err != nil {
		return err
	}
	return r.compareScores(given, c.group, c.kvHeads/c.layers, c.layer()*c.kvHeads/c.layers)
}

// lastOfTile is the last row of the tile that a row is in.
func (c attendCase) lastOfTile(r *cacheRig, row int) int {
	slice := row / c.slice * c.slice
	last := slice + ((row-slice)/c.rowTile+1)*c.rowTile - 1
	return min(last, slice+c.slice-1, len(r.rows)-1)
}

// turned is the twin whose keys of a head are rotated to their ranks, where that is left to attention.
func (r *cacheRig) turned(h ref.Head, live int, turns [][2]float32, ropeDim int) *ref.Pool {
	if ropeDim == 0 {
		return r.twin
	}
	return r.twin.Turned(h, r.places(h, live), turns, ropeDim)
}

// compareScores compares the live slots' scores after rows that gave the query heads so much, by sequence, in layers of so many
// KV heads from the given one on; positions and all other slots are as they were.
func (r *cacheRig) compareScores(given [][]ref.ScoreQuery, group, layerHeads, number int) error {
	words, want, got := r.words(r.slots), r.slotWords(), r.floats(r.slots)
	var scores []float32
	var twins []float64
	for i, h := range r.heads {
		seq, kv := i/r.kvHeads, i%r.kvHeads
		added, _ := r.added(seq)
		if h.Update == ref.UpdateNone || added == 0 {
			continue
		}
		var rows []ref.ScoreQuery
		first, heads := kv, 1
		if h.Layer {
			heads = layerHeads
			first = kv / heads * heads
		}
		for _, row := range given[seq] {
			row.Probabilities = row.Probabilities[first*group:][:heads*group]
			rows = append(rows, row)
		}
		for slot, score := range r.twin.Score(h, h.Live+added, number+kv, rows) {
			at := 2*(h.Offset+slot) + 1
			scores, twins, want[at] = append(scores, got[at]), append(twins, score), words[at]
		}
	}
	if err := compareWords("slots", words, want); err != nil {
		return err
	}
	if r.heads[0].Update == ref.UpdateHash {
		return compare("scores", scores, twins, exact)
	}
	return compare("scores", scores, twins, attendError)
}

// layer is the number that the layer goes by.
func (c attendCase) layer() int { return c.dim % 7 }
