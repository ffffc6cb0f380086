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

// promptCase is the attention of prompts' rows, of which a dispatch takes those of one sequence, and what it makes of scores;
// or of their observed queries, and what these gave.
type promptCase struct {
	types                h2o.Types
	kvHeads, group, tile int // tile: query heads of a workgroup
	perLane              int // rows
	dim, together        int // together: slots that are looked at at once
	depth                int // slots of a lane that makes probabilities
	ropeDim              int // dimensions of K that are rotated where they are read; 0: they are already
	ordered              bool
	observed             bool
	rule                 ref.Rule
	seqs                 []sequence
	forge                func(c *cacheRig)
}

func (c promptCase) String() string {
	return fmt.Sprintf("%v, %d heads of group %d by %d, %d dimensions, %d rows per lane, %d slots at once and %d deep, %d dimensions rotated, ordered %t, observed %t, %v live and new, %+v",
		c.types, c.kvHeads, c.group, c.tile, c.dim, c.perLane, c.together, c.depth, c.ropeDim, c.ordered, c.observed, c.seqs, c.rule)
}

func promptCases(l launch) (all []opCase) {
	if l.form == shaders.Shared { // workgroups are one subgroup
		return nil
	}
	for i, c := range []promptCase{
		{kvHeads: 2, group: 1, tile: 1, perLane: 2, dim: 20, together: 4, depth: 2}, {kvHeads: 2, group: 3, tile: 3, perLane: 1, dim: 64, together: 4, depth: 8},
		{kvHeads: 1, group: 5, tile: 4, perLane: 1, dim: 48, together: 4, depth: 1}, {kvHeads: 1, group: 3, tile: 2, perLane: 1, dim: 80, together: 1, depth: 3, ropeDim: 20},
		{kvHeads: 2, group: 1, tile: 1, perLane: 1, dim: 128, together: 2, depth: 2, ropeDim: 128}, {kvHeads: 1, group: 5, tile: 5, perLane: 2, dim: 22, together: 3, depth: 1, ropeDim: 18},
		{kvHeads: 2, group: 2, tile: 1, perLane: 1, dim: 32, together: 8, depth: 4, ropeDim: 32},
	} {
		for n, seqs := range [][]sequence{
			{{rows: 1}}, {{live: 4 * c.together, rows: 7}}, {{live: 3, rows: 9}}, {{live: 101, rows: 40}}, {{rows: 40}},
			{{live: 5, rows: 2}, {live: 9}, {rows: 17}, {live: 50, rows: 1}},
		} {
			c.types, c.seqs, c.ordered, c.rule = typesOf(i+n, int(l.form)), seqs, n%2 == 0, rules[(i+3*n)%len(rules)]
			if c.observed = n%4 == 3; c.observed {
				c.ordered = true
			}
			all = append(all, c)
		}
	}
	for i, types := range mixed {
		all = append(all, promptCase{types: types, kvHeads: 2, group: 2, tile: 2, perLane: 1, dim: 64, together: 4, depth: 2, ropeDim: 64 * i, rule: rules[i], seqs: []sequence{{live: 30, rows: 9}}})
	}
	return all
}

// cache is that of the case.
func (c promptCase) cache(b *bench, l launch, rnd *rand.Rand, pad int) *cacheRig {
	var first []ref.Slot // of the sequence's first head: with one score for the layer, all heads hold the same tokens
	return b.newCache(l, rnd, c.types, pad, c.kvHeads, c.seqs, func(h *ref.Head, seq int, slots []ref.Slot) {
		if c.observed {
			counted(h, slots)
			return
		}
		if h.Rule = c.rule; seq == 2 {
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
}

func (c promptCase) run(b *bench, l launch) error {
	rnd := rand.New(rand.NewPCG(uint64(c.dim), uint64(len(c.seqs))))
	pad, heads := padOf(c.types, c.dim), c.kvHeads*c.group
	r := c.cache(b, l, rnd, pad)
	defer r.free()
	if c.observed { // rows are looked at once more
		for seq := range c.seqs {
			r.patch(r.step, stepWord(seq, addedWord), 0)
		}
		r.turnRows()
	}
	q := randomFloats(rnd, len(r.rows)*heads*pad)
	for i := range q {
		q[i] *= 0.3
	}
	turns := randomTurns(rnd, r.capacity(), max(2, c.ropeDim))
	yStride, stride := (heads*c.dim+3)/4*4+4, r.capacity()+3
	qs, rope := in(r.rig, "q", q), in(r.rig, "rope", turns)
	y, norms, sums := r.out("y", (len(r.rows)+1)*yStride), r.out("norms", len(r.rows)*heads*2), r.out("sums", len(c.seqs)*heads*stride)
	ranks := r.ranksAt
	if c.ordered {
		ranks = math.MaxUint32
	}
	row := 0
	for seq := range c.seqs {
		n, _ := r.added(seq)
		if n == 0 {
			continue
		}
		count := n
		if seq == len(c.seqs)-1 { // the step may have fewer rows than were recorded
			count += l.lanes + 1
		}
		lanes, kv, group, at, rows := uint32(l.lanes), uint32(c.kvHeads), uint32(c.group), uint32(row), uint32(count)
		tiles := ceil(r.capacity(), c.depth*l.lanes) + 1
		r.add(shaders.AttendRows{Lanes: lanes, KvHeads: kv, Group: group, HeadTile: uint32(c.tile), Rows: uint32(c.perLane), HeadDim: uint32(c.dim), HeadPad: uint32(pad), RopeDim: uint32(c.ropeDim),
			KType: kindOf(c.types.K), VType: kindOf(c.types.V), Together: uint32(c.together), Values: word(!c.observed),
			Head: others, Row: at, Count: rows, YStride: uint32(yStride), KPlane: r.kPlane, VPlane: r.vPlane, Ranks: ranks,
			Step: r.step.Range, Table: r.table.Range, K: r.k.Range, V: r.v.Range, Slots: r.slots.Range, Q: qs.Range, Rope: rope.Range, Y: y.Range, Norms: norms.Range},
			"", "", ceil(count, c.perLane*l.lanes)+1, c.kvHeads*ceil(c.group, c.tile), 1)
		if c.observed {
			r.add(shaders.WindowRows{Lanes: lanes, Depth: uint32(c.depth), KvHeads: kv, Group: group, HeadPad: uint32(pad), RopeDim: uint32(c.ropeDim), KType: kindOf(c.types.K),
				Head: others, Row: at, Count: rows, Stride: uint32(stride), KPlane: r.kPlane, Ranks: ranks,
				Step: r.step.Range, Table: r.table.Range, K: r.k.Range, Slots: r.slots.Range, Q: qs.Range, Norms: norms.Range, Rope: rope.Range, Sums: sums.Range}, "", "", tiles, heads, 1)
		} else {
			r.add(shaders.ScoreRows{Lanes: lanes, Depth: uint32(c.depth), KvHeads: kv, Group: group, HeadPad: uint32(pad), RopeDim: uint32(c.ropeDim), KType: kindOf(c.types.K), May: 7,
				Head: others, Number: promptNumber, Row: at, Count: rows, KPlane: r.kPlane, Ranks: ranks,
				Step: r.step.Range, Table: r.table.Range, K: r.k.Range, Slots: r.slots.Range, Q: qs.Range, Norms: norms.Range, Rope: rope.Range, SlotsOut: r.slots.Range}, "", "", tiles, c.kvHeads, 1)
		}
		row += n
	}
	if err := r.rig.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(r)
	}
	return c.compare(r, promptOutputs{q, turns, y, norms, sums, yStride, stride})
}

const promptNumber = 5 // of the first KV head in the model

// promptOutputs are what the kernels of a case wrote, and of what.
type promptOutputs struct {
	q               []float32
	turns           [][2]float32
	y, norms, sums  *tensor
	yStride, stride int
}

// compare compares everything that they wrote.
func (c promptCase) compare(r *cacheRig, out promptOutputs) error {
	pad, heads := r.twin.Pad, c.kvHeads*c.group
	y, norms, sums := values((len(r.rows)+1)*out.yStride), values(len(r.rows)*heads*2), values(len(c.seqs)*heads*out.stride)
	given := make([][]ref.ScoreQuery, len(c.seqs))
	for i, row := range r.rows {
		added, _ := r.added(row.Seq)
		if c.observed {
			added = 0
		}
		query := ref.ScoreQuery{Pos: row.Pos}
		for head := range heads {
			h := r.head(row.Seq, head/c.group)
			live := h.Live + added
			a := r.turned(*h, live, out.turns, c.ropeDim).Attend(*h, live, out.q[(i*heads+head)*pad:][:pad], row.Pos, live)
			copy(norms[(i*heads+head)*2:], []float64{a.Peak[0], a.Sum[0]})
			query.Probabilities = append(query.Probabilities, a.P)
			if !c.observed {
				copy(y[i*out.yStride+head*c.dim:], a.Y[:c.dim])
			}
		}
		given[row.Seq] = append(given[row.Seq], query)
	}
	if c.observed {
		for i, h := range r.heads {
			seq, kv := i/c.kvHeads, i%c.kvHeads
			for n := range c.group {
				var of [][]float64
				for _, row := range given[seq] {
					of = append(of, row.Probabilities[kv*c.group+n])
				}
				if len(of) > 0 {
					copy(sums[(seq*heads+kv*c.group+n)*out.stride:], ref.Given(of, h.Live))
				}
			}
		}
	}
	for _, x := range []struct {
		t    *tensor
		want []float64
	}{{out.y, y}, {out.norms, norms}, {out.sums, sums}} {
		if err := compare(x.t.name, r.floats(x.t), x.want, attendError); err != nil {
			return err
		}
	}
	if c.observed {
		return r.compareCache(exact, exact)
	}
	return r.compareScores(given, c.group, c.kvHeads, promptNumber)
}

// kindOf is the number of a cache type: include/cached.glsl.
func kindOf(cacheType string) uint32 {
	return uint32(slices.Index([]string{"f32", "f16", "q8_0", "q4_0"}, cacheType))
}

func forgedPrompt(observed bool, forge func(c *cacheRig)) promptCase {
	return promptCase{types: h2o.Types{K: "f16", V: "f16"}, kvHeads: 1, group: 2, tile: 2, perLane: 1, dim: 20, together: 4, depth: 2, ropeDim: 20, ordered: observed, observed: observed, rule: rules[0],
		seqs: []sequence{{live: 100, rows: 9}}, forge: forge}
}
