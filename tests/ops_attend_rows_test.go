package tests

import (
	"fmt"
	"math/rand/v2"

	"vkdecode/h2o"
	"vkdecode/shaders"
)

// promptCase is the attention of prompts' rows in one kernel, of which a dispatch takes the rows of one sequence.
type promptCase struct {
	cache                string
	kvHeads, group, tile int // tile: query heads of a workgroup
	perLane              int // rows
	dim, slots           int // slots: that are looked at together
	seqs                 []sequence
	forge                func(c *cacheRig)
}

func (c promptCase) String() string {
	return fmt.Sprintf("%s, %d heads of group %d by %d, %d dimensions, %d rows per lane, %d slots at once, %v live and new", c.cache, c.kvHeads, c.group, c.tile, c.dim, c.perLane, c.slots, c.seqs)
}

func promptCases(l launch) (all []opCase) {
	if l.form == shaders.Shared { // workgroups are one subgroup
		return nil
	}
	for i, c := range []promptCase{
		{kvHeads: 2, group: 1, tile: 1, perLane: 2, dim: 20, slots: 4}, {kvHeads: 2, group: 3, tile: 3, perLane: 1, dim: 64, slots: 4},
		{kvHeads: 1, group: 5, tile: 4, perLane: 1, dim: 48, slots: 4}, {kvHeads: 1, group: 3, tile: 2, perLane: 1, dim: 80, slots: 1},
		{kvHeads: 2, group: 1, tile: 1, perLane: 1, dim: 128, slots: 2}, {kvHeads: 1, group: 5, tile: 5, perLane: 2, dim: 20, slots: 3},
	} {
		for _, seqs := range [][]sequence{
			{{rows: 1}}, {{live: 4 * c.slots, rows: 7}}, {{live: 3, rows: 9}}, {{live: 101, rows: 40}}, {{rows: 40}},
			{{live: 5, rows: 2}, {live: 9}, {rows: 17}, {live: 50, rows: 1}},
		} {
			c.cache, c.seqs = cacheTypes[(i+int(l.form))%2].name, seqs // those without scales
			all = append(all, c)
		}
	}
	return all
}

func (c promptCase) run(b *bench, l launch) error {
	rnd := rand.New(rand.NewPCG(uint64(c.dim), uint64(len(c.seqs))))
	types := h2o.Types{K: c.cache, V: c.cache}
	pad, heads := padOf(types, c.dim), c.kvHeads*c.group
	r := b.newCache(l, rnd, types, pad, c.kvHeads, c.seqs, nil)
	defer r.free()
	q := randomFloats(rnd, len(r.rows)*heads*pad)
	for i := range q {
		q[i] *= 0.3
	}
	yStride := (heads*c.dim+3)/4*4 + 4
	qs, y := in(r.rig, "q", q), r.out("y", (len(r.rows)+1)*yStride)
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
		r.add(shaders.AttendRows{Lanes: uint32(l.lanes), KvHeads: uint32(c.kvHeads), Group: uint32(c.group), HeadTile: uint32(c.tile), Rows: uint32(c.perLane), HeadDim: uint32(c.dim), HeadPad: uint32(pad), Slots: uint32(c.slots),
			Head: others, Row: uint32(row), Count: uint32(count), YStride: uint32(yStride / 4),
			Step: r.step.Range, Table: r.table.Range, K: r.k.Range, V: r.v.Range, Q: qs.Range, Y: y.Range},
			"", c.cache, ceil(count, c.perLane*l.lanes)+1, c.kvHeads*ceil(c.group, c.tile), 1)
		row += n
	}
	if err := r.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(r)
	}
	want := values((len(r.rows) + 1) * yStride)
	for i, row := range r.rows {
		added, _ := r.added(row.Seq)
		for head := range heads {
			h := r.head(row.Seq, head/c.group)
			a := r.twin.Attend(*h, h.Live+added, q[(i*heads+head)*pad:][:pad], row.Pos, c.slots)
			copy(want[i*yStride+head*c.dim:], a.Y[:c.dim])
		}
	}
	if err := compare("y", r.floats(y), want, attendError); err != nil {
		return err
	}
	return r.compareCache(exact, exact)
}

func forgedPrompt(forge func(c *cacheRig)) promptCase {
	return promptCase{cache: "f16", kvHeads: 1, group: 2, tile: 2, perLane: 1, dim: 20, slots: 4, seqs: []sequence{{live: 100, rows: 9}}, forge: forge}
}
