// Package shaders holds the GLSL kernels, their committed SPIR-V and the generated Go types that bind them.
//
// A kernel is one .comp file. Each is compiled once for every way of reading its inputs (Form) and, where it includes
// one, for every weight type and every cache type. The generator reflects names, bindings, push constants and
// specialisation constants from the SPIR-V, so that nothing is typed twice; run `make gen` after changing GLSL.
package shaders

import (
	"embed"
	"fmt"
	"slices"
	"sync"

	"vkdecode/vk"
)

//go:generate go run ./gen

//go:embed spirv/*.spv
var files embed.FS

// Form is how a kernel reads its inputs and combines the lanes of a workgroup.
type Form int

const (
	Texel   Form = iota // uniform texel buffers; a workgroup is one subgroup. For lavapipe.
	Storage             // storage buffers; a workgroup is one subgroup. For SwiftShader.
	Shared              // storage buffers; workgroups of any size, lanes combined through shared memory. For GPUs.
)

var formNames = [...]string{"texel", "storage", "shared"}

func (f Form) String() string { return formNames[f] }

// FormOf finds a form by its name.
func FormOf(name string) (Form, bool) {
	i := slices.Index(formNames[:], name)
	return Form(i), i >= 0
}

// Variant selects among the modules of a kernel.
type Variant struct {
	Form   Form
	Weight string // weight type, "q4_1"; ignored by kernels that read no weights
	Cache  string // type of the K or V that the kernel packs or unpacks, "f16"; ignored by the others
}

// Access says what a dispatch does with a binding.
type Access uint8

const (
	Read  Access = 1
	Write Access = 2
)

// Call is one dispatch without its grid: a module, its constants and what is bound to it.
type Call struct {
	Kernel    string // "rms_norm"
	Module    *vk.Module
	Constants []uint32 // [0] is the workgroup size
	Push      []byte
	Bindings  []vk.Range
	Access    []Access
	Whole     bool // the kernel asks how many workgroups there are: a dispatch of it cannot be run in parts
	Unrolled  bool // the module is a copy whose loops are unrolled
}

// Kernel is a generated struct: a kernel with its constants, push constants and bindings filled in.
type Kernel interface{ Call(Variant) (Call, error) }

// info is what the generator knows of a kernel.
type info struct {
	name     string
	weights  bool // one module per weight type
	cache    bool // one module per cache type
	bindings []bindingInfo
	push     int // bytes
	count    int // specialisation constants, with the workgroup size
	frozen   []frozen
}

// frozen is a copy of a kernel in Storage form with constants fixed and loops unrolled, for SwiftShader.
type frozen struct {
	suffix    string
	weights   []string
	constants map[int]uint32 // by constant_id
}

// suits tells whether the copy is the kernel with these constants.
func (f frozen) suits(v Variant, constants []uint32) bool {
	if v.Form != Storage || !slices.Contains(f.weights, v.Weight) {
		return false
	}
	for id, value := range f.constants {
		if constants[id] != value {
			return false
		}
	}
	return true
}

type bindingInfo struct {
	format vk.Format
	access Access
}

// moduleName is the name of the kernel's module for a variant: "matmul.q4_1.texel"; and whether it is an unrolled copy.
func (k *info) moduleName(v Variant, constants []uint32) (name string, unrolled bool) {
	name = k.name
	if k.weights {
		name += "." + v.Weight
	}
	if k.cache {
		name += "." + v.Cache
	}
	name += "." + v.Form.String()
	for _, f := range k.frozen {
		if f.suits(v, constants) {
			return name + "." + f.suffix, true
		}
	}
	return name, false
}

var (
	modules     = map[string]*vk.Module{}
	modulesLock sync.Mutex
)

// module returns the kernel's module of a name; the same pointer for the same name.
func (k *info) module(name string, v Variant) (*vk.Module, error) {
	modulesLock.Lock()
	defer modulesLock.Unlock()
	if m, ok := modules[name]; ok {
		return m, nil
	}
	code, err := files.ReadFile("spirv/" + name + ".spv")
	if err != nil {
		return nil, fmt.Errorf("shaders: no module %q: weight type %q or cache type %q has no kernel", name, v.Weight, v.Cache)
	}
	m := &vk.Module{Name: name, Code: code, PushBytes: k.push, Constants: k.count}
	for _, b := range k.bindings {
		m.Bindings = append(m.Bindings, vk.Binding{Texel: v.Form == Texel && b.access == Read, Format: b.format})
	}
	modules[name] = m
	return m, nil
}

func (k *info) call(v Variant, constants []uint32, push []byte, bindings []vk.Range) (Call, error) {
	name, unrolled := k.moduleName(v, constants)
	m, err := k.module(name, v)
	if err != nil {
		return Call{}, err
	}
	c := Call{Kernel: k.name, Module: m, Constants: constants, Push: push, Bindings: bindings, Whole: whole(m), Unrolled: unrolled}
	for _, b := range k.bindings {
		c.Access = append(c.Access, b.access)
	}
	return c, nil
}
