package h2o

import (
	"encoding/binary"
	"fmt"
	"math"

	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/vk"
)

// headBytes is the size of one entry of the table: four elements of four u32, laid out as in include/heads.glsl.
const headBytes = 64

// Rotation is how queries and keys are turned by their position.
type Rotation struct {
	Dim    int             // leading dimensions that are turned
	Halves bool            // pairs lie Dim/2 apart; otherwise they are neighbours
	Table  *runtime.Tensor // (positions, Dim/2) cos, sin f32
}

// Cache is the KV cache of a session: pools, table and the scratch of attention.
type Cache struct {
	Plan     *Plan
	geometry Geometry
	engine   *runtime.Engine
	seqs     int
	rows     int // rows of a step, at most

	k, v, slots []*runtime.Tensor // per layer: (seqs * KV heads * capacity) slots
	table       *runtime.Tensor   // (layers, seqs, KV heads) entries
	first       []int             // per layer: its first entry in the table
	moves, log  *runtime.Tensor
	q           *runtime.Tensor // (rows, heads, HeadPad) f32
	e           *runtime.Tensor // (slice rows, heads, stride) f32
	peaks       *runtime.Tensor // (slice rows, heads, splits) m, sum
	shares      *runtime.Tensor // (slice rows, heads, splits) f32
	o           *runtime.Tensor // (slice rows, heads, splits, HeadPad) f32
	stride      int             // capacity rounded up to whole splits
	splits      int
	slice       int // rows whose attention is in scratch at once
}

// NewCache plans the memory of a cache for so many sequences and rows per step.
func NewCache(e *runtime.Engine, a *runtime.Arena, g Geometry, p *Plan, seqs, rows int) (*Cache, error) {
	c := &Cache{Plan: p, geometry: g, engine: e, seqs: seqs, rows: rows}
	split := e.Tuning.Split()
	c.splits = (p.Capacity + split - 1) / split
	c.stride = c.splits * split
	pad, entries, heads, kvHeads := g.HeadPad(p.Types), 0, 0, 0
	k, v := layouts[p.Types.K].bytes(pad), layouts[p.Types.V].bytes(pad) // per slot
	limit := min(e.Device.Info.Limits.MaxStorageRange, 16*int64(e.Device.Info.Limits.MaxTexelElements))
	if e.Tuning.Form != shaders.Texel {
		limit = e.Device.Info.Limits.MaxStorageRange
	}
	for i, l := range g.Layers {
		slots := int64(seqs * l.KV * p.Capacity)
		if most := slots * max(k, v); most > limit {
			name, fit := "K", int(limit/(int64(seqs*l.KV)*max(k, v))) // slots per KV head
			if v > k {
				name = "V"
			}
			return nil, fmt.Errorf("h2o: %s of layer %d takes %d bytes, the device binds %d at most: %d of %d slots per KV head fit; try --ctx %d, or a policy that evicts with --budget %d",
				name, i, most, limit, fit, p.Capacity, fit, max(1, fit-p.Chunk))
		}
		c.k = append(c.k, a.Tensor(fmt.Sprintf("kv.k.%d", i), slots*k))
		c.v = append(c.v, a.Tensor(fmt.Sprintf("kv.v.%d", i), slots*v))
		c.slots = append(c.slots, a.Tensor(fmt.Sprintf("slots.%d", i), slots*TableBytes))
		c.first = append(c.first, entries)
		entries += seqs * l.KV
		heads, kvHeads = max(heads, l.Query), max(kvHeads, l.KV)
	}
	perRow := int64(heads) * int64(c.stride) * 4
	c.slice = max(1, min(rows, int(int64(e.Tuning.SliceBytes)/perRow)))
	if c.slice > e.Tuning.RowTile {
		c.slice -= c.slice % e.Tuning.RowTile
	}
	n := int64(c.slice * heads)
	c.table = a.Tensor("table.heads", int64(entries)*headBytes)
	c.moves = a.Tensor("table.moves", int64(seqs*kvHeads*p.Added)*8)
	c.log = a.Tensor("table.log", int64(entries*p.Added)*8)
	c.q = a.Tensor("scratch.q", int64(rows*heads*pad)*4)
	c.e = a.Tensor("scratch.e", n*int64(c.stride)*4)
	c.peaks = a.Tensor("scratch.peaks", n*int64(c.splits)*8)
	c.shares = a.Tensor("scratch.shares", n*int64(c.splits)*4)
	c.o = a.Tensor("scratch.o", n*int64(c.splits*pad)*4)
	return c, nil
}

// Reset empties the cache: every head has its run of slots and no token in it.
func (c *Cache) Reset() error {
	p := c.Plan
	image := make([]byte, c.table.Bytes)
	for layer, l := range c.geometry.Layers {
		for i := range c.seqs * l.KV {
			entry := image[(c.first[layer]+i)*headBytes:]
			words := [16]uint32{
				0: uint32(i * p.Capacity), uint32(p.Capacity), uint32(p.Budget), 0,
				4: uint32(p.Recent), uint32(p.Sinks), p.Policy.word(), 0,
				13: math.Float32bits(p.Policy.Decay), p.Policy.Seed, uint32(p.Policy.Every - 1),
			}
			for s, span := range p.Pinned {
				words[8+2*s], words[9+2*s] = uint32(span.Begin), uint32(span.End)
			}
			for w, v := range words {
				binary.LittleEndian.PutUint32(entry[4*w:], v)
			}
		}
	}
	return c.engine.Device.Write(c.table.Range, image)
}

// Append records a layer's attention for up to rows rows: the new tokens enter the cache, every row attends to what it
// may see, scores are updated, and what is above the budget goes.
//
// x holds (rows, xStride) f32: q heads, k heads, v heads. y receives (rows, yStride) f32, the heads' outputs.
// batch: every row is its own sequence; otherwise all rows are consecutive tokens of one.
func (c *Cache) Append(p *runtime.Program, step *runtime.Tensor, layer, rows int, batch bool, x vk.Range, xStride int, y vk.Range, yStride int, r Rotation) {
	t, types, pad := c.engine.Tuning, c.Plan.Types, c.geometry.HeadPad(c.Plan.Types)
	heads := c.geometry.Layers[layer]
	group := heads.Query / heads.KV
	variant, kVariant, vVariant := c.engine.Variant("", ""), c.engine.Variant("", types.K), c.engine.Variant("", types.V)
	k, v := layouts[types.K], layouts[types.V]
	slots := int64(c.seqs * heads.KV * c.Plan.Capacity)
	kPlane, vPlane := k.plane(pad, slots), v.plane(pad, slots)
	lanes, first := uint32(t.Lanes), uint32(c.first[layer])
	halves := uint32(0)
	if r.Halves {
		halves = 1
	}
	enter := func(variant shaders.Variant, unit, begin, count int) {
		p.Dispatch(shaders.RopeCache{Lanes: lanes, QHeads: uint32(heads.Query), KvHeads: uint32(heads.KV), HeadDim: uint32(c.geometry.HeadDim), HeadPad: uint32(pad),
			RopeDim: uint32(r.Dim), Halves: halves, Head: first, XStride: uint32(xStride), Scale: float32(1 / math.Sqrt(float64(c.geometry.HeadDim))),
			Begin: uint32(begin), Count: uint32(count), KPlane: kPlane, VPlane: vPlane,
			Step: step.Range, Table: c.table.Range, X: x, Rope: r.Table.Range, Q: c.q.Range, K: c.k[layer].Range, V: c.v[layer].Range, Slots: c.slots[layer].Range},
			variant, ceil(count*ceil(pad, unit), t.Lanes), rows, 1)
	}
	if types.K == types.V {
		enter(kVariant, k.unit, 0, heads.Query+2*heads.KV)
	} else {
		enter(kVariant, k.unit, 0, heads.Query+heads.KV)
		enter(vVariant, v.unit, heads.Query+heads.KV, heads.KV)
	}

	headTile := min(group, max(1, 256/pad))
	rowTile := 1
	if !batch {
		rowTile = min(t.RowTile, rows, max(1, 768/(pad*headTile)))
	}
	wide := 1
	for wide < pad/v.share && wide < t.Lanes {
		wide *= 2
	}
	kvGrid := heads.KV * ceil(group, headTile)
	for row := 0; row < rows; row += c.slice {
		n := min(c.slice, rows-row)
		p.Dispatch(shaders.AttendLogits{Lanes: lanes, Depth: uint32(t.Depth), KvHeads: uint32(heads.KV), Group: uint32(group), HeadTile: uint32(headTile), RowTile: uint32(rowTile), HeadPad: uint32(pad),
			Head: first, Row: uint32(row), Rows: uint32(n), Stride: uint32(c.stride), Splits: uint32(c.splits), Plane: kPlane,
			Step: step.Range, Table: c.table.Range, K: c.k[layer].Range, Slots: c.slots[layer].Range, Q: c.q.Range, E: c.e.Range, Peaks: c.peaks.Range},
			kVariant, c.splits, kvGrid, ceil(n, rowTile))
		p.Dispatch(shaders.AttendValues{Lanes: lanes, Split: uint32(t.Split()), KvHeads: uint32(heads.KV), Group: uint32(group), HeadTile: uint32(headTile), RowTile: uint32(rowTile), HeadPad: uint32(pad), Wide: uint32(wide),
			Head: first, Row: uint32(row), Rows: uint32(n), Stride: uint32(c.stride), Splits: uint32(c.splits), Plane: vPlane,
			Step: step.Range, Table: c.table.Range, V: c.v[layer].Range, E: c.e.Range, O: c.o.Range},
			vVariant, c.splits, kvGrid, ceil(n, rowTile))
		p.Dispatch(shaders.AttendMerge{Lanes: lanes, Split: uint32(t.Split()), KvHeads: uint32(heads.KV), Group: uint32(group), HeadDim: uint32(c.geometry.HeadDim), HeadPad: uint32(pad),
			Head: first, Row: uint32(row), Rows: uint32(n), Splits: uint32(c.splits), YStride: uint32(yStride),
			Step: step.Range, Table: c.table.Range, Peaks: c.peaks.Range, O: c.o.Range, Y: y, Shares: c.shares.Range},
			variant, heads.Query, n, 1)
		if c.Plan.Policy.Update != UpdateNone {
			p.Dispatch(shaders.Score{Lanes: lanes, Split: uint32(t.Split()), KvHeads: uint32(heads.KV), Group: uint32(group),
				Head: first, Layer: uint32(layer), Row: uint32(row), Rows: uint32(n), Stride: uint32(c.stride), Splits: uint32(c.splits),
				Step: step.Range, Table: c.table.Range, E: c.e.Range, Shares: c.shares.Range, Slots: c.slots[layer].Range, SlotsOut: c.slots[layer].Range},
				variant, c.splits, heads.KV, c.seqs)
		}
	}
	p.Dispatch(shaders.Evict{Lanes: lanes, KvHeads: uint32(heads.KV), Added: uint32(c.Plan.Added), Head: first,
		Step: step.Range, Table: c.table.Range, Slots: c.slots[layer].Range, TableOut: c.table.Range, Moves: c.moves.Range, Log: c.log.Range},
		variant, heads.KV, c.seqs, 1)
	if c.Plan.Evicts() {
		p.Dispatch(shaders.Compact{Lanes: lanes, KvHeads: uint32(heads.KV), Added: uint32(c.Plan.Added), KQuads: uint32(pad / k.pack), VQuads: uint32(pad / v.pack),
			KScales: uint32(k.scales(pad)), VScales: uint32(v.scales(pad)), Head: first, KPlane: kPlane, VPlane: vPlane,
			Step: step.Range, Table: c.table.Range, Moves: c.moves.Range, K: c.k[layer].Range, V: c.v[layer].Range, Slots: c.slots[layer].Range},
			variant, heads.KV, c.seqs, 1)
	}
}

func ceil(a, b int) int { return (a + b - 1) / b }
