package h2o

import (
	"math/bits"

	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/vk"
)

// A prompt's rows, consecutive tokens of one sequence, attend in one kernel that leaves of each query the maximum and the
// sum of its exponentials. Another one makes probabilities of these once more, by slots, for the scores. Nothing is written
// of so many rows by so many slots.

// rowQuads is how many vec4 of queries a lane of attend_rows holds, at most: it has as much of sums beside them.
const rowQuads = 64

// keyQuads is how many vec4 of keys a lane of score_rows holds, at most.
const keyQuads = 128

// rowSlots is how many slots attend_rows looks at together: as few as make not more iterations than lavapipe grants an
// invocation's loops, 65,535.
func rowSlots(slots int) int {
	together := 4
	for slots > 65_000*together {
		together *= 2
	}
	return together
}

// kind is how include/cached.glsl calls the type.
func (l layout) kind() uint32 { return uint32(bits.TrailingZeros(uint(l.pack / 4))) }

func (c *Cache) byRows() bool { return c.engine.Tuning.Form != shaders.Shared }

// attendRows records y of so many queries of consecutive tokens of one sequence, and what scores need of them; only that
// where there is no y.
func (c *Cache) attendRows(p *runtime.Program, step *runtime.Tensor, v view, q vk.Range, rows int, x Activations) {
	t, pad, types := c.engine.Tuning, c.geometry.HeadPad(c.Plan.Types), c.Plan.Types
	tile := v.headTile(pad)
	perLane := max(1, min(rowQuads*4/(pad*tile), ceil(rows, t.Lanes)))
	k := shaders.AttendRows{Lanes: uint32(t.Lanes), KvHeads: uint32(v.heads.KV), Group: v.group(), HeadTile: uint32(tile), Rows: uint32(perLane),
		HeadDim: uint32(c.geometry.HeadDim), HeadPad: uint32(pad), RopeDim: c.turns(x.Rotation), KType: layouts[types.K].kind(), VType: layouts[types.V].kind(), Together: uint32(rowSlots(v.stride)), Values: 1,
		Head: v.first, Count: uint32(rows), YStride: uint32(x.YStride), KPlane: v.kPlane, VPlane: v.vPlane, Ranks: v.ranks,
		Step: step.Range, Table: v.table.Range, K: v.k.Range, V: v.v.Range, Slots: v.slots.Range, Q: q, Rope: x.Table.Range, Y: x.Y, Norms: c.scratch.norms.Range}
	if x.Y.Buffer == nil {
		k.Values, k.Y = 0, c.scratch.o.Range
	}
	p.Dispatch(k, c.engine.Variant("", ""), ceil(rows, perLane*t.Lanes), v.heads.KV*ceil(int(v.group()), tile), 1)
}

// scoreRows records what that attention makes of the scores.
func (c *Cache) scoreRows(p *runtime.Program, step *runtime.Tensor, v view, rows int, r Rotation) {
	depth, lanes := c.keyDepth(), c.engine.Tuning.Lanes
	p.Dispatch(shaders.ScoreRows{Lanes: uint32(lanes), Depth: uint32(depth), KvHeads: uint32(v.heads.KV), Group: v.group(), HeadPad: uint32(c.geometry.HeadPad(c.Plan.Types)), RopeDim: c.turns(r), KType: layouts[c.Plan.Types.K].kind(), May: c.Plan.may(),
		Head: v.first, Number: v.first / uint32(c.seqs), Count: uint32(rows), KPlane: v.kPlane, Ranks: v.ranks,
		Step: step.Range, Table: v.table.Range, K: v.k.Range, Slots: v.slots.Range, Q: c.scratch.q.Range, Norms: c.scratch.norms.Range, Rope: r.Table.Range, SlotsOut: v.slots.Range},
		c.engine.Variant("", ""), ceil(v.stride, depth*lanes), v.heads.KV, 1)
}

// windowRows records the sums of the probabilities that such queries give each slot.
func (c *Cache) windowRows(p *runtime.Program, step *runtime.Tensor, v view, q vk.Range, rows int, r Rotation) {
	depth, lanes := c.keyDepth(), c.engine.Tuning.Lanes
	p.Dispatch(shaders.WindowRows{Lanes: uint32(lanes), Depth: uint32(depth), KvHeads: uint32(v.heads.KV), Group: v.group(), HeadPad: uint32(c.geometry.HeadPad(c.Plan.Types)), RopeDim: c.turns(r), KType: layouts[c.Plan.Types.K].kind(),
		Head: v.first, Count: uint32(rows), Stride: uint32(v.stride), KPlane: v.kPlane, Ranks: v.ranks,
		Step: step.Range, Table: v.table.Range, K: v.k.Range, Slots: v.slots.Range, Q: q, Norms: c.scratch.norms.Range, Rope: r.Table.Range, Sums: c.stage.sums.Range},
		c.engine.Variant("", ""), ceil(v.stride, depth*lanes), v.heads.Query, 1)
}

// keyDepth is how many slots a lane has that makes probabilities by slots.
func (c *Cache) keyDepth() int {
	return max(1, min(c.engine.Tuning.Depth, keyQuads*4/c.geometry.HeadPad(c.Plan.Types)))
}

// turns is how many dimensions of a key are rotated where it is read.
func (c *Cache) turns(r Rotation) uint32 {
	if c.Plan.Renumber {
		return uint32(r.Dim)
	}
	return 0
}
