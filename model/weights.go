package model

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"

	"vkdecode/model/gguf"
	"vkdecode/runtime"
	"vkdecode/vk"
)

// weights plans a model's tensors on the device. It keeps the first error, so that an architecture reads as a list.
type weights struct {
	engine   *runtime.Engine
	arena    *runtime.Arena
	file     *gguf.File
	matrices []*Matrix
	vectors  []*vector
	layer    int   // of the matrices that are planned next, -1 for none
	beside   []int // rows of the matrices that they are multiplied beside, one after the other in one kernel; nil for none
	err      error
}

// place chooses the layers whose matrices lie in the device's own memory, the first ones, and puts the others' into the
// host's, where the device reads them over the bus. It tells how many of the layers are the device's own.
func (w *weights) place(layers int) (own int) {
	bytes, sum := make([]int64, layers), w.arena.Bytes("")
	for _, m := range w.matrices {
		if m.layer >= 0 {
			bytes[m.layer] += m.bytes()
		}
	}
	own = min(w.engine.OwnLayers, layers)
	if room, limited := w.engine.ForWeights(); own < 0 {
		for own = layers; own > 0 && limited && sum > room; own-- {
			sum -= bytes[own-1]
		}
	}
	for _, m := range w.matrices {
		for _, s := range m.slices {
			if m.layer < own {
				continue
			}
			s.weights.Use = vk.Upload
			if s.scales != nil {
				s.scales.Use = vk.Upload
			}
		}
	}
	return own
}

// load writes all planned tensors; progress, if not nil, is called with bytes of the file done and their total
// and may end the load.
func (w *weights) load(progress func(done, total int64) error) error {
	var total int64
	for _, m := range w.matrices {
		for _, p := range m.parts {
			total += int64(len(p.Data))
		}
	}
	var done atomic.Int64
	for _, m := range w.matrices {
		err := m.load(w.engine.Device, func(n int64) error {
			sum := done.Add(n)
			if progress == nil {
				return nil
			}
			return progress(sum, total)
		})
		if err != nil {
			return err
		}
	}
	return w.writeVectors()
}

func (w *weights) writeVectors() error {
	for _, v := range w.vectors {
		if err := writeFloats(w.engine.Device, v.tensor, v.values); err != nil {
			return err
		}
	}
	return nil
}

// vector is a small tensor held as f32: a norm's weights or a bias.
type vector struct {
	values []float32
	tensor *runtime.Tensor
}

func (w *weights) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("model: "+format, args...)
	}
}

func (w *weights) has(name string) bool {
	_, ok := w.file.Tensor(name)
	return ok
}

// tensor finds a tensor of the given shape; rows < 0 accepts any number.
func (w *weights) tensor(name string, columns, rows int) *gguf.Tensor {
	t, ok := w.file.Tensor(name)
	switch {
	case !ok:
		w.fail("tensor %q is missing", name)
		return nil
	case t.Columns() != int64(columns) || rows >= 0 && t.Rows() != int64(rows):
		want := fmt.Sprintf("[%d %d]", columns, rows)
		if rows < 0 {
			want = fmt.Sprintf("[%d any]", columns)
		}
		w.fail("tensor %q: shape %v, want %s", name, t.Shape, want)
		return nil
	case t.Rows() > math.MaxInt32:
		w.fail("tensor %q: %d rows are too many", name, t.Rows())
		return nil
	}
	return t
}

// matrix plans one matrix of tensors under each other, with their biases where the file has any.
func (w *weights) matrix(name string, input runtime.Input, parts ...*gguf.Tensor) *Matrix {
	return w.plan(name, input, false, parts...)
}

func (w *weights) plan(name string, input runtime.Input, pair bool, parts ...*gguf.Tensor) *Matrix {
	if w.err != nil {
		return nil
	}
	m, err := newMatrix(w.engine, w.arena, name, input, pair, w.beside, parts...)
	if err != nil {
		w.err = err
		return nil
	}
	m.layer = w.layer
	biased := false
	for _, p := range parts {
		values := make([]float32, p.Rows())
		if bias := biasName(p.Name); w.has(bias) {
			biased = true
			values = w.floats(bias, int(p.Rows()))
		}
		m.biasValues = append(m.biasValues, values...)
	}
	if biased {
		m.bias = w.arena.Tensor("weights."+name+".bias", int64(4*m.rows))
	}
	w.matrices = append(w.matrices, m)
	return m
}

func biasName(weight string) string { return weight[:len(weight)-len("weight")] + "bias" }

// fused plans tensors under each other as one matrix, or one each where their types differ.
func (w *weights) fused(name string, input runtime.Input, parts ...*gguf.Tensor) []*Matrix {
	if w.err != nil || sameType(parts) {
		return []*Matrix{w.matrix(name, input, parts...)}
	}
	var all []*Matrix
	for i, p := range parts {
		all = append(all, w.matrix(fmt.Sprintf("%s.%d", name, i), input, p))
	}
	return all
}

// paired plans gate and up as one interleaved matrix; where their types differ as two, up first.
func (w *weights) paired(name string, input runtime.Input, gate, up *gguf.Tensor) []*Matrix {
	if w.err != nil || gate.Type == up.Type {
		return []*Matrix{w.plan(name, input, true, gate, up)}
	}
	return []*Matrix{w.matrix(name+".up", input, up), w.matrix(name+".gate", input, gate)}
}

func sameType(parts []*gguf.Tensor) bool {
	for _, p := range parts {
		if p.Type != parts[0].Type {
			return false
		}
	}
	return true
}

// floats reads a tensor of one row as f32.
func (w *weights) floats(name string, columns int) []float32 {
	t := w.tensor(name, columns, 1)
	if w.err != nil {
		return nil
	}
	if t.Type != gguf.F32 && t.Type != gguf.F16 && t.Type != gguf.BF16 {
		w.fail("tensor %q: type %s, want F32, F16 or BF16", name, t.Type)
		return nil
	}
	values := make([]float32, columns)
	if err := gguf.Dequantize(t.Type, t.Data, values); err != nil {
		w.fail("tensor %q: %v", name, err)
	}
	return values
}

// vector plans a norm's weights, padded with zeros like the rows they multiply.
func (w *weights) vector(name string, columns int) *vector {
	values := w.floats(name, columns)
	if w.err != nil {
		return nil
	}
	padding := max(blockColumns*w.engine.MostRun(), rowMultiple)
	v := &vector{values, w.arena.Tensor("weights."+name, int64(4*ceil(columns, padding)*padding))}
	w.vectors = append(w.vectors, v)
	return v
}

// writeFloats writes the beginning of a tensor.
func writeFloats(d *vk.Device, t *runtime.Tensor, values []float32) error {
	b := make([]byte, 0, 4*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return d.Write(t.Slice(0, int64(len(b))), b)
}
