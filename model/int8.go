package model

import (
	"slices"

	"vkdecode/runtime"
	"vkdecode/shaders"
)

// int8Rows is scratch for the activations of a product in int8.
type int8Rows struct {
	q *runtime.Tensor // (pairs of rows, columns) two rows' int8 to a word
	d *runtime.Tensor // (pairs of rows, blocks of 32 columns, 2) f32 what they are multiplied by
}

// planInt8 plans scratch for so many rows, nil where the tuning keeps activations in f32.
func planInt8(a *runtime.Arena, t runtime.Tuning, rows, columns int) *int8Rows {
	if t.Pairs == 0 {
		return nil
	}
	words := int64(ceil(rows, 2) * columns)
	return &int8Rows{a.Tensor("scratch.int8", 4*words), a.Tensor("scratch.int8.scales", 8*words/blockColumns)}
}

// knowsInt8 tells whether there is a kernel for the matrix that is quicker than with activations in f32: where loops are
// not unrolled by the driver only if they are in the module.
func (m *Matrix) knowsInt8(v shaders.Variant, t runtime.Tuning) bool {
	if !slices.Contains(shaders.MatmulInt8Weights, m.weight.name) || m.planes.run != 1 {
		return false
	}
	c, err := shaders.MatmulInt8{Rows: uint32(m.planes.rows), Pairs: uint32(t.Pairs)}.Call(v)
	return err == nil && (c.Unrolled || v.Form == shaders.Texel)
}

// precision is that of the tuning if any matrix is multiplied in it.
func (w *weights) precision() string {
	t := w.engine.Tuning
	if p := t.Precision(); p != runtime.Int8 || slices.ContainsFunc(w.matrices, func(m *Matrix) bool { return m.knowsInt8(w.engine.Variant(m.weight.name, ""), t) }) {
		return p
	}
	return runtime.F32
}

// quantize records x of a product in int8.
func (r *int8Rows) quantize(e *runtime.Engine, p *runtime.Program, k shaders.Matmul, rows int) {
	p.Dispatch(shaders.Quantize{Lanes: uint32(e.Tuning.Lanes), Outs: k.Outs, Blocks: k.Steps, XStride: k.XStride, Step: k.Step, X: k.X, Q: r.q.Range, D: r.d.Range},
		e.Variant("", ""), ceil(int(k.Steps), e.Tuning.Lanes), ceil(rows, 2), 1)
}

// of is the product k of activations in int8.
func (r *int8Rows) of(k shaders.Matmul, pairs int) shaders.MatmulInt8 {
	return shaders.MatmulInt8{Lanes: k.Lanes, Rows: k.Rows, Pairs: uint32(pairs), Epilogue: k.Epilogue, Biased: k.Biased, Outs: k.Outs,
		Blocks: k.Steps, First: k.First, Count: k.Count, YStride: k.YStride, YOffset: k.YOffset,
		Step: k.Step, W: k.W, S: k.S, Q: r.q.Range, D: r.d.Range, Bias: k.Bias, Res: k.Res, Y: k.Y}
}
