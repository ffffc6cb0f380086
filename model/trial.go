package model

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"vkdecode/h2o"
	"vkdecode/model/gguf"
	"vkdecode/runtime"
)

// Trials are what all ways to launch a product are tried on: matrices of random weights, as many as a model has of them up
// to mostTrial bytes, so that they come from where a model's come from; and what they are multiplied with.
type Trials struct {
	Product runtime.Product
	engine  *runtime.Engine
	kind    gguf.Type
	weight  weightType
	arena   *runtime.Arena
	memory  []planesMemory // one for each matrix

	control *runtime.Step
	step    *runtime.Tensor
	x, y    *runtime.Tensor // (chunk rows, stride) f32
	strides [2]int          // of x and y
	norm    *vector         // (columns)
	int8    *int8Rows       // scratch for x in int8, nil if it stays f32
	parts   *h2o.Parts      // the first row of x, as parts of attention; nil where the product takes none
	values  []float32       // of x
	rows    int             // of a chunk

	programs []*runtime.Program // of all trials
}

type planesMemory struct{ weights, scales *runtime.Tensor }

// Trial is one way.
type Trial struct {
	Launch        runtime.Launch
	decode, chunk *runtime.Program // of one row, of several: nil until they are measured
	trials        *Trials
}

const (
	mostTrial     = 128 << 20 // bytes, more than caches hold
	leastInTrial  = 16        // products in a submit, so that its own cost does not count
	chunksInTrial = 4         // of several rows
	chunkTiles    = 4         // of activation rows in a chunk
)

// NewTrials makes matrices for any of the launches.
func NewTrials(e *runtime.Engine, p runtime.Product, matrices int, launches []runtime.Launch) (*Trials, error) {
	t := &Trials{Product: p, engine: e, arena: &runtime.Arena{}, rows: chunkTiles * e.Tuning.Cols}
	if e.Tuning.Pairs > 0 {
		t.rows = e.Tuning.Many
	}
	for kind, w := range weightTypes {
		if w.name == p.Weight {
			t.kind, t.weight = kind, w
		}
	}
	if t.weight.name == "" || p.Rows <= 0 || p.Columns <= 0 || p.Columns%t.weight.columns != 0 && t.weight.scales != noScales {
		return nil, fmt.Errorf("model: no product %s", p)
	}
	var weights, scales int64
	columns := 0
	for _, l := range launches {
		m, err := t.matrix(l)
		if err != nil {
			return nil, err
		}
		w, s := t.bytes(m)
		weights, scales, columns = max(weights, w), max(scales, s), max(columns, m.paddedColumns())
	}
	for range max(1, min(matrices, int(mostTrial/(weights+scales)))) {
		one := planesMemory{weights: t.arena.Tensor("tune.weights", weights)}
		if scales > 0 {
			one.scales = t.arena.Tensor("tune.scales", scales)
		}
		t.memory = append(t.memory, one)
	}
	t.strides = [2]int{columns, p.Rows + 3&^3}
	t.step = t.arena.Tensor("tune.step", runtime.StepBytes)
	t.x, t.y = t.arena.Tensor("tune.x", int64(4*t.rows*t.strides[0])), t.arena.Tensor("tune.y", int64(4*t.rows*t.strides[1]))
	t.int8 = planInt8(t.arena, e.Tuning, t.rows, columns)
	t.norm = &vector{tensor: t.arena.Tensor("tune.norm", int64(4*columns))}
	var parts *runtime.Tensor
	if p.Input == runtime.Parts {
		const dim = 32
		heads := ceil(p.Columns, dim)
		t.parts = &h2o.Parts{Count: e.Tuning.Ranges, Heads: heads, Dim: dim, Pad: dim, All: heads}
		parts = t.arena.Tensor("tune.parts", int64(4*heads*t.parts.Head()))
	}
	if err := t.arena.Allocate(context.Background(), e.Device); err != nil {
		return nil, err
	}
	t.control = runtime.NewStep(e.Device, t.step)
	if t.parts != nil {
		t.parts.Range = parts.Range
	}
	if err := t.fill(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// matrix is one of the product's, laid out for a launch, without memory.
func (t *Trials) matrix(l runtime.Launch) (*Matrix, error) {
	m := &Matrix{name: "trial", product: t.Product, rows: t.Product.Rows, columns: t.Product.Columns, weight: t.weight}
	return m, m.lay(t.engine, &runtime.Arena{}, l)
}

// bytes are what its planes take, slices aligned.
func (t *Trials) bytes(m *Matrix) (weights, scales int64) {
	for _, s := range m.slices {
		weights += t.aligned(s.weights.Bytes)
		if s.scales != nil {
			scales += t.aligned(s.scales.Bytes)
		}
	}
	return weights, scales
}

// aligned rounds up to what bindings may begin at.
func (t *Trials) aligned(bytes int64) int64 {
	l := t.engine.Device.Info.Limits
	align := max(l.StorageAlign, l.TexelAlign, 16)
	return (bytes + align - 1) / align * align
}

// fill makes the weights and what they are multiplied with: x, and in every range of the parts the same.
func (t *Trials) fill() error {
	rnd := rand.New(rand.NewPCG(uint64(t.Product.Rows), uint64(t.Product.Columns)))
	weights, scales := noises[t.weight.name](uint32(math.Round(math.Log2(float64(t.Product.Columns)) / 2)))
	var random []runtime.Random
	for i, one := range t.memory {
		random = append(random, runtime.Random{Noise: weights, Seed: uint32(2 * i), Range: one.weights.Range, End: one.weights.Bytes / 16})
		if one.scales != nil {
			random = append(random, runtime.Random{Noise: scales, Seed: uint32(2*i + 1), Range: one.scales.Range, End: one.scales.Bytes / 16})
		}
	}
	if err := t.engine.Randomize(random...); err != nil {
		return err
	}
	t.values, t.norm.values = make([]float32, t.rows*t.strides[0]), make([]float32, t.strides[0])
	for i := range t.Product.Columns {
		t.norm.values[i] = 0.5 + rnd.Float32()
		for r := range t.rows {
			t.values[r*t.strides[0]+i] = float32(rnd.NormFloat64())
		}
	}
	if t.parts != nil {
		var parts []float32
		p := t.parts
		for head := range p.Heads {
			for range p.Count {
				parts = append(append(parts, t.values[head*p.Dim:(head+1)*p.Dim]...), 0, 1, 0, 0) // maximum 0, sum 1
			}
		}
		if err := writeFloats(t.engine.Device, &runtime.Tensor{Range: p.Range}, parts); err != nil {
			return err
		}
	}
	if err := writeFloats(t.engine.Device, t.norm.tensor, t.norm.values); err != nil {
		return err
	}
	return writeFloats(t.engine.Device, t.x, t.values)
}

// use is the product as a decode step has it, or a chunk.
func (t *Trials) use(rows int) product {
	u := product{x: t.x.Range, y: t.y.Range, xStride: t.strides[0], yStride: t.strides[1], epilogue: store, int8: t.int8, rows: rows}
	if rows == 1 {
		switch t.Product.Input {
		case runtime.Normed:
			u.norm, u.width, u.eps = t.norm, t.Product.Columns, trialEps
		case runtime.Parts:
			u.parts = t.parts
		}
	}
	return u
}

const trialEps = 1e-5

// Try compiles a way. It is no way if the device computes something else than the CPU, which the error then says.
func (t *Trials) Try(l runtime.Launch) (*Trial, error) {
	if t.Product.Input == runtime.Parts && l.Run != 1 {
		return nil, fmt.Errorf("model: %s: %s: parts are brought together only where one invocation has a row", t.Product, l)
	}
	one := &Trial{Launch: l, trials: t}
	var err error
	one.decode, err = t.program(l, 1, max(leastInTrial, len(t.memory)))
	return one, err
}

// program is so many of the product for so many rows, after a check of one.
func (t *Trials) program(l runtime.Launch, rows, count int) (*runtime.Program, error) {
	if err := t.check(l, rows); err != nil {
		return nil, err
	}
	p := t.engine.NewProgram("trial")
	t.programs = append(t.programs, p)
	for n := range count {
		m, err := t.matrix(l)
		if err != nil {
			return nil, err
		}
		memory, weights, scales := t.memory[n%len(t.memory)], int64(0), int64(0)
		for _, s := range m.slices {
			s.weights.Range = memory.weights.Slice(weights, s.weights.Bytes)
			weights += t.aligned(s.weights.Bytes)
			if s.scales != nil {
				s.scales.Range = memory.scales.Slice(scales, s.scales.Bytes)
				scales += t.aligned(s.scales.Bytes)
			}
		}
		m.multiply(t.engine, p, t.step, t.use(rows))
	}
	return p, p.Record(context.Background())
}

// Decode measures the product for one row, in microseconds.
func (o *Trial) Decode() (float64, error) {
	return o.trials.measure(o.decode, 1, max(leastInTrial, len(o.trials.memory)))
}

// Chunk measures it for several. Only ways that are quick for one row are compiled for that, and only then it shows whether
// they compute what the CPU does.
func (o *Trial) Chunk() (took float64, err error) {
	t := o.trials
	if o.chunk == nil {
		if o.chunk, err = t.program(o.Launch, t.rows, chunksInTrial); err != nil {
			return 0, err
		}
	}
	return t.measure(o.chunk, t.rows, chunksInTrial)
}

// measure runs a program of so many products.
func (t *Trials) measure(p *runtime.Program, rows, count int) (float64, error) {
	if err := t.setRows(rows); err != nil {
		return 0, err
	}
	commands, err := p.Commands()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	pending, err := t.engine.Device.Submit(commands...)
	if err == nil {
		err = pending.Wait(runtime.Patience)
	}
	return float64(time.Since(begin).Nanoseconds()) / 1e3 / float64(count), err
}

func (t *Trials) setRows(n int) error {
	return t.control.Write(make([]runtime.Row, n), nil, 0)
}

// Close frees the memory and every trial.
func (t *Trials) Close() {
	for _, p := range t.programs {
		p.Free()
	}
	t.arena.Free()
}
