package model

import (
	"vkdecode/h2o"
	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/vk"
)

// chain is all products between two attentions, for a step of one row, as one dispatch (chain.comp) where Tuning.Links. The
// kernel reaches their weights as one tensor and all activations as another, and reads where each begins in a table.
type chain struct {
	weights *runtime.Tensor // planes and norms of all, nil if the products are dispatched one by one
	links   []link
}

// link is one product of a chain.
type link struct {
	*Matrix
	product
}

const (
	linkWords = 12 // of a product in the table

	// patience is how often a workgroup looks whether another one has finished, before it does that one's work itself: each
	// look takes a tenth of a microsecond or two.
	patience = 2000

	// loopLimit is how many iterations an invocation may need at most: lavapipe ends its loops after 65,535.
	loopLimit = 60_000
)

// tensors are the planes of a product and the weights of its norm.
func (l link) tensors() (all []*runtime.Tensor) {
	for _, s := range l.slices {
		all = append(all, s.weights)
		if s.scales != nil {
			all = append(all, s.scales)
		}
	}
	if l.norm != nil {
		all = append(all, l.norm.tensor)
	}
	return all
}

// stateWords is the number of words in which workgroups tell each other how far the product is.
func (l link) stateWords() int { return 2 + l.slices[0].groups }

// linkable tells whether one kernel can make these products.
func linkable(e *runtime.Engine, links []link) bool {
	first, bytes, iterations := links[0].Matrix, int64(0), 0
	for _, l := range links {
		if l.weight.name != first.weight.name || l.planes.rows != first.planes.rows || l.bias != nil || len(l.slices) > 1 {
			return false
		}
		for _, t := range l.tensors() {
			bytes += t.Bytes
		}
		iterations += patience + l.slices[0].groups*(l.planes.steps+4)
	}
	limits := e.Device.Info.Limits
	return iterations <= loopLimit && bytes <= min(16*int64(limits.MaxTexelElements), limits.MaxAllocation)
}

// together puts the weights of a chain into one tensor.
func (w *weights) together(name string, links []link) *runtime.Tensor {
	var all []*runtime.Tensor
	for _, l := range links {
		all = append(all, l.tensors()...)
	}
	return w.arena.Together("weights."+name, all...)
}

// chains are those of a session.
type chains struct {
	rows         *runtime.Tensor // all activations
	own          *runtime.Tensor // (workgroups, width) f32, among them
	table, state *runtime.Tensor
	first        []int // of each chain's products in the table
}

// planChains names the tensors of the chains and puts the activations together, if the model's products are linked.
func (a *activations) planChains(arena *runtime.Arena) {
	words, products := 0, 0
	var first []int
	for i := range a.model.Layers {
		c := a.model.arch.chain(i)
		if c.weights == nil {
			return
		}
		first = append(first, products)
		for _, l := range c.links {
			products, words = products+1, words+l.stateWords()
		}
	}
	ownBytes := int64(4 * a.linkGroups() * a.ownWidth())
	if a.x.Bytes+a.qkv.Bytes+a.attn.Bytes+a.ffn.Bytes+ownBytes > a.model.engine.Bindable() {
		return
	}
	own := arena.Tensor("scratch.own", ownBytes)
	a.chains = &chains{
		rows:  arena.Together("scratch.rows", a.x, a.qkv, a.attn, a.ffn, own),
		own:   own,
		table: arena.Tensor("step.products", int64(4*linkWords*products)),
		state: arena.Tensor("step.groups", int64(4*words)),
		first: first,
	}
}

// linkGroups is the number of workgroups of a chain: one for every thread that takes them.
func (a *activations) linkGroups() int { return a.model.engine.Tuning.Threads }

// ownWidth is the size of a row that a workgroup prepares for itself, in f32.
func (a *activations) ownWidth() int { return max(a.widths.x, a.widths.attn) }

// writeTable tells the kernel where everything is.
func (a *activations) writeTable() error {
	var words []uint32
	state := 0
	at := func(r vk.Range, whole *runtime.Tensor, unit int64) uint32 {
		return uint32((r.Offset - whole.Offset) / unit)
	}
	for i := range a.model.Layers {
		c := a.model.arch.after(a, i)
		for _, l := range c.links {
			slice := l.slices[0]
			scales, norm, res := slice.weights, slice.weights, l.y
			if slice.scales != nil {
				scales = slice.scales
			}
			if l.norm != nil {
				norm = l.norm.tensor
			}
			if l.res.Buffer != nil {
				res = l.res
			}
			words = append(words,
				uint32(l.planes.steps), uint32(slice.groups), uint32(l.Matrix.rows), l.epilogue,
				at(l.x, a.chains.rows, 16), at(slice.weights.Range, c.weights, 16), at(scales.Range, c.weights, 16), uint32(state),
				at(l.y, a.chains.rows, 4), at(res, a.chains.rows, 4), at(norm.Range, c.weights, 16), uint32(l.width))
			state += l.stateWords()
		}
	}
	return a.model.engine.Device.Write(a.chains.table.Slice(0, int64(4*len(words))), wordBytes(words))
}

// chain records the products after the attention of layer i, which has left parts or, if nil, the row attn.
func (a *activations) chain(p *runtime.Program, i int, parts *h2o.Parts) {
	e, c := a.model.engine, a.model.arch.after(a, i)
	k := shaders.Chain{Lanes: uint32(e.Tuning.Lanes), Rows: uint32(c.links[0].planes.rows), Run: 1, Cols: 1, First: uint32(a.chains.first[i]), Count: uint32(len(c.links)),
		Patience: patience, Eps: a.model.Eps, Step: a.step.Range, W: c.weights.Range, S: c.weights.Range, Products: a.chains.table.Range,
		X: a.chains.rows.Range, Res: a.chains.rows.Range, Parts: a.chains.rows.Range, Y: a.chains.rows.Range, State: a.chains.state.Range}
	k.Own, k.OwnEach = uint32((a.chains.own.Offset-a.chains.rows.Offset)/4), uint32(a.ownWidth())
	if parts != nil {
		k.Ranges, k.Heads, k.HeadQuads, k.PadQuads = uint32(parts.Count), uint32(parts.Heads), uint32(parts.Dim/4), uint32(parts.Pad/4)
		k.Parts, k.PartsAt = parts.Range, uint32(parts.First*parts.Head()/4)
	}
	p.Dispatch(k, e.Variant(c.links[0].weight.name, ""), a.linkGroups(), 1, 1)
}
