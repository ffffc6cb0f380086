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
	attnNorm *vector   // (width)
	qkv      []*Matrix // one of (heads + 2 KV heads) * head size rows; three where the file gives q, k, v different types
	out      *Matrix   // (width, heads * head size)
	ffnNorm  *vector   // (width)
	gateUp   []*Matrix // one of interleaved gate and up; or up, gate where the file gives them different types
	down     *Matrix   // (width, ffn)
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

// links are the products that follow the attention of layer i, up to the next one's; nil if there are others.
func (m *llama) links(i int, here, next linkedRows) []link {
	l, c := m.layers[i], m.config
	if len(l.qkv) > 1 || len(l.gateUp) > 1 {
		return nil
	}
	links := []link{
		{l.out, product{epilogue: addRes, x: here.attn, y: here.middle, res: here.x}},
		{l.gateUp[0], product{epilogue: siluPair, x: here.middle, y: here.gated, norm: l.ffnNorm, width: c.Width}},
		{l.down, product{epilogue: addRes, x: here.gated, y: next.x, res: here.middle}},
	}
	if i+1 < len(m.layers) {
		l := m.layers[i+1]
		links = append(links, link{l.qkv[0], product{epilogue: store, x: next.x, y: next.qkv, norm: l.attnNorm, width: c.Width}})
	}
	return links
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

// project records qkv = the queries, keys and values of layer i for up to rows rows of x.
func (m *llama) project(p *runtime.Program, a *activations, i int, x, qkv vk.Range, rows int) {
	u := a.normed(p, x, m.layers[i].attnNorm, rows, false)
	u.y, u.yStride, u.epilogue = qkv, a.widths.qkv, store
	for _, part := range m.layers[i].qkv {
		part.multiply(m.engine, p, a.step, u)
		u.yOffset += part.rows
	}
}

// layer records layer i for up to rows rows of a.x. attend records its attention.
func (m *llama) layer(p *runtime.Program, a *activations, i, rows int, attend attention) {
	e, step, w, l := m.engine, a.step, a.widths, m.layers[i]
	m.project(p, a, i, a.x.Range, a.qkv.Range, rows)
	attn := product{x: a.attn.Range, y: a.x.Range, res: a.x.Range, xStride: w.attn, yStride: w.x, epilogue: addRes, int8: a.int8, rows: rows}
	attended := a.attended(a.qkv.Range)
	attended.Whole = l.out.planes.run > 1 // which brings no parts together
	attn.parts = attend(p, i, rows, attended)
	l.out.multiply(e, p, step, attn)
	ffn := a.normed(p, a.x.Range, l.ffnNorm, rows, false)
	ffn.y, ffn.yStride, ffn.epilogue = a.ffn.Range, w.ffn, siluPair
	if len(l.gateUp) == 2 {
		ffn.epilogue = store
		l.gateUp[0].multiply(e, p, step, ffn)
		ffn.epilogue, ffn.res = siluMul, a.ffn.Range
	}
	l.gateUp[len(l.gateUp)-1].multiply(e, p, step, ffn)
	// A width that varies by layer leaves numbers of a wider layer behind: its weights there are zero, see planes.
	l.down.multiply(e, p, step, product{x: a.ffn.Range, y: a.x.Range, res: a.x.Range, xStride: w.ffn, yStride: w.x, epilogue: addRes, int8: a.int8, rows: rows})
	p.Cut()
}

// rotation is how queries and keys are turned: GGUF keeps pairs side by side.
func (m *llama) rotation(table *runtime.Tensor) h2o.Rotation {
	return h2o.Rotation{Dim: m.config.RopeDim, Table: table}
}

// logits records the final norm and the logits of up to outs wanted rows.
func (m *llama) logits(p *runtime.Program, a *activations, outs int) {
	head := a.normed(p, a.x.Range, m.norm, outs, true)
	head.y, head.yStride, head.epilogue = a.logits.Range, a.logitsStride, store
	m.head.multiply(m.engine, p, a.step, head)
}
