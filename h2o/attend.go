package h2o

import (
	"math"

	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/vk"
)

// scratch is what attention needs between its kernels, for a slice of rows.
type scratch struct {
	parts  *runtime.Tensor // (seqs, heads, ranges) HeadPad + 4 f32: see Parts; nil where single tokens are attended to as several
	q      *runtime.Tensor // (rows, heads, HeadPad) f32
	norms  *runtime.Tensor // (rows, heads) maximum and sum f32
	e      *runtime.Tensor // (slice rows, heads, stride) f32
	peaks  *runtime.Tensor // (slice rows, heads, splits) m, sum
	shares *runtime.Tensor // (slice rows, heads, splits) f32
	o      *runtime.Tensor // (slice rows, heads, splits, HeadPad) f32
}

// view is a layer's tokens as attention sees them: in its own pool, or in the work pool.
type view struct {
	*pool
	table  *runtime.Tensor
	first  uint32 // the layer's first entry in the table
	layer  int
	heads  Heads
	kv     int  // KV heads of one layer: all, but in the view of all layers
	scores bool // attention to them changes scores
	splits int
	stride int    // slots of whole splits
	slice  int    // rows whose attention is in scratch at once
	ranks  uint32 // first element of ranks; inOrder where slots lie in order of position
}

const inOrder = math.MaxUint32

func (c *Cache) view(layer int, p *pool, table *runtime.Tensor, slots int) view {
	split := c.engine.Tuning.Split()
	heads := c.geometry.Layers[layer]
	v := view{pool: p, table: table, first: uint32(c.first[layer]), layer: layer, heads: heads, kv: heads.KV, splits: ceil(slots, split), ranks: p.ranks}
	v.stride = v.splits * split
	perRow := int64(v.heads.Query) * int64(v.stride) * 4
	v.slice = max(1, min(c.rows, int(int64(c.engine.Tuning.SliceBytes)/perRow)))
	if tile := c.engine.Tuning.RowTile; v.slice > tile {
		v.slice -= v.slice % tile
	}
	return v
}

// own is the view of a layer's own pool.
func (c *Cache) own(layer int) view {
	v := c.view(layer, c.pools[layer], c.table, c.Plan.Layers[layer].Most)
	v.scores = c.Plan.Policy.Update != UpdateNone
	return v
}

// all is the view of joined layers as of one layer with the heads of all.
func (c *Cache) all() view {
	v := c.view(0, c.pools[0], c.table, c.most())
	v.heads = Heads{Query: len(c.pools) * v.heads.Query, KV: len(c.pools) * v.heads.KV}
	return v
}

// most is the largest number of live slots in any head.
func (c *Cache) most() (n int) {
	for _, l := range c.Plan.Layers {
		n = max(n, l.Most)
	}
	return n
}

// views are all that there are, for sizes of scratch.
func (c *Cache) views() (all []view) {
	for layer := range c.pools {
		all = append(all, c.own(layer))
		if c.stage != nil {
			all = append(all, c.work(layer))
		}
	}
	return all
}

// Slices are the rows of a prompt whose attention is taken at once, at most, by layer and by pool: scores are summed slice
// by slice.
func (c *Cache) Slices() (rows []int) {
	for _, v := range c.views() {
		rows = append(rows, v.slice)
	}
	return rows
}

// planScratch plans scratch that serves every view.
func (c *Cache) planScratch(a *runtime.Arena) {
	heads, pad := 0, c.geometry.HeadPad(c.Plan.Types)
	var slots, splits int64
	for _, v := range c.views() {
		heads = max(heads, v.heads.Query)
		rows := v.slice
		if c.byRows() && c.Observes() == 0 {
			rows = min(rows, c.seqs) // single tokens, which are not always one kernel either
		}
		slots = max(slots, int64(rows*v.heads.Query*v.stride))
		splits = max(splits, int64(rows*v.heads.Query*v.splits))
	}
	peaks, shares, tokens := 2*splits, splits, int64(0) // tokens: heads whose attention of single tokens is in scratch at once
	for layer := 0; c.single() && layer < len(c.pools); layer++ {
		_, row := c.rowOf(layer)
		tokens = max(tokens, int64(c.seqs*row))
		if c.Plan.Policy.Measures() {
			n := int64(c.seqs*row) * int64(c.tokenSplits(layer))
			slots, peaks, shares = max(slots, n*int64(c.engine.Tuning.TokenSplit())), max(peaks, n), max(shares, n)
		}
	}
	c.scratch = scratch{
		q: a.Tensor("scratch.q", int64(c.rows*heads*pad)*4), norms: a.Tensor("scratch.norms", int64(max(c.rows, c.Observes())*heads)*8), e: a.Tensor("scratch.e", slots*4),
		peaks: a.Tensor("scratch.peaks", peaks*4), shares: a.Tensor("scratch.shares", shares*4), o: a.Tensor("scratch.o", splits*int64(pad)*4),
	}
	if tokens > 0 {
		c.scratch.parts = a.Tensor("scratch.parts", tokens*int64(c.engine.Tuning.Ranges*(pad+4))*4)
	}
}

// Activations are where a layer's attention reads and writes.
type Activations struct {
	X       vk.Range // (rows, XStride) f32: q heads, k heads, v heads
	Y       vk.Range // (rows, YStride) f32: the heads' outputs
	XStride int
	YStride int
	Whole   bool // what reads Y takes no attention in parts
	Rotation
}

// Decode records a layer's attention for up to rows rows, each of its own sequence (batch) or consecutive tokens of one:
// the new tokens enter the cache, every row attends to what it may see, scores are updated, and what is above the budget
// goes; of joined layers with the last one for all. What is returned, if not nil, is the attention in parts, and x.Y is left
// alone: a product that takes them brings them together.
func (c *Cache) Decode(p *runtime.Program, step *runtime.Tensor, layer, rows int, batch bool, x Activations) (parts *Parts) {
	v, single := c.own(layer), batch && c.whole(x.Rotation)
	if single {
		parts = c.attendTokens(p, step, v, rows, x)
		if x.Whole || !c.engine.Tuning.MergesParts() {
			c.mergeParts(p, step, parts, rows, x)
			parts = nil
		}
	} else {
		c.attend(p, step, v, rows, batch, x)
	}
	if c.joined && layer < len(c.pools)-1 { // the last one settles all
		return parts
	}
	if c.joined {
		v = c.all()
	}
	if single {
		c.shareTokens(p, step, v, rows)
		c.scoreTokens(p, step, v, rows)
	}
	c.evict(p, step, v)
	return parts
}

// attend records what comes before evictions.
func (c *Cache) attend(p *runtime.Program, step *runtime.Tensor, v view, rows int, batch bool, x Activations) {
	c.append(p, step, v, rows, x)
	if !batch && c.byRows() {
		c.attendRows(p, step, v, c.scratch.q.Range, rows, x)
		if v.scores {
			c.scoreRows(p, step, v, rows, x.Rotation)
		}
		return
	}
	t := c.engine.Tuning
	rowTile := 1
	if !batch {
		rowTile = t.RowTile
	}
	for row := 0; row < rows; row += v.slice {
		n := min(v.slice, rows-row)
		c.logits(p, step, v, c.scratch.q.Range, row, n, rowTile, x.Rotation)
		c.values(p, step, v, row, n, rowTile)
		c.merge(p, step, v, row, n, x)
		if v.scores {
			c.score(p, step, v, row, n, t.Split(), v.splits, 1)
		}
	}
}

// may is what the rules of a plan ask of shaders/score.comp beside sums.
func (p *Plan) may() (bits uint32) {
	for _, policy := range []*Policy{p.Policy, p.Prefill} {
		for i, asks := range []bool{policy.Layer, policy.Update == UpdateHash, policy.Lifetime} {
			if asks {
				bits |= 1 << i
			}
		}
	}
	return bits
}

// score records what attention makes of the scores: that of n rows from the given one, in so many splits of so many slots, of
// which a lane had so many.
func (c *Cache) score(p *runtime.Program, step *runtime.Tensor, v view, row, n, split, splits, depth int) {
	t := c.engine.Tuning
	p.Dispatch(shaders.Score{Lanes: uint32(t.Lanes), Split: uint32(split), Span: uint32(t.Span), KvHeads: uint32(v.heads.KV), Group: v.group(), LayerHeads: uint32(v.kv), Depth: uint32(depth), May: c.Plan.may(),
		Head: v.first, Number: v.first / uint32(c.seqs), Row: uint32(row), Rows: uint32(n), Stride: uint32(splits * split), Splits: uint32(splits),
		Step: step.Range, Table: v.table.Range, E: c.scratch.e.Range, Shares: c.scratch.shares.Range, Slots: v.slots.Range, SlotsOut: v.slots.Range},
		c.engine.Variant("", ""), ceil(splits, t.Span), v.heads.KV, c.seqs)
}

func (v view) group() uint32 { return uint32(v.heads.Query / v.heads.KV) }

// append records how new tokens take the slots behind the live ones.
func (c *Cache) append(p *runtime.Program, step *runtime.Tensor, v view, rows int, x Activations) {
	types, pad := c.Plan.Types, c.geometry.HeadPad(c.Plan.Types)
	heads := func(cacheType string, begin, count int) {
		k := shaders.RopeCache{Lanes: uint32(c.engine.Tuning.Lanes), QHeads: uint32(v.heads.Query), KvHeads: uint32(v.heads.KV), HeadDim: uint32(c.geometry.HeadDim), HeadPad: uint32(pad),
			RopeDim: uint32(x.Dim), Head: v.first, XStride: uint32(x.XStride), Scale: float32(1 / math.Sqrt(float64(c.geometry.HeadDim))),
			Begin: uint32(begin), Count: uint32(count), KPlane: v.kPlane, VPlane: v.vPlane,
			Step: step.Range, Table: v.table.Range, X: x.X, Rope: x.Table.Range, Q: c.scratch.q.Range, K: v.k.Range, V: v.v.Range, Slots: v.slots.Range}
		if x.Halves {
			k.Halves = 1
		}
		if c.Plan.Renumber {
			k.Renumber = 1
		}
		p.Dispatch(k, c.engine.Variant("", cacheType), ceil(count*ceil(pad, layouts[cacheType].unit), c.engine.Tuning.Lanes), rows, 1)
	}
	if types.K == types.V {
		heads(types.K, 0, v.heads.Query+2*v.heads.KV)
	} else {
		heads(types.K, 0, v.heads.Query+v.heads.KV)
		heads(types.V, v.heads.Query+v.heads.KV, v.heads.KV)
	}
}

// wide is how many lanes share the so many parts of a head: a power of two.
func (c *Cache) wide(parts int) int {
	wide := 1
	for wide < parts && wide < c.engine.Tuning.Lanes {
		wide *= 2
	}
	return wide
}

// headTile is how many query heads of a group a workgroup attends for: large tiles compile slowly.
func (v view) headTile(pad int) int { return min(int(v.group()), max(1, 256/pad)) }

// tiles are the sizes of the workgroups' tiles and their number for so many rows.
func (c *Cache) tiles(v view, n, rowTile int) (heads, rows, kvGrid, rowGrid int) {
	pad := c.geometry.HeadPad(c.Plan.Types)
	heads = v.headTile(pad)
	rows = min(rowTile, c.rows, max(1, 768/(pad*heads)))
	return heads, rows, v.heads.KV * ceil(int(v.group()), heads), ceil(n, rows)
}

// logits records e, m and sum of n rows of q from the given one.
func (c *Cache) logits(p *runtime.Program, step *runtime.Tensor, v view, q vk.Range, row, n, rowTile int, r Rotation) {
	t := c.engine.Tuning
	headTile, rowTile, kvGrid, rowGrid := c.tiles(v, n, rowTile)
	k := shaders.AttendLogits{Lanes: uint32(t.Lanes), Depth: uint32(t.Depth), KvHeads: uint32(v.heads.KV), Group: v.group(), HeadTile: uint32(headTile), RowTile: uint32(rowTile), HeadPad: uint32(c.geometry.HeadPad(c.Plan.Types)),
		Head: v.first, Row: uint32(row), Rows: uint32(n), Stride: uint32(v.stride), Splits: uint32(v.splits), Plane: v.kPlane, Ranks: v.ranks,
		Step: step.Range, Table: v.table.Range, K: v.k.Range, Slots: v.slots.Range, Q: q, Rope: r.Table.Range, E: c.scratch.e.Range, Peaks: c.scratch.peaks.Range}
	if c.Plan.Renumber {
		k.RopeDim = uint32(r.Dim)
	}
	p.Dispatch(k, c.engine.Variant("", c.Plan.Types.K), v.splits, kvGrid, rowGrid)
}

// values records o.
func (c *Cache) values(p *runtime.Program, step *runtime.Tensor, v view, row, n, rowTile int) {
	t, pad := c.engine.Tuning, c.geometry.HeadPad(c.Plan.Types)
	headTile, rowTile, kvGrid, rowGrid := c.tiles(v, n, rowTile)
	wide := c.wide(pad / layouts[c.Plan.Types.V].share)
	p.Dispatch(shaders.AttendValues{Lanes: uint32(t.Lanes), Split: uint32(t.Split()), KvHeads: uint32(v.heads.KV), Group: v.group(), HeadTile: uint32(headTile), RowTile: uint32(rowTile), HeadPad: uint32(pad), Wide: uint32(wide),
		Head: v.first, Row: uint32(row), Rows: uint32(n), Stride: uint32(v.stride), Splits: uint32(v.splits), Plane: v.vPlane,
		Step: step.Range, Table: v.table.Range, V: v.v.Range, E: c.scratch.e.Range, O: c.scratch.o.Range},
		c.engine.Variant("", c.Plan.Types.V), v.splits, kvGrid, rowGrid)
}

// merge records y and f; only f where there is no y.
func (c *Cache) merge(p *runtime.Program, step *runtime.Tensor, v view, row, n int, x Activations) {
	t := c.engine.Tuning
	k := shaders.AttendMerge{Lanes: uint32(t.Lanes), Split: uint32(t.Split()), KvHeads: uint32(v.heads.KV), Group: v.group(), HeadDim: uint32(c.geometry.HeadDim), HeadPad: uint32(c.geometry.HeadPad(c.Plan.Types)),
		Values: 1, Head: v.first, Row: uint32(row), Rows: uint32(n), Splits: uint32(v.splits), YStride: uint32(x.YStride),
		Step: step.Range, Table: v.table.Range, Peaks: c.scratch.peaks.Range, O: c.scratch.o.Range, Y: x.Y, Shares: c.scratch.shares.Range}
	if x.Y.Buffer == nil {
		k.Values, k.Y = 0, c.scratch.o.Range
	}
	p.Dispatch(k, c.engine.Variant("", ""), v.heads.Query, n, 1)
}

// moveRun is how many moves a workgroup carries out one after another: include/heads.glsl.
const moveRun = 64

// evict records what cuts a layer's own pool back to its budget.
func (c *Cache) evict(p *runtime.Program, step *runtime.Tensor, v view) {
	t, pad, types := c.engine.Tuning, c.geometry.HeadPad(c.Plan.Types), c.Plan.Types
	k, values := layouts[types.K], layouts[types.V]
	lanes, kv, added, variant := uint32(t.Lanes), uint32(v.heads.KV), uint32(c.Plan.Added), c.engine.Variant("", "")
	c.count(p, step, v)
	if c.ranked() {
		p.Dispatch(shaders.Rank{Lanes: lanes, KvHeads: kv, Added: added, Depth: uint32(t.Depth), Head: v.first, Ranks: v.pool.ranks,
			Step: step.Range, Table: v.table.Range, Slots: v.slots.Range, Log: c.log.Range, SlotsOut: v.slots.Range},
			variant, v.splits, v.heads.KV, c.seqs)
	}
	if !c.Plan.Evicts() {
		return
	}
	compact := shaders.Compact{Lanes: lanes, KvHeads: kv, Added: added, KQuads: uint32(pad / k.pack), VQuads: uint32(pad / values.pack),
		KScales: uint32(k.scales(pad)), VScales: uint32(values.scales(pad)), Head: v.first, KPlane: v.kPlane, VPlane: v.vPlane, Ranks: v.pool.ranks,
		Step: step.Range, Table: v.table.Range, Moves: c.moves.Range, K: v.k.Range, V: v.v.Range, Slots: v.slots.Range}
	if c.ranked() {
		compact.Ranked = 1
	}
	p.Dispatch(compact, variant, v.heads.KV, c.seqs, min(ceil(c.Plan.Added, moveRun), t.Movers))
}

// count records that new tokens count as live, and who goes.
func (c *Cache) count(p *runtime.Program, step *runtime.Tensor, v view) {
	lanes, variant := c.engine.Tuning.Lanes, c.engine.Variant("", "")
	if !c.Plan.Evicts() {
		entries := c.seqs * v.heads.KV
		p.Dispatch(shaders.Count{Lanes: uint32(lanes), KvHeads: uint32(v.heads.KV), Head: v.first, Count: uint32(entries), Step: step.Range, Table: v.table.Range, TableOut: v.table.Range},
			variant, ceil(entries, lanes), 1, 1)
		return
	}
	p.Dispatch(shaders.Evict{Lanes: uint32(lanes), KvHeads: uint32(v.heads.KV), Added: uint32(c.Plan.Added), Head: v.first,
		Step: step.Range, Table: v.table.Range, Slots: v.slots.Range, TableOut: v.table.Range, Moves: c.moves.Range, Log: c.log.Range},
		variant, v.heads.KV, c.seqs, 1)
}
