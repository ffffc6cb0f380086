package vk

// #include "shim.h"
import "C"

import (
	"encoding/binary"
	"fmt"
	"sync"
	"unsafe"

	vulkan "github.com/vulkan-go/vulkan"
)

// Format is how a texel buffer's elements are read.
type Format int

const (
	R32Uint Format = iota
	R32Float
	RG32Uint
	RG32Float
	RGBA32Uint
	RGBA32Float
)

var formats = [...]struct {
	vulkan vulkan.Format
	bytes  int64 // of an element
}{
	R32Uint:     {vulkan.FormatR32Uint, 4},
	R32Float:    {vulkan.FormatR32Sfloat, 4},
	RG32Uint:    {vulkan.FormatR32g32Uint, 8},
	RG32Float:   {vulkan.FormatR32g32Sfloat, 8},
	RGBA32Uint:  {vulkan.FormatR32g32b32a32Uint, 16},
	RGBA32Float: {vulkan.FormatR32g32b32a32Sfloat, 16},
}

// Bytes is the size of an element.
func (f Format) Bytes() int64 { return formats[f].bytes }

// Binding is one binding of descriptor set 0.
type Binding struct {
	Texel  bool   // a uniform texel buffer, read only; otherwise a storage buffer
	Format Format // of a texel buffer
}

// Module is a compute shader with entry point main.
type Module struct {
	Name      string
	Code      []byte    // SPIR-V
	Bindings  []Binding // binding i is Bindings[i]
	PushBytes int       // bytes of the push constant block
	Constants int       // number of specialisation constants, with ids 0 to Constants-1, 32 bits each
}

// Pipeline is a module compiled for some constants.
type Pipeline struct {
	Module    *Module
	parts     bool // of a dispatch can be run
	device    *Device
	*compiled // nil once freed
}

// compiled is what pipelines of the same module and constants share: drivers compile slowly.
type compiled struct {
	key  compiledKey
	shim C.shim_pipeline
	err  error
	once sync.Once // compiles
	uses int       // pipelines that are not freed
}

type compiledKey struct {
	module    *Module
	code      *byte // what the module has now: the same memory is the same code
	constants string
	parts     bool
}

const spirvMagic = 0x07230203

// NewPipeline compiles a module; constants[i] becomes the constant with id i, and by our convention constant 0 is the
// workgroup's size along x. While there is a pipeline of the same module and constants nothing is compiled. It may be called
// from several goroutines at once.
func (d *Device) NewPipeline(m *Module, constants []uint32) (*Pipeline, error) {
	return d.newPipeline(m, constants, false)
}

// NewPartsPipeline is NewPipeline for dispatches that may begin at another workgroup than the first: Op.First.
func (d *Device) NewPartsPipeline(m *Module, constants []uint32) (*Pipeline, error) {
	return d.newPipeline(m, constants, true)
}

func (d *Device) newPipeline(m *Module, constants []uint32, parts bool) (*Pipeline, error) {
	if err := d.checkModule(m, constants); err != nil {
		return nil, fmt.Errorf("vk: pipeline %q: %w", m.Name, err)
	}
	p := &Pipeline{Module: m, parts: parts, device: d, compiled: d.use(m, constants, parts)}
	p.once.Do(func() { p.shim, p.err = d.compile(m, constants, parts) })
	d.mu.Lock()
	d.pipes[p] = struct{}{}
	d.mu.Unlock()
	if err := p.err; err != nil {
		p.Free()
		return nil, err
	}
	return p, nil
}

// use finds what is compiled of a module, or makes room for it.
func (d *Device) use(m *Module, constants []uint32, parts bool) *compiled {
	var text []byte
	for _, c := range constants {
		text = binary.LittleEndian.AppendUint32(text, c)
	}
	key := compiledKey{m, &m.Code[0], string(text), parts}
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.compiled[key]
	if c == nil {
		c = &compiled{key: key}
		d.compiled[key] = c
	}
	c.uses++
	return c
}

func (d *Device) compile(m *Module, constants []uint32, parts bool) (p C.shim_pipeline, err error) {
	types := make([]C.uint32_t, len(m.Bindings))
	for i, b := range m.Bindings {
		types[i] = C.uint32_t(b.descriptor())
	}
	flags := C.uint32_t(0)
	if parts {
		flags = C.VK_PIPELINE_CREATE_DISPATCH_BASE
	}
	d.cache.RLock()
	s := C.shim_pipeline_create(d.shim, unsafe.Pointer(&m.Code[0]), C.size_t(len(m.Code)), flags, unsafe.SliceData(types), C.uint32_t(len(types)),
		C.uint32_t(m.PushBytes), (*C.uint32_t)(unsafe.SliceData(constants)), C.uint32_t(len(constants)), C.uint64_t(d.cache.handle), &p)
	d.cache.RUnlock()
	if s.result != 0 {
		return C.shim_pipeline{}, failure(s, m.Name)
	}
	d.name(vulkan.ObjectTypePipeline, uint64(p.pipeline), m.Name)
	return p, nil
}

// Free gives the pipeline back; no recording may use it any more. Twice is once.
func (p *Pipeline) Free() {
	d := p.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, live := d.pipes[p]; !live {
		return
	}
	delete(d.pipes, p)
	if p.uses--; p.uses == 0 {
		delete(d.compiled, p.key)
		C.shim_pipeline_destroy(d.shim, p.shim)
	}
	p.compiled = nil
}

func (b Binding) descriptor() vulkan.DescriptorType {
	if b.Texel {
		return vulkan.DescriptorTypeUniformTexelBuffer
	}
	return vulkan.DescriptorTypeStorageBuffer
}

func (d *Device) checkModule(m *Module, constants []uint32) error {
	l := d.Info.Limits
	storage, texel := 0, 0
	for i, b := range m.Bindings {
		if b.Texel {
			texel++
		} else {
			storage++
		}
		if b.Format < 0 || int(b.Format) >= len(formats) {
			return fmt.Errorf("binding %d: format %d is unknown", i, b.Format)
		}
	}
	switch {
	case len(m.Code) < 20 || len(m.Code)%4 != 0 || binary.LittleEndian.Uint32(m.Code) != spirvMagic:
		return fmt.Errorf("%d bytes of code are not SPIR-V", len(m.Code))
	case m.Lacks(d.Info) != "":
		return fmt.Errorf("the kernel needs %s, which the device does not have", m.Lacks(d.Info))
	case len(constants) != m.Constants:
		return fmt.Errorf("%d constants, want %d", len(constants), m.Constants)
	case m.PushBytes%4 != 0 || m.PushBytes < 0 || m.PushBytes > int(l.MaxPushBytes):
		return fmt.Errorf("%d bytes of push constants, want a multiple of 4 up to %d", m.PushBytes, l.MaxPushBytes)
	case storage > int(l.MaxStorageBuffers):
		return fmt.Errorf("%d storage buffers, the device takes %d", storage, l.MaxStorageBuffers)
	case texel > int(l.MaxTexelBuffers):
		return fmt.Errorf("%d texel buffers, the device takes %d", texel, l.MaxTexelBuffers)
	case len(constants) > 0 && (constants[0] == 0 || constants[0] > min(l.MaxInvocations, l.MaxGroupSize[0])):
		return fmt.Errorf("constant 0, the workgroup's size, is %d, want 1 to %d", constants[0], min(l.MaxInvocations, l.MaxGroupSize[0]))
	}
	return nil
}
