package h2o

import (
	"vkdecode/runtime"
	"vkdecode/shaders"
)

// rowQuads is how many vec4 of queries a lane of attend_rows holds, at most: it has as much of sums beside them.
const rowQuads = 64

// rowLoops is how many iterations its walk over the slots has, at most: lavapipe ends an invocation's loops after 65,535.
const rowLoops = 65_000

// byRows tells whether the output of a prompt's attention to a view comes from one kernel. It leaves nothing for scores: where
// they are wanted, exponentials are made once more, by slots. So the output is the same to the last bit with scores and
// without.
func (c *Cache) byRows(v view) bool {
	t := c.engine.Tuning
	return t.RowSlots > 0 && c.plain() && ceil(v.stride, t.RowSlots) <= rowLoops
}

// attendRows records y of so many consecutive tokens of one sequence.
func (c *Cache) attendRows(p *runtime.Program, step *runtime.Tensor, v view, rows int, x Activations) {
	t, pad := c.engine.Tuning, c.geometry.HeadPad(c.Plan.Types)
	tile := v.headTile(pad)
	perLane := max(1, min(rowQuads*4/(pad*tile), ceil(rows, t.Lanes)))
	p.Dispatch(shaders.AttendRows{Lanes: uint32(t.Lanes), KvHeads: uint32(v.heads.KV), Group: v.group(), HeadTile: uint32(tile), Rows: uint32(perLane),
		HeadDim: uint32(c.geometry.HeadDim), HeadPad: uint32(pad), Slots: uint32(t.RowSlots), Head: v.first, Count: uint32(rows), YStride: uint32(x.YStride / 4),
		Step: step.Range, Table: v.table.Range, K: v.k.Range, V: v.v.Range, Q: c.scratch.q.Range, Y: x.Y},
		c.engine.Variant("", c.Plan.Types.K), ceil(rows, perLane*t.Lanes), v.heads.KV*ceil(int(v.group()), tile), 1)
}
