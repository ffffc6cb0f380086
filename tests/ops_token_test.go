package tests

import (
	"fmt"
	"math/rand/v2"

	"vkdecode/h2o"
	"vkdecode/ref"
	"vkdecode/shaders"
)

// tokenCase is attention where every row is the one new token of its sequence, and what is made of its parts.
type tokenCase struct {
	cache                string
	kvHeads, group, tile int // tile: query heads of a workgroup
	dim, ropeDim         int
	depth, ranges        int
	scored               bool
	seqs                 []sequence
	huge                 float32 // if not 0: a value of v
	forge                func(c *cacheRig, rope *ref.RopeCache)
}

func (c tokenCase) String() string {
	return fmt.Sprintf("%s, %d heads of group %d by %d, %d of %d dimensions rotated, %d slots deep, %d ranges, %v live and new, scored %t",
		c.cache, c.kvHeads, c.group, c.tile, c.ropeDim, c.dim, c.depth, c.ranges, c.seqs, c.scored)
}

func tokenCases(l launch) (all []opCase) {
	for i, c := range []tokenCase{
		{kvHeads: 2, group: 1, tile: 1, dim: 20, ropeDim: 20, depth: 1, ranges: 2}, {kvHeads: 3, group: 3, tile: 3, dim: 64, ropeDim: 64, depth: 2, ranges: 4, scored: true},
		{kvHeads: 1, group: 16, tile: 4, dim: 32, ropeDim: 16, depth: 1, ranges: 3, huge: 1e6}, {kvHeads: 2, group: 3, tile: 2, dim: 128, ropeDim: 128, depth: 1, ranges: 1, scored: true},
		{kvHeads: 1, group: 2, tile: 2, dim: 80, ropeDim: 80, depth: 1, ranges: 16}, {kvHeads: 2, group: 4, tile: 4, dim: 48, ropeDim: 24, depth: 2, ranges: 2, scored: true},
	} {
		if l.form == shaders.Shared && i%2 != l.lanes/64 { // as in attendCases
			continue
		}
		c.cache = cacheTypes[(i+i/2+int(l.form)+l.lanes/64)%2].name // those without scales
		split := c.depth * l.lanes
		steps := [][]sequence{
			{{rows: 1}}, {{live: split - 1, rows: 1}}, {{live: 3*split*c.ranges + 3, rows: 1}},
			{{live: 5, rows: 1}, {live: 9}, {rows: 1}, {live: split, rows: 1}},
		}
		if c.scored && c.ranges == 1 { // more splits than lanes, which keep a peak each
			steps = append(steps, []sequence{{live: (l.lanes+2)*split + 3, rows: 1}})
		}
		for _, seqs := range steps {
			c.seqs = seqs
			all = append(all, c)
		}
	}
	return all
}

func (c tokenCase) run(b *bench, l launch) error {
	const scale = 0.3
	rnd := rand.New(rand.NewPCG(uint64(c.dim), uint64(len(c.seqs))))
	types := h2o.Types{K: c.cache, V: c.cache}
	pad, qHeads, split, live := padOf(types, c.dim), c.kvHeads*c.group, c.depth*l.lanes, 0
	for _, s := range c.seqs {
		live = max(live, s.live+s.rows)
	}
	r := b.newCache(l, rnd, types, pad, c.kvHeads, c.seqs, nil)
	defer r.free()
	heads := qHeads + 2*c.kvHeads
	x := randomFloats(rnd, len(r.rows)*heads*c.dim)
	if c.huge != 0 {
		x[len(x)-1], x[len(x)-2] = c.huge, -c.huge
	}
	xStride := heads*c.dim + 4
	strided := values32(len(r.rows) * xStride)
	turns, rope := 0, &ref.RopeCache{QHeads: qHeads, KVHeads: c.kvHeads, Dim: c.dim, Pad: pad, RopeDim: c.ropeDim, Scale: float64(float32(scale))}
	for i, row := range r.rows {
		copy(strided[i*xStride:], x[i*heads*c.dim:(i+1)*heads*c.dim])
		turns = max(turns, row.Pos+1)
	}
	rope.Turns = randomTurns(rnd, turns+turns%2, c.ropeDim) // whole elements
	first, all := 2, qHeads+3                               // of a row of parts: other layers' heads are around
	if c.scored {
		first, all = 0, qHeads // shares go over all of them
	}
	splits := ceil(live, split) + 1
	stride, yStride := splits*split, (qHeads*c.dim+3)/4*4+4
	parts := r.out("parts", (len(r.rows)+1)*all*c.ranges*(pad+4))
	e, peaks, y := r.out("e", len(r.rows)*qHeads*stride), r.out("peaks", len(r.rows)*qHeads*splits), r.out("y", (len(r.rows)+1)*yStride)
	wide := 1
	for packs := pad / (4 * wordValues(c.cache)); wide < packs && wide < r.lanes; wide *= 2 {
	}
	lanes, step := uint32(l.lanes), r.step.Range
	r.add(shaders.AttendToken{Lanes: lanes, Depth: uint32(c.depth), KvHeads: uint32(c.kvHeads), Group: uint32(c.group), HeadTile: uint32(c.tile),
		HeadDim: uint32(c.dim), HeadPad: uint32(pad), RopeDim: uint32(c.ropeDim), Wide: uint32(wide), Ranges: uint32(c.ranges), Scored: word(c.scored),
		Head: others, XStride: uint32(xStride / 4), Stride: uint32(stride), Splits: uint32(splits), First: uint32(first), Heads: uint32(all), Scale: scale,
		Step: step, Table: r.table.Range, K: r.k.Range, V: r.v.Range, X: in(r.rig, "x", strided).Range, Rope: in(r.rig, "rope", rope.Turns).Range,
		KOut: r.k.Range, VOut: r.v.Range, SlotsOut: r.slots.Range, Parts: parts.Range, E: e.Range, Peaks: peaks.Range},
		"", c.cache, c.ranges, c.kvHeads*ceil(c.group, c.tile), len(r.rows)+1)
	r.add(shaders.MergeParts{Lanes: lanes, Ranges: uint32(c.ranges), Heads: uint32(qHeads), HeadQuads: uint32(c.dim / 4), PadQuads: uint32(pad / 4), First: uint32(first), All: uint32(all), YStride: uint32(yStride / 4),
		Step: step, Parts: parts.Range, Y: y.Range}, "", "", ceil(qHeads*c.dim/4, l.lanes)+1, len(r.rows)+1, 1)
	shares := r.out("shares", len(r.rows)*qHeads*splits)
	if c.scored {
		r.add(shaders.Shares{Lanes: lanes, Split: uint32(split), KvHeads: uint32(c.kvHeads), Group: uint32(c.group), Ranges: uint32(c.ranges), PadQuads: uint32(pad / 4),
			Head: others, Splits: uint32(splits), Step: step, Table: r.table.Range, Parts: parts.Range, Peaks: peaks.Range, Shares: shares.Range}, "", "", qHeads, len(r.rows)+1, 1)
		r.add(shaders.Score{Lanes: lanes, Split: uint32(split), Span: 2, KvHeads: uint32(c.kvHeads), Group: uint32(c.group), LayerHeads: uint32(c.kvHeads), Depth: uint32(c.depth),
			Head: others, Rows: uint32(len(r.rows)), Stride: uint32(stride), Splits: uint32(splits),
			Step: step, Table: r.table.Range, E: e.Range, Shares: shares.Range, Slots: r.slots.Range, SlotsOut: r.slots.Range}, "", "", ceil(splits, 2), c.kvHeads, len(c.seqs))
	}
	if err := r.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(r, rope)
	}

	q := rope.Append(r.rows, x, r.heads, r.twin)
	wantParts, wantE, wantPeaks, wantY := values((len(r.rows)+1)*all*c.ranges*(pad+4)), values(len(r.rows)*qHeads*stride), values(len(r.rows)*qHeads*splits), values((len(r.rows)+1)*yStride)
	wantShares, given := values(len(r.rows)*qHeads*splits), make([]ref.ScoreQuery, len(r.rows))
	for i, row := range r.rows {
		for head := range qHeads {
			at, h := i*qHeads+head, r.head(row.Seq, head/c.group)
			walked := r.twin.Walk(*h, h.Live+1, q[at*pad:(at+1)*pad], split, c.ranges)
			slot := at * stride
			peak := at * splits
			for n, p := range walked {
				of := wantParts[((i*all+first+head)*c.ranges+n)*(pad+4):]
				copy(of, p.O)
				copy(of[pad:], []float64{p.Peak, p.Sum, 0, 0})
				if c.scored {
					clear(wantE[slot:][:len(p.Peaks)*split]) // a split is written whole
					copy(wantShares[peak:], ref.Shares(walked, p.Peaks))
					byLane(wantE[slot:], p.E, l.lanes, c.depth)
					slot, peak = slot+len(p.Peaks)*split, peak+copy(wantPeaks[peak:], p.Peaks)
				}
			}
			copy(wantY[i*yStride+head*c.dim:], ref.Merge(walked)[:c.dim])
			given[i].Pos, given[i].Probabilities = row.Pos, append(given[i].Probabilities, ref.Probabilities(walked, split))
		}
	}
	for _, x := range []struct {
		t    *tensor
		want []float64
	}{{parts, wantParts}, {e, wantE}, {peaks, wantPeaks}, {shares, wantShares}, {y, wantY}} {
		if err := compare(x.t.name, r.floats(x.t), x.want, c.most()); err != nil {
			return err
		}
	}
	if err := c.compareScores(r, given); err != nil {
		return err
	}
	return r.compareCache(roundingError(c.cache), roundingError(c.cache))
}

// byLane puts e, which is by slot, in the order in which attend_token leaves it: of each split the slots of a lane together.
func byLane(to, e []float64, lanes, depth int) {
	for i, v := range e {
		split, at := i/(lanes*depth), i%(lanes*depth)
		to[split*lanes*depth+at%lanes*depth+at/lanes] = v
	}
}

// compareScores compares what the rows, each of its own sequence, make of the scores, which the twin then takes over.
func (c tokenCase) compareScores(r *cacheRig, given []ref.ScoreQuery) error {
	if !c.scored {
		return nil
	}
	var scores []float32
	var want []float64
	slots := r.floats(r.slots)
	for i, row := range r.rows {
		for kv := range c.kvHeads {
			h, query := r.head(row.Seq, kv), given[i]
			query.Probabilities = query.Probabilities[kv*c.group:][:c.group]
			for slot, score := range r.twin.Score(*h, h.Live+1, kv, []ref.ScoreQuery{query}) {
				got := slots[2*(h.Offset+slot)+1]
				scores, want = append(scores, got), append(want, score)
				r.twin.Slots[h.Offset+slot].Score = got
			}
		}
	}
	return compare("scores", scores, want, attendError)
}

// most bounds the NMSE. A value of the new token that is rounded the other way counts for more than the sums do.
func (c tokenCase) most() float64 { return max(attendError, roundingError(c.cache)) }
