package h2o

import (
	"math"

	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/vk"
)

// Parts is attention that is not brought together yet: for every query head what each range of its slots came to.
type Parts struct {
	vk.Range     // (rows, All, Count) Pad f32, then four f32 of its maximum and sum: attend_token.comp
	Count, Heads int
	Dim, Pad     int // of a head: that count, that are there
	First, All   int // the layer's first head in a row, and how many a row has
}

// Head is the size of a head's parts, in f32.
func (p *Parts) Head() int { return p.Count * (p.Pad + 4) }

// tokenTile is how many query heads a workgroup of attend_token takes, at most.
const tokenTile = 4

// tokenSplits is the number of splits of a layer's heads for attention of single tokens.
func (c *Cache) tokenSplits(layer int) int {
	slots := c.Plan.Layers[layer].Most
	if c.joined {
		slots = c.most()
	}
	return ceil(slots, c.engine.Tuning.TokenSplit())
}

// rowOf is where a layer's query heads begin in a row of what attention of single tokens leaves, and how many the row has.
// Joined layers leave it side by side, until all are settled.
func (c *Cache) rowOf(layer int) (first, all int) {
	heads := c.geometry.Layers[layer].Query
	if c.joined {
		return layer * heads, len(c.pools) * heads
	}
	return 0, heads
}

// single tells whether the cache suits attention of single tokens as one kernel.
func (c *Cache) single() bool { return c.engine.Tuning.TokenDepth > 0 && c.plain() }

// plain tells whether the cache suits attention as one kernel, which takes heads as vec4, keys that are rotated, and K and V
// of one type without scales.
func (c *Cache) plain() bool {
	return c.geometry.HeadDim%4 == 0 && !c.Plan.Renumber && c.Plan.Types.K == c.Plan.Types.V && !layouts[c.Plan.Types.K].scaled
}

// whole tells whether attention where every row is the new token of its sequence is that kernel: two rotary pairs make a
// vec4.
func (c *Cache) whole(r Rotation) bool { return c.single() && r.Dim%4 == 0 && !r.Halves }

// tokenLaunch is how attention of single tokens goes over a layer.
type tokenLaunch struct {
	tile, wide, splits uint32
	scored             uint32
	pad                int
	scale              float32
}

func (c *Cache) tokenLaunch(v view) tokenLaunch {
	pad := c.geometry.HeadPad(c.Plan.Types)
	l := tokenLaunch{tile: uint32(min(tokenTile, v.headTile(pad))), wide: uint32(c.wide(pad / layouts[c.Plan.Types.V].pack)), splits: uint32(c.tokenSplits(v.layer)),
		pad: pad, scale: float32(1 / math.Sqrt(float64(c.geometry.HeadDim)))}
	if c.Plan.Policy.Measures() {
		l.scored = 1
	}
	return l
}

// attendTokens records the attention of rows that are the new tokens of as many sequences: they enter the cache and attend
// to it.
func (c *Cache) attendTokens(p *runtime.Program, step *runtime.Tensor, v view, rows int, x Activations) *Parts {
	t, l := c.engine.Tuning, c.tokenLaunch(v)
	first, all := c.rowOf(v.layer)
	p.Dispatch(shaders.AttendToken{Lanes: uint32(t.Lanes), Depth: uint32(t.TokenDepth), KvHeads: uint32(v.heads.KV), Group: v.group(), HeadTile: l.tile,
		HeadDim: uint32(c.geometry.HeadDim), HeadPad: uint32(l.pad), RopeDim: uint32(x.Dim), Wide: l.wide, Ranges: uint32(t.Ranges), Scored: l.scored,
		Head: v.first, XStride: uint32(x.XStride / 4), Stride: l.splits * uint32(t.TokenSplit()), Splits: l.splits, First: uint32(first), Heads: uint32(all), Scale: l.scale,
		Step: step.Range, Table: v.table.Range, K: v.k.Range, V: v.v.Range, X: x.X, Rope: x.Table.Range,
		KOut: v.k.Range, VOut: v.v.Range, SlotsOut: v.slots.Range, Parts: c.scratch.parts.Range, E: c.scratch.e.Range, Peaks: c.scratch.peaks.Range},
		c.engine.Variant("", c.Plan.Types.K), t.Ranges, v.heads.KV*ceil(int(v.group()), int(l.tile)), rows)
	return &Parts{Range: c.scratch.parts.Range, Count: t.Ranges, Heads: v.heads.Query, Dim: c.geometry.HeadDim, Pad: l.pad, First: first, All: all}
}

// Links tells whether one dispatch can attend in several layers, one after the other: it reaches the slots of all.
func (c *Cache) Links(r Rotation) bool {
	return c.joined && c.whole(r) && c.engine.Tuning.MergesParts()
}

// LinkedGroups is the number of parts that workgroups of such a dispatch take of a layer's attention.
func (c *Cache) LinkedGroups() int {
	v := c.own(0)
	return c.engine.Tuning.Ranges * v.heads.KV * ceil(int(v.group()), int(c.tokenLaunch(v).tile))
}

// LinkedIterations is how often a workgroup that is left alone with a layer's attention goes through a loop, at most.
func (c *Cache) LinkedIterations() int {
	l, begun := c.tokenLaunch(c.own(0)), 10
	if int(l.wide) < c.engine.Tuning.Lanes { // sums over lanes at the end
		begun += int(l.tile) * ceil(l.pad, int(l.wide))
	}
	walk := ceil(int(l.splits), c.engine.Tuning.Ranges)
	sum := c.LinkedGroups() * (walk + ceil(walk, c.engine.Tuning.Lanes) + begun)
	if l.scored == 1 {
		sum += c.geometry.Layers[0].Query * (ceil(int(l.splits), c.engine.Tuning.Lanes) + 2*c.engine.Tuning.Ranges + 5)
	}
	return sum
}

// Link makes the attention of the layers, from the given one on, part of a chain, and tells the type of the cache. Settle
// must follow the last layer.
func (c *Cache) Link(k *shaders.Chain, layer int, r Rotation) (cacheType string) {
	t, v := c.engine.Tuning, c.own(layer)
	l := c.tokenLaunch(v)
	first, _ := c.rowOf(layer)
	k.Attends, k.Depth, k.KvHeads, k.Group, k.HeadTile = 1, uint32(t.TokenDepth), uint32(v.heads.KV), v.group(), l.tile
	k.HeadDim, k.HeadPad, k.RopeDim, k.Wide, k.Ranges, k.Scored = uint32(c.geometry.HeadDim), uint32(l.pad), uint32(r.Dim), l.wide, uint32(t.Ranges), l.scored
	k.Entry, k.Head, k.Stride, k.Splits, k.Scale = v.first, uint32(first), l.splits*uint32(t.TokenSplit()), l.splits, l.scale
	k.Table, k.K, k.V, k.Rope = v.table.Range, v.k.Range, v.v.Range, r.Table.Range
	k.KOut, k.VOut, k.SlotsOut = v.k.Range, v.v.Range, v.slots.Range
	k.Parts, k.PartsOut, k.E = c.scratch.parts.Range, c.scratch.parts.Range, c.scratch.e.Range
	k.Peaks, k.PeaksOut, k.Shares = c.scratch.peaks.Range, c.scratch.peaks.Range, c.scratch.shares.Range
	return c.Plan.Types.K
}

// Settle records what follows the attention of all layers where chains have made it, as Decode does behind the last one.
func (c *Cache) Settle(p *runtime.Program, step *runtime.Tensor) {
	c.scoreTokens(p, step, c.all(), 1)
	c.evict(p, step, c.all())
}

// shareTokens records what makes probabilities of what that attention left, where scores are measured.
func (c *Cache) shareTokens(p *runtime.Program, step *runtime.Tensor, v view, rows int) {
	if !c.Plan.Policy.Measures() {
		return
	}
	t, splits := c.engine.Tuning, c.tokenSplits(v.layer)
	p.Dispatch(shaders.Shares{Lanes: uint32(t.Lanes), Split: uint32(t.TokenSplit()), KvHeads: uint32(v.heads.KV), Group: v.group(), Ranges: uint32(t.Ranges), PadQuads: uint32(c.geometry.HeadPad(c.Plan.Types) / 4),
		Head: v.first, Splits: uint32(splits),
		Step: step.Range, Table: v.table.Range, Parts: c.scratch.parts.Range, Peaks: c.scratch.peaks.Range, Shares: c.scratch.shares.Range},
		c.engine.Variant("", ""), v.heads.Query, rows, 1)
}

// scoreTokens records what the probabilities make of the scores.
func (c *Cache) scoreTokens(p *runtime.Program, step *runtime.Tensor, v view, rows int) {
	if c.Plan.Policy.Update != UpdateNone {
		c.score(p, step, v, 0, rows, c.engine.Tuning.TokenSplit(), c.tokenSplits(v.layer), c.engine.Tuning.TokenDepth)
	}
}

// mergeParts records y = the attention that the parts make.
func (c *Cache) mergeParts(p *runtime.Program, step *runtime.Tensor, parts *Parts, rows int, x Activations) {
	t := c.engine.Tuning
	p.Dispatch(shaders.MergeParts{Lanes: uint32(t.Lanes), Ranges: uint32(parts.Count), Heads: uint32(parts.Heads), HeadQuads: uint32(parts.Dim / 4), PadQuads: uint32(parts.Pad / 4),
		First: uint32(parts.First), All: uint32(parts.All), YStride: uint32(x.YStride / 4), Step: step.Range, Parts: parts.Range, Y: x.Y},
		c.engine.Variant("", ""), ceil(parts.Heads*parts.Dim/4, t.Lanes), rows, 1)
}
