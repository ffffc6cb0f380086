package tests

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/vk"
)

// bench runs kernels on a device, each pipeline made once.
type bench struct {
	device    *vk.Device
	pipelines map[string]*vk.Pipeline
	modules   map[string]bool // that ran
}

// launch is a form of the kernels with a workgroup size that it allows, in invocations.
type launch struct {
	form  shaders.Form
	lanes int
	info  vk.DeviceInfo
	many  bool // buffers may have a million elements: lavapipe, and most GPUs
}

func (l launch) String() string { return fmt.Sprintf("%s%d", l.form, l.lanes) }

// launches are the forms that a device can run.
func (b *bench) launches() []launch {
	info, gpu := b.device.Info, b.device.Info
	gpu.Kind = "discrete" // workgroups of several subgroups: shared memory is for them
	all := []launch{{form: shaders.Shared, lanes: 32, info: gpu}, {form: shaders.Shared, lanes: 64, info: gpu}}
	if f := info.Features; f.SubgroupArithmetic && f.SubgroupShuffle {
		subgroup := int(info.Limits.SubgroupSize)
		all = append(all, launch{form: shaders.Storage, lanes: subgroup, info: info}, launch{shaders.Texel, subgroup, info, info.Limits.MaxTexelElements >= 1<<20})
	}
	return all
}

func (b *bench) close() {
	for _, p := range b.pipelines {
		p.Free()
	}
}

func (b *bench) pipeline(c shaders.Call) (*vk.Pipeline, error) {
	key := fmt.Sprint(c.Module.Name, c.Constants)
	if b.pipelines[key] == nil {
		p, err := b.device.NewPipeline(c.Module, c.Constants)
		if err != nil {
			return nil, err
		}
		b.pipelines[key] = p
	}
	b.modules[c.Module.Name] = true
	return b.pipelines[key], nil
}

// rig is one run of kernels with buffers of its own. It keeps the first error.
type rig struct {
	*bench
	launch
	step    *tensor
	tensors []*tensor
	ops     []vk.Op
	err     error
}

// tensor is a buffer with a guard on both sides.
type tensor struct {
	vk.Range // what kernels bind: the data and the guard behind it, so that the driver does not drop a write past the end
	data     vk.Range
	name     string
	image    []byte // the whole buffer before the run
}

const (
	guard = 256        // bytes, a multiple of every driver's alignment of offsets
	blank = 0x7FC5A5A5 // fills guards and outputs: not a number, so that a kernel that reads it shows
)

// blankFloat is blank as a float.
var blankFloat = math.Float32frombits(blank)

// rig begins a run over the rows of a step, of which outs have their logits wanted.
func (b *bench) rig(l launch, rows []runtime.Row, outs ...int) *rig {
	r := &rig{bench: b, launch: l}
	r.step = r.tensor("step", make([]byte, runtime.StepBytes))
	if r.err == nil {
		r.err = runtime.NewStep(b.device, &runtime.Tensor{Range: r.step.data}).Write(rows, outs, 0)
	}
	r.step.image = r.read(r.step.Buffer.All())
	return r
}

// in makes a tensor of values.
func in[T uint32 | float32 | [2]float32](r *rig, name string, values []T) *tensor {
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, values)
	return r.tensor(name, b.Bytes())
}

// out makes a blank tensor of so many 32-bit words.
func (r *rig) out(name string, words int) *tensor {
	return in(r, name, slices.Repeat([]uint32{blank}, words))
}

func (r *rig) tensor(name string, data []byte) *tensor {
	t := &tensor{name: name}
	fence := bytes.Repeat(binary.LittleEndian.AppendUint32(nil, blank), guard/4)
	t.image = slices.Concat(fence, data, fence)
	buffer, err := r.device.NewBuffer(name, int64(len(t.image)), vk.Local)
	if err != nil {
		r.err = errors.Join(r.err, err)
		return t
	}
	t.data = buffer.All().Slice(guard, int64(len(data)))
	t.Range = buffer.All().Slice(guard, int64(len(data)+guard))
	r.tensors = append(r.tensors, t)
	r.write(t)
	return t
}

// patch sets a word of a tensor before the run.
func (r *rig) patch(t *tensor, word int, value uint32) {
	binary.LittleEndian.PutUint32(t.image[guard+4*word:], value)
	r.write(t)
}

func (r *rig) write(t *tensor) {
	if r.err == nil {
		r.err = r.device.Write(t.Buffer.All(), t.image)
	}
}

// add appends a dispatch, which sees what those before it wrote.
func (r *rig) add(k shaders.Kernel, weight, cache string, x, y, z int) {
	c, err := k.Call(shaders.Variant{Form: r.form, Weight: weight, Cache: cache})
	if err == nil {
		var p *vk.Pipeline
		if p, err = r.pipeline(c); err == nil {
			r.ops = append(r.ops, vk.Op{Kind: vk.Barrier}, vk.Op{Kind: vk.Dispatch, Pipeline: p, Push: c.Push, Bindings: c.Bindings, X: uint32(x), Y: uint32(y), Z: uint32(z)})
		}
	}
	r.err = errors.Join(r.err, err)
}

const doneWord = 2 // of the step

// run runs the dispatches: first with the step marked as done, when they must change nothing; then for real, when they
// must leave the guards alone.
func (r *rig) run() error {
	r.patch(r.step, doneWord, 1)
	r.submit()
	for _, t := range r.tensors {
		if r.err == nil && !bytes.Equal(r.read(t.Buffer.All()), t.image) {
			r.err = fmt.Errorf("%s: written by a step that is done", t.name)
		}
	}
	r.patch(r.step, doneWord, 0)
	return r.runOnce()
}

// runOnce is run for kernels that know no step.
func (r *rig) runOnce() error {
	r.submit()
	for _, t := range r.tensors {
		now := r.read(t.Buffer.All())
		if r.err == nil && (!bytes.Equal(now[:guard], t.image[:guard]) || !bytes.Equal(now[len(now)-guard:], t.image[len(now)-guard:])) {
			r.err = fmt.Errorf("%s: written outside its range", t.name)
		}
	}
	return r.err
}

func (r *rig) submit() {
	if r.err == nil {
		r.err = r.device.Run(append(r.ops, vk.Op{Kind: vk.Barrier})...)
	}
}

func (r *rig) read(from vk.Range) []byte {
	if r.err != nil {
		return nil
	}
	data := make([]byte, from.Size)
	r.err = r.device.Read(data, from)
	return data
}

func (r *rig) words(t *tensor) []uint32 {
	data := r.read(t.data)
	words := make([]uint32, len(data)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	return words
}

func (r *rig) floats(t *tensor) []float32 {
	words := r.words(t)
	values := make([]float32, len(words))
	for i, w := range words {
		values[i] = math.Float32frombits(w)
	}
	return values
}

// free gives the buffers back; every run ends with it.
func (r *rig) free() {
	for _, t := range r.tensors {
		t.Buffer.Free()
	}
}
