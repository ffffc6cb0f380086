package model

import (
	"encoding/binary"
	"math"
	"slices"

	"vkdecode/h2o"
	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/vk"
)

// activations are what flows through the layers in a step: one row for each of its rows.
type activations struct {
	model  *Model
	widths widths
	step   *runtime.Tensor // which rows there are
	rope   *runtime.Tensor // (positions, RopeDim / 2) cos, sin; nil where every row has one of its own

	x, xn, qkv, attn, ffn, logits *runtime.Tensor // (rows, widths) f32
	logitsStride                  int
	int8                          *int8Rows // of the product that runs, nil if activations stay f32
	chains                        *chains   // nil if the products of one row are dispatched one by one
	bytes                         []byte    // of one row of logits, on its way to the host
}

// widths are the row sizes, in elements, of activations.
type widths struct{ x, qkv, attn, ffn int }

// planActivations names the tensors for so many rows, and logits of so many of them. Rows are padded to whole tiles of
// columns, which products read.
func (m *Model) planActivations(arena *runtime.Arena, w widths, rows, outs int) activations {
	tile := m.engine.Tuning.Cols
	rows = ceil(rows, tile) * tile
	floats := func(name string, width int) *runtime.Tensor {
		return arena.Tensor("scratch."+name, int64(4*rows*width))
	}
	a := activations{model: m, widths: w, logitsStride: aligned(m.Vocab, rowMultiple), step: arena.Tensor("step.step", runtime.StepBytes)}
	a.x, a.xn, a.qkv, a.attn, a.ffn = floats("x", w.x), floats("xn", w.x), floats("qkv", w.qkv), floats("attn", w.attn), floats("ffn", w.ffn)
	a.int8 = planInt8(arena, m.engine.Tuning, rows, max(w.x, w.attn, w.ffn))
	a.logits = arena.Tensor("scratch.logits", int64(4*outs*a.logitsStride))
	return a
}

// rowMultiple is what the elements of a row are a multiple of where rows are bound by themselves: 256 bytes, the most that
// devices ask of an offset.
const rowMultiple = 64

// apart are widths of rows that can be bound by themselves.
func (w widths) apart() widths {
	return widths{aligned(w.x, rowMultiple), aligned(w.qkv, rowMultiple), aligned(w.attn, rowMultiple), aligned(w.ffn, rowMultiple)}
}

// aligned is n, or the next number that is a multiple.
func aligned(n, multiple int) int { return ceil(n, multiple) * multiple }

// rowOf is one row of a tensor of f32.
func rowOf(t *runtime.Tensor, i, width int) vk.Range {
	return t.Slice(int64(4*i*width), int64(4*width))
}

// body is the program of a whole step of up to so many rows.
func (a *activations) body(name string, rows int, attend attention) *runtime.Program {
	p := a.model.engine.NewProgram(name)
	p.Long = rows > 1
	if rows == 1 && a.chains != nil {
		a.linked(p, attend)
		return p
	}
	a.model.arch.embedding(p, a, a.step, a.x.Range, rows)
	for i := range a.model.Layers {
		a.model.arch.layer(p, a, i, rows, attend)
	}
	return p
}

// attended is what attention reads and writes.
func (a *activations) attended(qkv vk.Range) h2o.Activations {
	return h2o.Activations{X: qkv, Y: a.attn.Range, XStride: a.widths.qkv, YStride: a.widths.attn, Rotation: a.model.arch.rotation(a.rope)}
}

// normed begins a product of norm(x) * w, for the rows of the step or for those whose logits are wanted. One row is
// normed by the product itself: every workgroup sums its squares again, which costs less than a dispatch does. Of several
// rows the norms are recorded here.
func (a *activations) normed(p *runtime.Program, x vk.Range, w *vector, rows int, wanted bool) product {
	u := product{x: x, xStride: a.widths.x, int8: a.int8, rows: rows, outs: wanted}
	if rows == 1 {
		u.norm, u.width, u.eps = w, a.model.Width, a.model.Eps
		return u
	}
	e := a.model.engine
	k := shaders.RmsNorm{Lanes: uint32(e.Tuning.Lanes), Width: uint32(a.model.Width), Quads: uint32(a.widths.x / 4), Eps: a.model.Eps,
		Step: a.step.Range, X: x, W: w.tensor.Range, Y: a.xn.Range}
	if wanted {
		k.Gather = 1
	}
	p.Dispatch(k, e.Variant("", ""), 1, rows, 1)
	u.x = a.xn.Range
	return u
}

// readLogits appends a row of logits (vocab).
func (a *activations) readLogits(to []float32, i int) ([]float32, error) {
	if a.bytes == nil {
		a.bytes = make([]byte, 4*a.model.Vocab)
	}
	b := a.bytes
	if err := a.model.engine.Device.Read(b, a.logits.Slice(int64(4*i*a.logitsStride), int64(len(b)))); err != nil {
		return nil, err
	}
	to = slices.Grow(to, a.model.Vocab)
	for i := range a.model.Vocab {
		to = append(to, math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
	}
	return to, nil
}
