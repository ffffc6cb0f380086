package model

import (
	"vkdecode/h2o"
	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/vk"
)

// chains are a model's chains for the steps of one row of a session.
type chains struct {
	rows         *runtime.Tensor // all activations
	layers       *runtime.Tensor // the rows of every layer, among them
	own          *runtime.Tensor // (workgroups, width) f32, among them
	table, state *runtime.Tensor
	cache        *h2o.Cache // whose attention is part of the chains, nil if that is dispatched apart
}

// linkedRows are the activations of a layer of a step of one row. A chain writes nothing that it has read, so every layer
// has rows of its own.
type linkedRows struct{ x, qkv, attn, middle, gated vk.Range }

// stateWords is the number of words in which workgroups tell each other how far so many groups are.
func stateWords(groups int) int { return 2 + groups }

// planChains names the tensors of the chains and puts the activations together, if the model's layers are linked.
func (a *activations) planChains(arena *runtime.Arena, cache *h2o.Cache) {
	if len(a.model.chains) == 0 {
		return
	}
	c := &chains{cache: cache}
	if !cache.Links(a.model.arch.rotation(nil)) || !a.model.attendable(cache.LinkedIterations()) {
		c.cache = nil
	}
	layers, products, words := len(a.model.Layers), 0, 0
	for _, chain := range a.model.chains {
		for _, links := range chain.links {
			words += c.attentionWords()
			for _, l := range links {
				products, words = products+1, words+stateWords(l.slices[0].groups)
			}
		}
	}
	layerBytes, ownBytes := int64(4*layers*a.layerWidth()), int64(4*a.linkGroups()*a.ownWidth())
	if a.x.Bytes+a.attn.Bytes+layerBytes+ownBytes > a.model.engine.Bindable() {
		return
	}
	c.layers, c.own = arena.Tensor("scratch.layers", layerBytes), arena.Tensor("scratch.own", ownBytes)
	c.rows = arena.Together("scratch.rows", a.x, a.attn, c.layers, c.own)
	c.table = arena.Tensor("step.layers", int64(4*(layerWords*layers+linkWords*products)))
	c.state = arena.Tensor("step.groups", int64(4*words))
	a.chains = c
}

// attentionWords are those of a layer's attention in the state.
func (c *chains) attentionWords() int {
	if c.cache == nil {
		return 0
	}
	return stateWords(c.cache.LinkedGroups())
}

// layerWidth is the size of a layer's rows, in f32.
func (a *activations) layerWidth() int { return 2*a.widths.x + a.widths.qkv + a.widths.ffn }

// linkGroups is the number of workgroups of a chain: one for every thread that takes them.
func (a *activations) linkGroups() int { return a.model.engine.Tuning.Threads }

// ownWidth is the size of a row that a workgroup prepares for itself, in f32.
func (a *activations) ownWidth() int { return max(a.widths.x, a.widths.attn) }

// linkedRows are those of layer i; behind the last layer there is only x, of which the logits are made.
func (a *activations) linkedRows(i int) (r linkedRows) {
	r.attn = rowOf(a.attn, 0, a.widths.attn)
	if i == len(a.model.Layers) {
		r.x = rowOf(a.x, 0, a.widths.x)
		return r
	}
	at := i * a.layerWidth()
	row := func(width int) vk.Range {
		at += width
		return a.chains.layers.Slice(int64(4*(at-width)), int64(4*width))
	}
	r.x, r.middle, r.qkv, r.gated = row(a.widths.x), row(a.widths.x), row(a.widths.qkv), row(a.widths.ffn)
	return r
}

// Words of a layer and of a product in the table.
const layerWords, linkWords = 4, 12

// writeTable tells the kernel where everything is.
func (a *activations) writeTable() error {
	var layers, products []uint32
	state, record := 0, len(a.model.Layers)
	at := func(r vk.Range, whole *runtime.Tensor, unit int64) uint32 {
		return uint32((r.Offset - whole.Offset) / unit)
	}
	for _, c := range a.model.chains {
		for i := range c.links {
			here := a.linkedRows(c.first + i)
			links := a.model.arch.links(c.first+i, here, a.linkedRows(c.first+i+1))
			layers = append(layers, uint32(len(links)), uint32(record), at(here.qkv, a.chains.rows, 16), uint32(state))
			record += len(links) * linkWords / layerWords
			state += a.chains.attentionWords()
			for _, l := range links {
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
				products = append(products,
					uint32(l.planes.steps), uint32(slice.groups), uint32(l.Matrix.rows), l.epilogue,
					at(l.x, a.chains.rows, 16), at(slice.weights.Range, c.weights, 16), at(scales.Range, c.weights, 16), uint32(state),
					at(l.y, a.chains.rows, 4), at(res, a.chains.rows, 4), at(norm.Range, c.weights, 16), uint32(l.width))
				state += stateWords(slice.groups)
			}
		}
	}
	words := append(layers, products...)
	return a.model.engine.Device.Write(a.chains.table.Slice(0, int64(4*len(words))), wordBytes(words))
}

// linked records all layers for one row, as chains. attend is for those whose attention is dispatched apart.
func (a *activations) linked(p *runtime.Program, attend attention) {
	m, cache, first := a.model, a.chains.cache, a.linkedRows(0)
	p.Zero(a.chains.state.Range)
	m.arch.embedding(p, a, a.step, first.x, 1)
	m.arch.project(p, a, 0, first.x, first.qkv, 1)
	for _, c := range m.chains {
		for i := 0; i < len(c.links); {
			k, v, n := a.chain(c, c.first+i), m.engine.Variant(c.links[0][0].weight.name, "f16"), 1
			if cache != nil {
				n, k.Looks = c.within(i, cache.LinkedIterations())
				v.Cache = cache.Link(&k, c.first+i, m.arch.rotation(a.rope))
			} else {
				_, k.Looks = c.within(i, 0)
				if parts := attend(p, c.first+i, 1, a.attended(a.linkedRows(c.first+i).qkv)); parts != nil {
					k.Ranges, k.KvHeads, k.HeadDim, k.HeadPad = uint32(parts.Count), uint32(parts.Heads), uint32(parts.Dim), uint32(parts.Pad)
					k.Parts, k.Head = parts.Range, uint32(parts.First)
				}
			}
			k.Count = uint32(n)
			p.Dispatch(k, v, a.linkGroups(), 1, 1)
			p.Cut()
			i += n
		}
	}
	if cache != nil {
		cache.Settle(p, a.step)
	}
}

// chain is the kernel for layers from the given one on, without attention: that has the smallest sizes, and is bound to the
// activations.
func (a *activations) chain(c chain, layer int) shaders.Chain {
	rows := a.chains.rows.Range
	return shaders.Chain{Lanes: uint32(a.model.engine.Tuning.Lanes), Rows: uint32(c.links[0][0].planes.rows), Run: 1, Cols: 1,
		KvHeads: 1, Group: 1, HeadDim: 4, HeadPad: 8, Depth: 1, HeadTile: 1, RopeDim: 4, Wide: 1,
		First: uint32(layer), Patience: patience, Eps: a.model.Eps, Own: uint32((a.chains.own.Offset - a.chains.rows.Offset) / 4), OwnEach: uint32(a.ownWidth()),
		Step: a.step.Range, Layers: a.chains.table.Range, W: c.weights.Range, S: c.weights.Range, X: rows, Res: rows, Y: rows, State: a.chains.state.Range,
		Table: rows, Parts: rows, K: rows, V: rows, Rope: rows, PartsOut: rows, KOut: rows, VOut: rows, SlotsOut: rows, E: rows, Peaks: rows, PeaksOut: rows, Shares: rows}
}
