package model

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"vkdecode/model/gguf"
	"vkdecode/runtime"
)

// NMSE of a product that is tried, at most: the bound of doctor's logits, and where activations are int8 that of their
// rounding, each by up to 1/254 of the largest of its 32.
const (
	trialError = 1e-9
	Int8Error  = 1e-4
)

// TryInt8 is the NMSE of a product of activations in int8.
func TryInt8(e *runtime.Engine) (nmse float64, err error) {
	p := runtime.Product{Weight: "q4_1", Rows: 72, Columns: 320, Input: runtime.Plain}
	l := e.Launch(p)
	t, err := NewTrials(e, p, 1, []runtime.Launch{l})
	if err != nil {
		return 0, err
	}
	defer t.Close()
	return t.nmse(l, t.rows)
}

// check tells whether a product is what the CPU computes.
func (t *Trials) check(l runtime.Launch, rows int) error {
	nmse, err := t.nmse(l, rows)
	if err != nil {
		return err
	}
	most := trialError
	if t.int8 != nil && rows >= t.engine.Tuning.Many {
		most = Int8Error
	}
	if !(nmse <= most) {
		return fmt.Errorf("model: %s: %s, %d rows: NMSE %.3g, %.3g at most", t.Product, l, rows, nmse, most)
	}
	return nil
}

// nmse multiplies with weights that the CPU knows, a group of rows and one more, and compares.
func (t *Trials) nmse(l runtime.Launch, rows int) (float64, error) {
	m, err := t.matrix(l)
	if err != nil {
		return 0, err
	}
	m.rows = min(t.Product.Rows, m.planes.groupRows()+1)
	tensor, weights, err := t.known(m.rows)
	if err != nil {
		return 0, err
	}
	m.parts, m.slices = []*gguf.Tensor{tensor}, nil
	a := &runtime.Arena{}
	if err := m.lay(t.engine, a, l); err != nil {
		return 0, err
	}
	if err := a.Allocate(context.Background(), t.engine.Device); err != nil {
		return 0, err
	}
	defer a.Free()
	if err := m.load(t.engine.Device, func(int64) error { return nil }); err != nil {
		return 0, err
	}
	return t.nmseOf(m, weights, rows)
}

// nmseOf compares the product for so many rows of x.
func (t *Trials) nmseOf(m *Matrix, weights []float32, rows int) (float64, error) {
	p := t.engine.NewProgram("check")
	defer p.Free()
	m.multiply(t.engine, p, t.step, t.use(rows))
	if err := t.setRows(rows); err != nil {
		return 0, err
	}
	if err := t.engine.RunOnce(p); err != nil {
		return 0, err
	}
	got := make([]byte, 4*rows*t.strides[1])
	if err := t.engine.Device.Read(got, t.y.Slice(0, int64(len(got)))); err != nil {
		return 0, err
	}
	wrong, all := 0.0, 0.0
	for r := range rows {
		x := t.values[r*t.strides[0]:][:m.columns]
		scale := func(int) float64 { return 1 }
		if rows == 1 && t.Product.Input == runtime.Normed {
			squares := 0.0
			for _, v := range x {
				squares += float64(v) * float64(v)
			}
			norm := 1 / math.Sqrt(squares/float64(m.columns)+trialEps)
			scale = func(i int) float64 { return norm * float64(t.norm.values[i]) }
		}
		for o := range m.rows {
			want := 0.0
			for i, v := range x {
				want += float64(weights[o*m.columns+i]) * float64(v) * scale(i)
			}
			y := float64(math.Float32frombits(binary.LittleEndian.Uint32(got[4*(r*t.strides[1]+o):])))
			wrong, all = wrong+(y-want)*(y-want), all+want*want
		}
	}
	return wrong / all, nil
}

// known are rows of weights in the file's form, and what they stand for.
func (t *Trials) known(rows int) (*gguf.Tensor, []float32, error) {
	columns := t.Product.Columns
	tensor := &gguf.Tensor{Name: "trial", Shape: []int64{int64(columns), int64(rows)}, Type: t.kind}
	rnd, values := rand.New(rand.NewPCG(1, uint64(columns))), make([]float32, rows*columns)
	width := min(columns, t.weight.columns)
	for at := 0; at < len(values); {
		n := min(width, columns-at%columns)
		block := t.block(rnd, n)
		if err := gguf.Dequantize(t.kind, block, values[at:at+n]); err != nil {
			return nil, nil, err
		}
		if sane(values[at : at+n]) {
			tensor.Data = append(tensor.Data, block...)
			at += n
		}
	}
	return tensor, values, nil
}

// block is one of so many columns, of random bits in types with scales.
func (t *Trials) block(rnd *rand.Rand, columns int) (b []byte) {
	if t.weight.scales != noScales {
		for range t.weight.bytes {
			b = append(b, byte(rnd.Uint32()))
		}
		return b
	}
	for range columns {
		switch t.kind {
		case gguf.F32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(rnd.NormFloat64())))
		case gguf.BF16:
			b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(float32(rnd.NormFloat64()))>>16))
		default: // f16: of any sign, 2^-3 to 2^3
			b = binary.LittleEndian.AppendUint16(b, uint16(rnd.IntN(2)<<15|(12+rnd.IntN(6))<<10|rnd.IntN(1<<10)))
		}
	}
	return b
}

// sane tells whether the largest of some weights is of a size that models have, or ten times more or less.
func sane(values []float32) bool {
	largest := 0.0
	for _, v := range values {
		largest = max(largest, math.Abs(float64(v)))
	}
	return largest > 1e-3 && largest < 1e2 // false for NaN
}
