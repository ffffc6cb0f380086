package tests

import (
	"fmt"
	"math/rand/v2"

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
	slice             int // rows
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
}

func (c attendCase) String() string {
	return fmt.Sprintf("%v, %d heads of group %d by %d, %d dimensions, %d slots deep, %v live and new, slices of %d rows by %d, %+v",
		c.types, c.kvHeads, c.group, c.headTile, c.dim, c.depth, c.seqs, c.slice, c.rowTile, c.rule)
}

func attendCases(l launch) (all []opCase) {
	for i, c := range []attendCase{
		{kvHeads: 2, group: 1, headTile: 1, rowTile: 4, dim: 20, depth: 1}, {kvHeads: 1, group: 3, headTile: 2, rowTile: 2, dim: 20, depth: 2},
		{kvHeads: 2, group: 4, headTile: 3, rowTile: 1, dim: 48, depth: 4}, {kvHeads: 1, group: 16, headTile: 5, rowTile: 1, dim: 20, depth: 1},
		{kvHeads: 1, group: 2, headTile: 2, rowTile: 1, dim: 128, depth: 2}, {kvHeads: 1, group: 2, headTile: 1, rowTile: 2, dim: 64, depth: 1},
		{kvHeads: 2, group: 3, headTile: 3, rowTile: 1, dim: 80, depth: 1}, {kvHeads: 1, group: 1, headTile: 1, rowTile: 4, dim: 32, depth: 2},
	} {
		if l.form == shaders.Shared && i%2 != l.lanes/64 { // the two sizes share the cases: barriers make pipelines slow to build
			continue
		}
		c.types = typesOf(i, int(l.form))
		split := c.depth * l.lanes
		steps := []attendCase{{seqs: []sequence{{rows: 1}}, slice: 1}, {seqs: []sequence{{live: 2*split + 3, rows: 1}}, slice: 1}, {seqs: []sequence{{live: split - 2, rows: 7}}, slice: 4}}
		if c.rowTile == 1 { // rows of a tile are of one sequence
			steps = append(steps, attendCase{seqs: []sequence{{live: 5, rows: 2}, {rows: 1}, {live: split}, {live: split - 1, rows: 2}}, slice: 2})
		}
		for n, s := range steps {
			c.seqs, c.slice, c.rule = s.seqs, s.slice, rules[(i+3*n)%len(rules)]
			all = append(all, c)
		}
	}
	for _, dim := range []int{32, 48, 64, 80, 128} {
		for _, types := range mixed {
			if l.form != shaders.Shared {
				all = append(all, attendCase{types: types, kvHeads: 2, group: 2, headTile: 2, rowTile: 1, dim: dim, depth: 1, seqs: []sequence{{live: 2*l.lanes + 3, rows: 2}}, slice: 2})
			}
		}
	}
	return all
}

// attendSlice is the scratch of a slice of rows.
type attendSlice struct{ e, peaks, o, shares *tensor }

// attendSizes are the strides that the kernels of a case share.
type attendSizes struct{ pad, heads, split, splits, stride, yStride int }

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
	})
	defer r.free()
	q := randomFloats(rnd, len(r.rows)*s.heads*s.pad)
	for i := range q {
		q[i] *= 0.3
	}
	qs, y := in(r.rig, "q", q), r.out("y", (len(r.rows)+1)*s.yStride)
	var slices []attendSlice
	for row := 0; row < len(r.rows); row += c.slice {
		slices = append(slices, c.add(r, s, row, qs, y))
	}
	if err := r.rig.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(r)
	}
	return c.compare(r, s, slices, q, y)
}

// add appends the kernels for a slice of rows.
func (c attendCase) add(r *cacheRig, s attendSizes, row int, q, y *tensor) attendSlice {
	n := c.slice * s.heads
	t := attendSlice{r.out("e", n*s.stride), r.out("peaks", n*s.splits*2), r.out("o", n*s.splits*s.pad), r.out("shares", n*s.splits)}
	lanes, kv, group, headTile, rowTile := uint32(r.lanes), uint32(c.kvHeads), uint32(c.group), uint32(c.headTile), uint32(c.rowTile)
	at, rows, stride, splits := uint32(row), uint32(c.slice), uint32(s.stride), uint32(s.splits)
	wide := 1
	for shares := s.pad / min(8, 4*wordValues(c.types.V)); wide < shares && wide < r.lanes; wide *= 2 {
	}
	heads := c.kvHeads * ceil(c.group, c.headTile)
	r.add(shaders.AttendLogits{Lanes: lanes, Depth: uint32(c.depth), KvHeads: kv, Group: group, HeadTile: headTile, RowTile: rowTile, HeadPad: uint32(s.pad),
		Head: others, Row: at, Rows: rows, Stride: stride, Splits: splits, Plane: r.kPlane,
		Step: r.step.Range, Table: r.table.Range, K: r.k.Range, Slots: r.slots.Range, Q: q.Range, E: t.e.Range, Peaks: t.peaks.Range},
		"", c.types.K, s.splits, heads, ceil(c.slice, c.rowTile))
	r.add(shaders.AttendValues{Lanes: lanes, Split: uint32(s.split), KvHeads: kv, Group: group, HeadTile: headTile, RowTile: rowTile, HeadPad: uint32(s.pad), Wide: uint32(wide),
		Head: others, Row: at, Rows: rows, Stride: stride, Splits: splits, Plane: r.vPlane,
		Step: r.step.Range, Table: r.table.Range, V: r.v.Range, E: t.e.Range, O: t.o.Range}, "", c.types.V, s.splits, heads, ceil(c.slice, c.rowTile))
	r.add(shaders.AttendMerge{Lanes: lanes, Split: uint32(s.split), KvHeads: kv, Group: group, HeadDim: uint32(c.dim), HeadPad: uint32(s.pad),
		Head: others, Row: at, Rows: rows, Splits: splits, YStride: uint32(s.yStride),
		Step: r.step.Range, Table: r.table.Range, Peaks: t.peaks.Range, O: t.o.Range, Y: y.Range, Shares: t.shares.Range}, "", "", s.heads, c.slice+1, 1)
	r.add(shaders.Score{Lanes: lanes, Split: uint32(s.split), KvHeads: kv, Group: group, Head: others, Layer: uint32(c.layer()), Row: at, Rows: rows, Stride: stride, Splits: splits,
		Step: r.step.Range, Table: r.table.Range, E: t.e.Range, Shares: t.shares.Range, Slots: r.slots.Range, SlotsOut: r.slots.Range}, "", "", s.splits, c.kvHeads, len(c.seqs))
	return t
}

// compare compares everything that the kernels wrote.
func (c attendCase) compare(r *cacheRig, s attendSizes, slices []attendSlice, q []float32, y *tensor) error {
	n := c.slice * s.heads
	wantY := values((len(r.rows) + 1) * s.yStride)
	given := make([][]ref.ScoreQuery, len(c.seqs)) // by row, to the slots of each query head's group
	for i, t := range slices {
		e, peaks, o, shares := values(n*s.stride), values(n*s.splits*2), values(n*s.splits*s.pad), values(n*s.splits)
		for row := i * c.slice; row < min((i+1)*c.slice, len(r.rows)); row++ {
			seq := r.rows[row].Seq
			added, _ := r.added(seq)
			given[seq] = append(given[seq], ref.ScoreQuery{Pos: r.rows[row].Pos})
			for head := range s.heads {
				h := r.head(seq, head/c.group)
				query := q[(row*s.heads+head)*s.pad:][:s.pad]
				a := r.twin.Attend(*h, h.Live+added, query, r.rows[row].Pos, s.split)
				at := (row-i*c.slice)*s.heads + head
				clear(e[at*s.stride:][:len(a.Peak)*s.split]) // a split is written whole
				copy(e[at*s.stride:], a.E)
				copy(shares[at*s.splits:], a.F)
				for split := range a.Peak {
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
	return c.compareScores(r, given)
}

// compareScores compares the live slots' scores; positions and all other slots are as they were.
func (c attendCase) compareScores(r *cacheRig, given [][]ref.ScoreQuery) error {
	words, want, got := r.words(r.slots), r.slotWords(), r.floats(r.slots)
	var scores []float32
	var twins []float64
	for i, h := range r.heads {
		seq, kv := i/c.kvHeads, i%c.kvHeads
		added, _ := r.added(seq)
		if h.Update == ref.UpdateNone || added == 0 {
			continue
		}
		var rows []ref.ScoreQuery
		for _, row := range given[seq] {
			if !h.Layer {
				row.Probabilities = row.Probabilities[kv*c.group : (kv+1)*c.group]
			}
			rows = append(rows, row)
		}
		for slot, score := range r.twin.Score(h, h.Live+added, c.layer()*c.kvHeads+kv, rows) {
			at := 2*(h.Offset+slot) + 1
			scores, twins, want[at] = append(scores, got[at]), append(twins, score), words[at]
		}
	}
	if err := compareWords("slots", words, want); err != nil {
		return err
	}
	if c.rule.Update == ref.UpdateHash {
		return compare("scores", scores, twins, exact)
	}
	return compare("scores", scores, twins, attendError)
}

// layer is the number that the layer goes by.
func (c attendCase) layer() int { return c.dim % 7 }
