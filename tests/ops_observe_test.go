package tests

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"vkdecode/h2o"
	"vkdecode/ref"
	"vkdecode/runtime"
	"vkdecode/shaders"
)

// observeCase keeps the queries of the last tokens.
type observeCase struct {
	window, quads int
	seqs          []sequence // first: position of the first row
	forge         func(rows []ref.Row)
}

func (c observeCase) String() string {
	return fmt.Sprintf("window %d, %d vec4 a row, %v", c.window, c.quads, c.seqs)
}

func observeCases(l launch) []opCase {
	return []opCase{observeCase{window: 1, quads: 1, seqs: []sequence{{rows: 1}}}, observeCase{window: 8, quads: 2*l.lanes + 1, seqs: []sequence{{rows: 3, first: 17}}},
		observeCase{window: 5, quads: 6, seqs: []sequence{{rows: 12, first: 4}, {}, {rows: 2, first: 99}, {rows: 5}}}}
}

func (c observeCase) run(b *bench, l launch) error {
	var rows []runtime.Row
	var twin []ref.Row
	for seq, s := range c.seqs {
		for i := range s.rows {
			rows = append(rows, runtime.Row{Token: 1, Seq: int32(seq), Pos: int32(100 + s.first + i), Place: int32(s.first + i)})
			twin = append(twin, ref.Row{Token: 1, Seq: seq, Pos: 100 + s.first + i, Place: s.first + i})
		}
	}
	r := b.rig(l, rows)
	defer r.free()
	width := 4 * c.quads
	q, ring := in(r, "q", randomFloats(rand.New(rand.NewPCG(23, uint64(width))), len(rows)*width)), r.out("ring", len(c.seqs)*c.window*width)
	r.add(shaders.Observe{Lanes: uint32(l.lanes), Window: uint32(c.window), Quads: uint32(c.quads), Step: r.step.Range, Q: q.Range, Ring: ring.Range},
		"", "", ceil(c.quads, l.lanes)+1, len(rows)+1, 1)
	want := r.words(ring)
	if err := r.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(twin)
	}
	ref.Observe(ref.Observation{Window: c.window}, want, r.words(q), width, twin)
	return compareWords("ring", r.words(ring), want)
}

// windowCase is what observed queries give the tokens of the work pool: attention without values, slice by slice.
type windowCase struct {
	attendCase
	forge func(c *cacheRig)
}

func windowCases(l launch) (all []opCase) {
	cases := attendCases(l)
	for _, i := range []int{0, len(cases) - 1} { // with the kernels of attention that are there
		c := cases[i].(attendCase)
		c.seqs, c.slice = []sequence{{live: 2*c.depth*l.lanes - 3, rows: 7}}, 4
		if c.rowTile == 1 {
			c.seqs, c.slice = []sequence{{live: 20, rows: 5}, {live: 3}, {live: c.depth*l.lanes - 1, rows: 2}, {rows: 3}}, 3
		}
		c.ordered = c.ropeDim > 0
		all = append(all, windowCase{attendCase: c})
	}
	return all
}

func (c windowCase) run(b *bench, l launch) error {
	rnd := rand.New(rand.NewPCG(24, uint64(c.dim)))
	s := c.sizes(l)
	r := b.newCache(l, rnd, c.types, s.pad, c.kvHeads, c.seqs, func(h *ref.Head, _ int, slots []ref.Slot) { counted(h, slots) })
	defer r.free()
	s.turns = randomTurns(rnd, s.stride, max(2, c.ropeDim))
	for seq := range c.seqs { // rows are looked at once more
		r.patch(r.step, stepWord(seq, addedWord), 0)
	}
	r.turnRows()
	q := randomFloats(rnd, len(r.rows)*s.heads*s.pad)
	qs, rope := in(r.rig, "q", q), in(r.rig, "rope", s.turns)
	y, sums := r.out("y", len(r.rows)*s.yStride), r.out("sums", len(c.seqs)*s.heads*s.stride)
	var scratch []attendSlice
	for row := 0; row < len(r.rows); row += c.slice {
		t := c.scratch(r, s)
		scratch = append(scratch, t)
		c.addLogits(r, s, t, row, qs, rope)
		r.add(shaders.AttendMerge{Lanes: uint32(l.lanes), Split: uint32(s.split), KvHeads: uint32(c.kvHeads), Group: uint32(c.group), HeadDim: uint32(c.dim), HeadPad: uint32(s.pad),
			Head: others, Row: uint32(row), Rows: uint32(c.slice), Splits: uint32(s.splits), YStride: uint32(s.yStride),
			Step: r.step.Range, Table: r.table.Range, Peaks: t.peaks.Range, O: t.o.Range, Y: y.Range, Shares: t.shares.Range}, "", "", s.heads, c.slice+1, 1)
		r.add(shaders.Window{Lanes: uint32(l.lanes), Split: uint32(s.split), KvHeads: uint32(c.kvHeads), Group: uint32(c.group), Head: others, Row: uint32(row), Rows: uint32(c.slice), Stride: uint32(s.stride), Splits: uint32(s.splits),
			Step: r.step.Range, Table: r.table.Range, E: t.e.Range, Shares: t.shares.Range, Sums: sums.Range}, "", "", s.splits, s.heads, len(c.seqs))
	}
	if err := r.rig.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(r)
	}
	want := values(len(c.seqs) * s.heads * s.stride)
	for i, h := range r.heads {
		seq, pool := i/c.kvHeads, r.turned(h, h.Live, s.turns, c.ropeDim)
		for n := range c.group {
			head := i%c.kvHeads*c.group + n
			var given [][]float64
			for row, at := range r.rows {
				if at.Seq == seq {
					given = append(given, pool.Attend(h, h.Live, q[(row*s.heads+head)*s.pad:][:s.pad], at.Pos, s.split).P)
				}
			}
			copy(want[(seq*s.heads+head)*s.stride:], ref.Given(given, h.Live))
		}
	}
	for _, t := range append(scratch, attendSlice{o: y}) {
		if err := compare(t.o.name, r.floats(t.o), values(len(t.o.image)/4-2*guard/4), exact); err != nil {
			return err
		}
	}
	return compare("sums", r.floats(sums), want, attendError)
}

// turnRows gives the rows of each sequence their neighbours' positions, as they lie in a ring.
func (c *cacheRig) turnRows() {
	const posWord = 2
	rows := slices.Clone(c.rows)
	for i, row := range rows {
		next := i + 1
		if next == len(rows) || rows[next].Seq != row.Seq {
			next = slices.IndexFunc(rows, func(r ref.Row) bool { return r.Seq == row.Seq })
		}
		c.rows[i].Pos = rows[next].Pos
		c.patch(c.step, 4*(1+i)+posWord, uint32(rows[next].Pos))
	}
}

// poolCase makes scores of what was observed.
type poolCase struct {
	ref.Observation
	kvHeads, group int
	seqs           []sequence
	forge          func(o *ref.Observation)
}

func (c poolCase) String() string {
	return fmt.Sprintf("%+v, %d heads of group %d, %v live and new", c.Observation, c.kvHeads, c.group, c.seqs)
}

func poolCases(l launch) (all []opCase) {
	for _, o := range []ref.Observation{{Window: 4, Kernel: 7}, {Window: 5, Kernel: 3, Average: true}, {Window: 1, Kernel: 1}, {Window: 2, Kernel: 99, Average: true}, {Window: 33, Kernel: 7, Average: true}} {
		all = append(all, poolCase{Observation: o, kvHeads: 3, group: 2, seqs: []sequence{{live: 2*l.lanes + 9, rows: 4}, {live: 3}, {rows: 1}, {live: 30, rows: 3}}})
	}
	return append(all, poolCase{Observation: ref.Observation{Window: 8, Kernel: 5}, kvHeads: 1, group: 1, seqs: []sequence{{live: 2, rows: 2}}})
}

func (c poolCase) run(b *bench, l launch) error {
	rnd := rand.New(rand.NewPCG(25, uint64(c.Kernel)))
	reduce := 0
	r := b.newCache(l, rnd, h2o.Types{K: "f16", V: "f16"}, 8, c.kvHeads, c.seqs, func(h *ref.Head, _ int, slots []ref.Slot) {
		counted(h, slots)
		h.Reduce, reduce = reduce%3, reduce+1
	})
	defer r.free()
	split, heads := 2*l.lanes, c.kvHeads*c.group
	splits := ceil(r.capacity(), split)
	stride := splits * split
	sums := randomFloats(rnd, len(c.seqs)*heads*stride)
	for i := range sums {
		sums[i] *= sums[i]
	}
	r.add(shaders.Pool{Lanes: uint32(l.lanes), Split: uint32(split), KvHeads: uint32(c.kvHeads), Group: uint32(c.group), Head: others, Stride: uint32(stride), Window: uint32(c.Window), Kernel: uint32(c.Kernel), Average: word(c.Average),
		Step: r.step.Range, Table: r.table.Range, Sums: in(r.rig, "sums", sums).Range, Slots: r.slots.Range, SlotsOut: r.slots.Range}, "", "", splits+1, c.kvHeads, len(c.seqs))
	if err := r.rig.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(&c.Observation)
	}
	words, want, got := r.words(r.slots), r.slotWords(), r.floats(r.slots)
	var scores []float32
	var twins []float64
	for i, h := range r.heads {
		seq, kv := i/c.kvHeads, i%c.kvHeads
		if added, _ := r.added(seq); added == 0 {
			continue
		}
		var given [][]float64
		for n := range c.group {
			given = append(given, widen(sums[(seq*heads+kv*c.group+n)*stride:][:h.Live]))
		}
		for slot, score := range c.Scores(given, h.Reduce) {
			at := 2*(h.Offset+slot) + 1
			scores, twins, want[at] = append(scores, got[at]), append(twins, score), words[at]
		}
	}
	if err := compareWords("slots", words, want); err != nil {
		return err
	}
	return compare("scores", scores, twins, attendError)
}
