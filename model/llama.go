package model

import (
	"fmt"
	"slices"

	"vkdecode/h2o"
	"vkdecode/runtime"
	"vkdecode/vk"
)

// llama is the architecture of Llama and its kin: RMS norms, rotary positions, grouped queries, a gated feed-forward
// part with SiLU. GGUF files keep its Q and K rows permuted so that rotary pairs are neighbours. Biases are used where
// the file has them.
type llama struct {
	engine *runtime.Engine
	config *Config
	embed  *Matrix // (vocab, width)
	layers []llamaLayer
	norm   *vector // (width)
	head   *Matrix // (vocab, width); embed where they are tied
}

type llamaLayer struct {
	attnNorm *vector         // (width)
	qkv      []*Matrix       // one of (heads + 2 KV heads) * head size rows; three where the file gives q, k, v different types
	out      *Matrix         // (width, heads * head size)
	ffnNorm  *vector         // (width)
	gateUp   []*Matrix       // one of interleaved gate and up; or up, gate where the file gives them different types
	down     *Matrix         // (width, ffn)
	linked   *runtime.Tensor // the weights of the chain that follows the attention, nil if no layer has one
}

func newLlama(w *weights) (architecture, error) {
	c, err := readConfig(w.file, "llama")
	if err != nil {
		return nil, err
	}
	m := &llama{engine: w.engine, config: c}
	embed := w.tensor("token_embd.weight", c.Width, -1)
	if w.err != nil {
		return nil, w.err
	}
	c.Vocab = int(embed.Rows())
	m.norm = w.vector("output_norm.weight", c.Width)
	if w.has("output.weight") {
		m.embed = w.matrix("embed", "", embed)
		m.head = w.matrix("head", runtime.Normed, w.tensor("output.weight", c.Width, c.Vocab))
	} else {
		m.embed = w.matrix("embed", runtime.Normed, embed)
		m.head = m.embed
	}
	for i, l := range c.Layers {
		b := fmt.Sprintf("blk.%d.", i)
		w.layer = i
		width, queries, keys := c.Width, l.Query*c.HeadDim, l.KV*c.HeadDim
		q, k, v := w.tensor(b+"attn_q.weight", width, queries), w.tensor(b+"attn_k.weight", width, keys), w.tensor(b+"attn_v.weight", width, keys)
		gate, up := w.tensor(b+"ffn_gate.weight", width, l.FFN), w.tensor(b+"ffn_up.weight", width, l.FFN)
		if w.engine.Tuning.Links() { // one kernel makes all products of the layer
			w.beside = []int{queries + 2*keys, width, 2 * l.FFN, width}
		}
		m.layers = append(m.layers, llamaLayer{
			attnNorm: w.vector(b+"attn_norm.weight", width),
			qkv:      w.fused(fmt.Sprintf("qkv.%d", i), runtime.Normed, q, k, v),
			out:      w.matrix(fmt.Sprintf("out.%d", i), runtime.Parts, w.tensor(b+"attn_output.weight", queries, width)),
			ffnNorm:  w.vector(b+"ffn_norm.weight", width),
			gateUp:   w.paired(fmt.Sprintf("gateup.%d", i), runtime.Normed, gate, up),
			down:     w.matrix(fmt.Sprintf("down.%d", i), runtime.Plain, w.tensor(b+"ffn_down.weight", l.FFN, width)),
		})
		if w.err != nil {
			return nil, w.err
		}
	}
	return m, w.err
}

// link puts the weights of every chain together, if all layers can have one.
func (m *llama) link(w *weights) {
	for i, l := range m.layers {
		if len(m.layers) == 1 || len(l.qkv) > 1 || len(l.gateUp) > 1 || !linkable(w.engine, m.chain(i).links) {
			return
		}
	}
	for i := range m.layers {
		m.layers[i].linked = w.together(fmt.Sprintf("layer.%d", i), m.chain(i).links)
	}
}

// chain is what follows the attention of layer i, up to the next one's.
func (m *llama) chain(i int) chain {
	l, c := m.layers[i], m.config
	links := []link{
		{l.out, product{epilogue: addRes}},
		{l.gateUp[0], product{epilogue: siluPair, norm: l.ffnNorm, width: c.Width}},
		{l.down, product{epilogue: addRes}},
	}
	if i+1 < len(m.layers) {
		next := m.layers[i+1]
		links = append(links, link{next.qkv[0], product{epilogue: store, norm: next.attnNorm, width: c.Width}})
	}
	return chain{l.linked, links}
}

// after is that chain on the activations. It writes nothing that it has read: what a layer begins with, what
// it makes with attention and what it ends with are rows of x of their own. The first begins with row 0, and the last ends there.
func (m *llama) after(a *activations, i int) chain {
	c := m.chain(i)
	row := func(n int) vk.Range { return rowOf(a.x, n, a.widths.x) }
	begin := func(i int) vk.Range {
		if i == 0 || i == len(m.layers) {
			return row(0)
		}
		return row(2 + i%2)
	}
	c.links[0].x, c.links[0].y, c.links[0].res = a.attn.Range, row(1), begin(i)
	c.links[1].x, c.links[1].y = row(1), a.ffn.Range
	c.links[2].x, c.links[2].y, c.links[2].res = a.ffn.Range, begin(i+1), row(1)
	if len(c.links) > 3 {
		c.links[3].x, c.links[3].y = begin(i+1), a.qkv.Range
	}
	return c
}

// linked records all layers for one row, with the products between two attentions as chains.
func (m *llama) linked(p *runtime.Program, a *activations, attend attention) {
	m.projections(p, a, 0, 1)
	for i := range m.layers {
		a.chain(p, i, attend(p, i, 1, m.attended(a)))
		p.Cut()
	}
}

func (m *llama) Config() *Config { return m.config }

// widths are the row sizes, in elements, that the activations need.
func (m *llama) widths() (w widths) {
	w.x = m.embed.paddedColumns()
	for i, l := range m.layers {
		c := m.config.Layers[i]
		w.qkv = max(w.qkv, (c.Query+2*c.KV)*m.config.HeadDim)
		w.attn = max(w.attn, l.out.paddedColumns())
		w.ffn = max(w.ffn, l.down.paddedColumns())
		for _, m := range append(slices.Clip(l.qkv), l.gateUp...) {
			w.x = max(w.x, m.paddedColumns())
		}
	}
	w.x = max(w.x, m.head.paddedColumns())
	w.qkv = (w.qkv + 3) &^ 3
	return w
}

// embedding records x = the embeddings of up to rows rows.
func (m *llama) embedding(p *runtime.Program, a *activations, step *runtime.Tensor, x vk.Range, rows int) {
	m.embed.gather(m.engine, p, step, x, a.widths.x, rows)
}

// projections records the queries, keys and values of layer i.
func (m *llama) projections(p *runtime.Program, a *activations, i, rows int) {
	qkv := a.normed(p, m.layers[i].attnNorm, rows, false)
	qkv.y, qkv.yStride, qkv.epilogue = a.qkv.Range, a.widths.qkv, store
	for _, part := range m.layers[i].qkv {
		part.multiply(m.engine, p, a.step, qkv)
		qkv.yOffset += part.rows
	}
}

// attended is what attention reads and writes.
func (m *llama) attended(a *activations) h2o.Activations {
	return h2o.Activations{X: a.qkv.Range, Y: a.attn.Range, XStride: a.widths.qkv, YStride: a.widths.attn, Rotation: m.rotation(a.rope)}
}

// layer records layer i for up to rows rows of a.x. attend records its attention.
func (m *llama) layer(p *runtime.Program, a *activations, i, rows int, attend attention) {
	e, step, w, l := m.engine, a.step, a.widths, m.layers[i]
	m.projections(p, a, i, rows)
	attn := product{x: a.attn.Range, y: a.x.Range, res: a.x.Range, xStride: w.attn, yStride: w.x, epilogue: addRes, rows: rows}
	attended := m.attended(a)
	attended.Whole = l.out.planes.run > 1 // which brings no parts together
	attn.parts = attend(p, i, rows, attended)
	l.out.multiply(e, p, step, attn)
	ffn := a.normed(p, l.ffnNorm, rows, false)
	ffn.y, ffn.yStride, ffn.epilogue = a.ffn.Range, w.ffn, siluPair
	if len(l.gateUp) == 2 {
		ffn.epilogue = store
		l.gateUp[0].multiply(e, p, step, ffn)
		ffn.epilogue, ffn.res = siluMul, a.ffn.Range
	}
	l.gateUp[len(l.gateUp)-1].multiply(e, p, step, ffn)
	// A width that varies by layer leaves numbers of a wider layer behind: its weights there are zero, see planes.
	l.down.multiply(e, p, step, product{x: a.ffn.Range, y: a.x.Range, res: a.x.Range, xStride: w.ffn, yStride: w.x, epilogue: addRes, rows: rows})
	p.Cut()
}

// rotation is how queries and keys are turned: GGUF keeps pairs side by side.
func (m *llama) rotation(table *runtime.Tensor) h2o.Rotation {
	return h2o.Rotation{Dim: m.config.RopeDim, Table: table}
}

// logits records the final norm and the logits of up to outs wanted rows.
func (m *llama) logits(p *runtime.Program, a *activations, outs int) {
	head := a.normed(p, m.norm, outs, true)
	head.y, head.yStride, head.epilogue = a.logits.Range, a.logitsStride, store
	m.head.multiply(m.engine, p, a.step, head)
}
