package h2o

import (
	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/vk"
)

// stage is where prompts are processed that need more room than a layer's own pool has, or another policy. The work pool
// serves one layer at a time: the layer's tokens are copied into it in order of position, a chunk is added or the whole
// prompt, and the survivors are copied back.
type stage struct {
	pool     *pool           // (seqs, KV heads, Work) slots
	table    *runtime.Tensor // as Cache.table; what prompts need of each head
	list     *runtime.Tensor // (seqs, KV heads): 4 words, then Work slots that are copied
	observed *runtime.Tensor // Step of the last queries
	ring     *runtime.Tensor // (layers, seqs, window, heads, HeadPad) f32: those queries
	sums     *runtime.Tensor // (seqs, heads, stride) f32: what they gave each slot
	ringSize int64           // bytes of a layer's ring
	logSize  int             // entries of the log for each head
	logged   int             // entries of the log
}

func (c *Cache) newStage(a *runtime.Arena, entries int) *stage {
	heads := c.seqs * c.geometry.mostKV()
	s := &stage{
		pool:  c.newPool(a, "work", heads*c.Plan.Work),
		table: a.Tensor("table.prompt", int64(entries)*headBytes),
		list:  a.Tensor("table.list", int64(heads*(4+c.Plan.Work))*4),
	}
	// A chunk logs for all layers, an exact prompt for one layer at a time. A chunk evicts as many tokens as it adds, those
	// that decoding let grow, and where heads share a budget, all that a head loses to the others.
	if s.logSize, s.logged = c.Plan.Work, heads*c.Plan.Work; !c.Plan.Exact {
		if c.Plan.Prefill.Share != PerHead {
			s.logSize = min(c.Plan.Work, c.Plan.Chunk+c.Plan.Added)
		}
		s.logged = entries * s.logSize
	}
	if window := c.Plan.Prefill.Window; window > 0 {
		queries := 0
		for _, l := range c.geometry.Layers {
			queries = max(queries, l.Query)
		}
		s.observed = a.Tensor("step.observed", runtime.StepBytes)
		const alignment = 256 // of a layer's ring in the tensor: the most that devices ask for
		s.ringSize = (int64(c.seqs*window*queries*c.geometry.HeadPad(c.Plan.Types))*4 + alignment - 1) &^ (alignment - 1)
		s.ring = a.Tensor("scratch.ring", s.ringSize*int64(len(c.geometry.Layers)))
		split := c.engine.Tuning.Split()
		s.sums = a.Tensor("scratch.sums", int64(c.seqs*queries*ceil(c.Plan.Work, split)*split)*4)
	}
	return s
}

// work is the view of a layer's tokens in the work pool.
func (c *Cache) work(layer int) view {
	v := c.view(layer, c.stage.pool, c.stage.table, c.Plan.Work)
	v.ranks, v.scores = inOrder, c.Observes() == 0 && c.Plan.Prefill.Update != UpdateNone
	return v
}

// Observes tells how many of a prompt's last rows have to be told to Observed; 0 = none.
func (c *Cache) Observes() int {
	if c.stage == nil {
		return 0
	}
	return c.Plan.Prefill.Window
}

// Observed is the Step that says which queries are observed.
func (c *Cache) Observed() *runtime.Tensor { return c.stage.observed }

// Prompt records a layer's attention for a chunk of up to rows consecutive tokens of one prompt. In a plan that is exact
// the layer must have been entered, and is left after the last chunk; otherwise the chunk is all.
func (c *Cache) Prompt(p *runtime.Program, step *runtime.Tensor, layer, rows int, x Activations) {
	if c.stage == nil {
		c.Decode(p, step, layer, rows, false, x) // in no parts: the rows are of one sequence
		return
	}
	if !c.Plan.Exact {
		c.Enter(p, step, layer)
	}
	v := c.work(layer)
	window := c.Observes()
	c.attend(p, step, v, rows, false, x)
	c.count(p, step, v)
	if window > 0 {
		quads := v.heads.Query * c.geometry.HeadPad(c.Plan.Types) / 4
		p.Dispatch(shaders.Observe{Lanes: uint32(c.engine.Tuning.Lanes), Window: uint32(window), Quads: uint32(quads),
			Step: step.Range, Q: c.scratch.q.Range, Ring: c.ringOf(layer)},
			c.engine.Variant("", ""), ceil(quads, c.engine.Tuning.Lanes), rows, 1)
	}
	if !c.Plan.Exact {
		c.Leave(p, step, layer, x.Rotation)
	}
}

// Enter records how a layer's tokens are copied into the work pool.
func (c *Cache) Enter(p *runtime.Program, step *runtime.Tensor, layer int) {
	own := c.own(layer)
	k := shaders.Enter{Lanes: uint32(c.engine.Tuning.Lanes), KvHeads: uint32(own.heads.KV), Head: own.first, Ranks: own.pool.ranks, Capacity: uint32(c.Plan.Work),
		Step: step.Range, Table: c.table.Range, Slots: own.slots.Range, PromptTable: c.stage.table.Range, WorkSlots: c.stage.pool.slots.Range, Map: c.stage.list.Range}
	if c.Plan.Exact {
		k.Begins = 1
	}
	if c.Plan.Policy.Measures() {
		k.Measured = 1
	}
	p.Dispatch(k, c.engine.Variant("", ""), own.heads.KV, c.seqs, 1)
	c.gather(p, step, own.heads, own.pool, c.stage.pool, min(c.Plan.Layers[layer].Most, c.Plan.Work))
}

// Leave records how the survivors of a layer are chosen and copied back.
func (c *Cache) Leave(p *runtime.Program, step *runtime.Tensor, layer int, r Rotation) {
	own, v := c.own(layer), c.work(layer)
	if c.Observes() > 0 {
		c.observe(p, v, r)
	}
	if c.Plan.Prefill.Share == PerHead {
		c.share(p, step, v)
	}
	k := shaders.Choose{Lanes: uint32(c.engine.Tuning.Lanes), KvHeads: uint32(v.heads.KV), Head: v.first, Ranks: own.pool.ranks, Capacity: uint32(c.Plan.Work), LogSize: uint32(c.stage.logSize),
		Step: step.Range, Table: v.table.Range, Slots: v.slots.Range, PoolTable: c.table.Range, PoolSlots: own.slots.Range, Map: c.stage.list.Range, Log: c.log.Range}
	if c.Plan.Prefill.Measures() {
		k.Measured = 1
	}
	if c.Plan.Exact {
		k.LogHead = v.first
	}
	p.Dispatch(k, c.engine.Variant("", ""), v.heads.KV, c.seqs, 1)
	c.gather(p, step, own.heads, c.stage.pool, own.pool, min(c.Plan.Layers[layer].Most, c.Plan.Work))
}

func (c *Cache) ringOf(layer int) vk.Range {
	return c.stage.ring.Slice(int64(layer)*c.stage.ringSize, c.stage.ringSize)
}

// share records how the heads of a layer share its slots.
func (c *Cache) share(p *runtime.Program, step *runtime.Tensor, v view) {
	p.Dispatch(shaders.Share{Lanes: uint32(c.engine.Tuning.Lanes), KvHeads: uint32(v.heads.KV), Head: v.first, Slot: uint32(c.base[v.layer]), Budget: uint32(c.Plan.Layers[v.layer].Budget), Added: uint32(c.Plan.Added), Alpha: uint32(c.Plan.Prefill.Alpha),
		Step: step.Range, Table: v.table.Range, Slots: v.slots.Range, PromptTable: v.table.Range, PoolTable: c.table.Range},
		c.engine.Variant("", ""), c.seqs, 1, 1)
}

// Measures tells whether a policy's scores tell of attention, so that another may go on with them.
func (p *Policy) Measures() bool { return p.Update == UpdateAdd || p.Update == UpdateLast }

const gatherGroups = 1 << 14 // workgroups of a head, at most: some devices take 65,535 in a dispatch

// gather records the copy of K and V of the listed slots, at most so many of a head.
func (c *Cache) gather(p *runtime.Program, step *runtime.Tensor, heads Heads, from, to *pool, most int) {
	pad, lanes := c.geometry.HeadPad(c.Plan.Types), c.engine.Tuning.Lanes
	copied := func(cacheType string, source, target *runtime.Tensor, sourcePlane, targetPlane uint32) {
		l := layouts[cacheType]
		quads, scales := pad/l.pack, l.scales(pad)
		p.Dispatch(shaders.Gather{Lanes: uint32(lanes), Quads: uint32(quads), Scales: uint32(scales), Capacity: uint32(c.Plan.Work), FromPlane: sourcePlane, ToPlane: targetPlane,
			Step: step.Range, Map: c.stage.list.Range, From: source.Range, To: target.Range},
			c.engine.Variant("", ""), min(ceil(most*(quads+scales), lanes), gatherGroups), c.seqs*heads.KV, 1)
	}
	copied(c.Plan.Types.K, from.k, to.k, from.kPlane, to.kPlane)
	copied(c.Plan.Types.V, from.v, to.v, from.vPlane, to.vPlane)
}

// observe records the scores that a prompt's last queries give.
func (c *Cache) observe(p *runtime.Program, v view, r Rotation) {
	t, s, o := c.engine.Tuning, c.stage, c.Plan.Prefill.Observation
	split, variant := uint32(t.Split()), c.engine.Variant("", "")
	if c.byRows() {
		c.attendRows(p, s.observed, v, c.ringOf(v.layer), o.Window, Activations{Rotation: r})
		c.windowRows(p, s.observed, v, c.ringOf(v.layer), o.Window, r)
	}
	for row := 0; row < o.Window && !c.byRows(); row += v.slice {
		n := min(v.slice, o.Window-row)
		c.logits(p, s.observed, v, c.ringOf(v.layer), row, n, t.RowTile, r)
		c.merge(p, s.observed, v, row, n, Activations{})
		p.Dispatch(shaders.Window{Lanes: uint32(t.Lanes), Split: split, KvHeads: uint32(v.heads.KV), Group: v.group(), Head: v.first, Row: uint32(row), Rows: uint32(n), Stride: uint32(v.stride), Splits: uint32(v.splits),
			Step: s.observed.Range, Table: v.table.Range, E: c.scratch.e.Range, Shares: c.scratch.shares.Range, Sums: s.sums.Range},
			variant, v.splits, v.heads.Query, c.seqs)
	}
	k := shaders.Pool{Lanes: uint32(t.Lanes), Split: split, KvHeads: uint32(v.heads.KV), Group: v.group(), Head: v.first, Stride: uint32(v.stride), Window: uint32(o.Window), Kernel: uint32(o.Kernel),
		Step: s.observed.Range, Table: v.table.Range, Sums: s.sums.Range, Slots: v.slots.Range, SlotsOut: v.slots.Range}
	if o.Average {
		k.Average = 1
	}
	p.Dispatch(k, variant, v.splits, v.heads.KV, c.seqs)
}
