package model

import (
	"slices"
	"strings"

	"vkdecode/model/gguf"
	"vkdecode/shaders"
)

// blockColumns is the number of columns in a block of every repacked weight type, whatever the file's own blocks are.
const blockColumns = 32

// weightType is how a weight type is repacked for the kernels: shaders/quant/<name>/block.glsl is its other half.
type weightType struct {
	name    string // of the kernels' variant
	words   int    // of 32 weights in the weight plane
	scales  scaleForm
	columns int // of a block in the file; of types without blocks any 32
	bytes   int // of such a block
	repack  func(block []byte, words, scales []uint32)
}

// scaleForm is what the scale plane holds.
type scaleForm int

const (
	noScales  scaleForm = iota
	perBlock            // a word for each 32 weights
	perSuper            // 16 bits for each 32 weights, and a word for the 256 of a super-block
	superSize = 256     // weights
)

// scaleWords is the number of scales that repack writes for a block of the file: one for each 32 weights, then that of
// the super-block.
func (w weightType) scaleWords() int {
	switch w.scales {
	case perBlock:
		return w.columns / blockColumns
	case perSuper:
		return w.columns/blockColumns + 1
	}
	return 0
}

// weightTypes are the weight types that run. One row each; the kernels' half is a folder in shaders/quant.
var weightTypes = map[gguf.Type]weightType{
	gguf.F32:    {"f32", 32, noScales, 32, 128, repackWords},
	gguf.F16:    {"f16", 16, noScales, 32, 64, repackWords},
	gguf.BF16:   {"bf16", 16, noScales, 32, 64, repackWords},
	gguf.Q8_0:   {"q8_0", 8, perBlock, 32, 34, repackQ8},
	gguf.Q4_0:   {"q4_0", 4, perBlock, 32, 18, repackQ40},
	gguf.Q4_1:   {"q4_1", 4, perBlock, 32, 20, repackQ41},
	gguf.Q5_0:   {"q5_0", 5, perBlock, 32, 22, repackQ50},
	gguf.Q5_1:   {"q5_1", 5, perBlock, 32, 24, repackQ51},
	gguf.Q2_K:   {"q2_k", 2, perSuper, superSize, 84, repackQ2K},
	gguf.Q3_K:   {"q3_k", 3, perSuper, superSize, 110, repackQ3K},
	gguf.Q4_K:   {"q4_k", 4, perSuper, superSize, 144, repackQ4K},
	gguf.Q5_K:   {"q5_k", 5, perSuper, superSize, 176, repackQ5K},
	gguf.Q6_K:   {"q6_k", 6, perSuper, superSize, 210, repackQ6K},
	gguf.IQ4_NL: {"iq4_nl", 4, perBlock, 32, 18, repackQ40}, // the kernel knows what the codes stand for
	gguf.MXFP4:  {"mxfp4", 5, perBlock, 32, 17, repackMXFP4},
}

// onCPU are forms for drivers that compute on the CPU, where arithmetic costs more than memory: what the codes of IQ4_NL
// stand for, as the bytes of Q8_0.
var onCPU = map[gguf.Type]weightType{
	gguf.IQ4_NL: {"q8_0", 8, perBlock, 32, 18, repackIQ4NL},
}

// weightTypeFor finds the form of a weight type for kernels of a form; false if it does not run.
func weightTypeFor(t gguf.Type, form shaders.Form) (weightType, bool) {
	if w, ok := onCPU[t]; ok && form != shaders.Shared {
		return w, true
	}
	w, ok := weightTypes[t]
	return w, ok
}

// runningTypes lists the weight types that run, for messages.
func runningTypes() string {
	var kinds []gguf.Type
	for t := range weightTypes {
		kinds = append(kinds, t)
	}
	slices.Sort(kinds)
	var names []string
	for _, t := range kinds {
		names = append(names, t.String())
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
