package model

import (
	"fmt"
	"slices"

	"vkdecode/h2o"
	"vkdecode/runtime"
)

// llama is the architecture of Llama and its kin: RMS norms, rotary positions, grouped queries, a gated feed-forward
// part with SiLU. GGUF files keep its Q and K rows permuted so that rotary pairs are neighbours. Biases are used where
// the file has them.
type llama struct {
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
	m := &llama{config: c}
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

// embedding records s.x = the embeddings of up to rows rows.
func (m *llama) embedding(p *runtime.Program, s *Session, rows int) {
	m.embed.gather(s.model.engine, p, s.step, s.x.Range, s.widths.x, rows)
}

// layer records layer i for up to rows rows of s.x. attend records its attention.
func (m *llama) layer(p *runtime.Program, s *Session, i, rows int, attend attention) {
	e, step, w, l := s.model.engine, s.step, s.widths, m.layers[i]
	qkv := s.normed(p, l.attnNorm, rows, false)
	qkv.y, qkv.yStride, qkv.epilogue = s.qkv.Range, w.qkv, store
	for _, part := range l.qkv {
		part.multiply(e, p, step, qkv)
		qkv.yOffset += part.rows
	}
	attn := product{x: s.attn.Range, y: s.x.Range, res: s.x.Range, xStride: w.attn, yStride: w.x, epilogue: addRes, rows: rows}
	parts := attend(p, i, rows, h2o.Activations{X: s.qkv.Range, Y: s.attn.Range, XStride: w.qkv, YStride: w.attn, Rotation: m.rotation(s)})
	if parts != nil && e.Tuning.MergesParts() && l.out.planes.run == 1 {
		attn.parts = parts
	} else if parts != nil {
		s.cache.Merge(p, step, parts, rows, s.attn.Range, w.attn)
	}
	l.out.multiply(e, p, step, attn)
	ffn := s.normed(p, l.ffnNorm, rows, false)
	ffn.y, ffn.yStride, ffn.epilogue = s.ffn.Range, w.ffn, siluPair
	if len(l.gateUp) == 2 {
		ffn.epilogue = store
		l.gateUp[0].multiply(e, p, step, ffn)
		ffn.epilogue, ffn.res = siluMul, s.ffn.Range
	}
	l.gateUp[len(l.gateUp)-1].multiply(e, p, step, ffn)
	// A width that varies by layer leaves numbers of a wider layer behind: its weights there are zero, see planes.
	l.down.multiply(e, p, step, product{x: s.ffn.Range, y: s.x.Range, res: s.x.Range, xStride: w.ffn, yStride: w.x, epilogue: addRes, rows: rows})
	p.Cut()
}

// rotation is how queries and keys are turned: GGUF keeps pairs side by side.
func (m *llama) rotation(s *Session) h2o.Rotation {
	return h2o.Rotation{Dim: m.config.RopeDim, Table: s.rope}
}

// logits records the final norm and the logits of up to outs wanted rows.
func (m *llama) logits(p *runtime.Program, s *Session, outs int) {
	head := s.normed(p, m.norm, outs, true)
	head.y, head.yStride, head.epilogue = s.logits.Range, s.logitsStride, store
	m.head.multiply(s.model.engine, p, s.step, head)
}
