package model

import (
	"context"
	"fmt"
	"math"

	"vkdecode/runtime"
)

// noises says, by weight type, what the words of the two planes look like in a matrix whose weights are about 2^-e: quants
// of all values, and scales and unquantised weights whose exponents are fixed, so that every number is one. A weight type
// without scales has no second one.
var noises = map[string]func(e uint32) (weights, scales runtime.Noise){
	"f32": func(e uint32) (w, s runtime.Noise) { return runtime.Noise{Mask: 0x807FFFFF, Value: (126 - e) << 23}, s },
	"f16": func(e uint32) (w, s runtime.Noise) {
		return runtime.Noise{Mask: 0x83FF83FF, Value: (14 - e) << 10 * 0x10001}, s
	},
	"bf16": func(e uint32) (w, s runtime.Noise) {
		return runtime.Noise{Mask: 0x807F807F, Value: (126 - e) << 7 * 0x10001}, s
	},
	"q8_0": func(e uint32) (w, s runtime.Noise) { return anyBits, scale(120 - e) },
	"q4_0": func(e uint32) (w, s runtime.Noise) { return anyBits, scale(124 - e) },
	"q4_1": func(e uint32) (w, s runtime.Noise) { // the minimum lies as far below zero as the largest quant above
		return anyBits, runtime.Noise{Mask: 0x03FF03FF, Value: (12-e)<<10 | (1<<15|(15-e)<<10)<<16}
	},
	"q5_0": func(e uint32) (w, s runtime.Noise) { return anyBits, scale(123 - e) },
	"q5_1": func(e uint32) (w, s runtime.Noise) {
		return anyBits, runtime.Noise{Mask: 0x03FF03FF, Value: (11-e)<<10 | (1<<15|(15-e)<<10)<<16}
	},
	"iq4_nl": func(e uint32) (w, s runtime.Noise) { return anyBits, scale(120 - e) },
	"mxfp4":  func(e uint32) (w, s runtime.Noise) { return anyBits, scale(124 - e) },
	"q2_k":   func(e uint32) (w, s runtime.Noise) { return anyBits, record16(e + 4) },
	"q3_k":   func(e uint32) (w, s runtime.Noise) { return anyBits, record16(e + 5) },
	"q4_k":   func(e uint32) (w, s runtime.Noise) { return anyBits, record16(e + 7) },
	"q5_k":   func(e uint32) (w, s runtime.Noise) { return anyBits, record16(e + 8) },
	"q6_k":   func(e uint32) (w, s runtime.Noise) { return anyBits, record16(e + 8) },
}

var anyBits = runtime.Noise{Mask: math.MaxUint32}

// scale is an f32 of one binade, from 2^(exponent-127) on.
func scale(exponent uint32) runtime.Noise {
	return runtime.Noise{Mask: 1<<23 - 1, Value: exponent << 23}
}

// record16 is for records of super-blocks, whose words are two f16 in one place and the bytes of scales in the others. As
// f16 it is about 2^-e, as a byte at most 31, or what an exponent of f16 looks like.
func record16(e uint32) runtime.Noise {
	exponent := 15 - min(e, 14) // not subnormal
	return runtime.Noise{Mask: 0x001F001F, Value: exponent << 10 * 0x10001}
}

// Synthetic is a model of random weights that is planned and takes no memory yet.
type Synthetic struct {
	*Config
	model   *Model
	weights *weights
}

// NewSynthetic plans a model of a shape: it computes as much as a real one and reads as many bytes, and knows nothing. Its
// weights are made on the device, and are of a size with which activations neither vanish nor overflow: a product of x with
// a matrix of n columns is about as large as x where weights are about 1 / sqrt(n).
func NewSynthetic(e *runtime.Engine, shape Shape) (*Synthetic, error) {
	f, err := shape.Outline()
	if err != nil {
		return nil, err
	}
	s := &Synthetic{}
	if s.model, s.weights, err = planModel(e, f); err != nil {
		return nil, err
	}
	s.Config = s.model.Config
	return s, nil
}

// Bytes is the memory that the weights will take.
func (s *Synthetic) Bytes() int64 { return s.model.Bytes() }

// OwnBytes is what of that will be the device's own.
func (s *Synthetic) OwnBytes() int64 { return s.model.OwnBytes() }

// Build makes the model. progress, if not nil, is called with the bytes done and the total; an error from it ends the
// building.
func (s *Synthetic) Build(progress func(done, total int64) error) (*Model, error) {
	m := s.model
	if err := m.arena.Allocate(context.Background(), m.engine.Device); err != nil {
		return nil, err
	}
	if err := s.weights.randomize(progress); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// randomize is load for matrices without data.
func (w *weights) randomize(progress func(done, total int64) error) error {
	done, total := int64(0), w.arena.Bytes("")
	for i, m := range w.matrices {
		if err := m.randomize(w.engine, uint32(i)); err != nil {
			return err
		}
		for _, s := range m.slices {
			if done += s.weights.Bytes; s.scales != nil {
				done += s.scales.Bytes
			}
		}
		if progress != nil {
			if err := progress(done, total); err != nil {
				return err
			}
		}
	}
	return w.writeVectors()
}

// randomize makes the weights of one matrix.
func (m *Matrix) randomize(e *runtime.Engine, number uint32) error {
	noise, ok := noises[m.weight.name]
	if !ok {
		return fmt.Errorf("model: %s: no random weights of type %s; add a row to model.noises", m.name, m.weight.name)
	}
	weights, scales := noise(uint32(math.Round(math.Log2(float64(m.columns)) / 2)))
	p := m.planes
	var all []runtime.Random
	for i, s := range m.slices {
		seed := number<<16 | uint32(2*i) // no other plane's
		planes := runtime.Planes{Lanes: p.lanes, Run: p.run, Stride: p.rows * p.words * p.lanes / 4, Steps: p.steps, Blocks: ceil(m.columns, blockColumns)}
		all = append(all, runtime.Random{Noise: weights, Seed: seed, Range: s.weights.Range, End: s.weights.Bytes / 16, Planes: planes})
		if s.scales != nil {
			if planes.Stride = p.rows / 4 * p.lanes; p.scales == perSuper { // of blocks past the columns the weights will do
				planes = runtime.Planes{}
			}
			all = append(all, runtime.Random{Noise: scales, Seed: seed + 1, Range: s.scales.Range, End: s.scales.Bytes / 16, Planes: planes})
		}
	}
	return e.Randomize(all...)
}
