package runtime

import (
	"runtime"

	"vkdecode/shaders"
	"vkdecode/vk"
)

// Tuning is how kernels are launched on a device. Weights are repacked for it, so it is fixed before a model is loaded.
type Tuning struct {
	Form       shaders.Form
	Lanes      int  // invocations per workgroup
	Run        int  // matrix products: invocations that share a weight row
	Rows       int  // matrix products: weight rows per invocation, a multiple of 4, at most
	Threads    int  // that take a dispatch's workgroups in equal shares, 0 = unknown or very many
	Cols       int  // matrix products: activation rows per invocation for chunks
	Many       int  // matrix products: activation rows from which they are done in tiles or in int8, if at all
	Tile       Tile // matrix products: the tiles, if any
	Pairs      int  // matrix products: pairs of activation rows per invocation where these are int8; 0: they are f32
	Depth      int  // attention: slots per lane; a split has Depth * Lanes
	TokenDepth int  // the same for attention of single tokens; 0: it is not one kernel
	Ranges     int  // attention of single tokens: workgroups along the slots of a head
	Span       int  // scores: splits per workgroup
	Movers     int  // evictions: workgroups that move the survivors of a head, at most
	RowTile    int  // attention: rows per workgroup for chunks
	SliceBytes int  // attention: scratch for the probabilities of a slice of rows, at most
	Steps      int  // of decoding in one submit, at most: two of these are under way at once, and the device keeps 64 tokens
	Walk       int  // slots that one workgroup can walk over when tokens go, 0 = any number

	Unlinked bool `json:",omitempty"` // layers of one row are never linked, even where that is quicker
	Apart    bool `json:",omitempty"` // products never bring the parts of attention together, even where that is quicker
	Unjoined bool `json:",omitempty"` // every layer settles its slots by itself, even where all could at once
}

// Bindings of attend_token, more than every device has.
const tokenInputs, tokenOutputs = 6, 6

// TuningFor chooses for a device. CPU drivers run one subgroup as one vector and pay dearly for barriers and for lanes
// along the columns: one lane per weight row, 16 rows each, won on both. lavapipe reads texel buffers ten times faster
// than storage buffers; SwiftShader gains nothing from them and limits them to 1 MiB. GPUs want many small workgroups
// and coalesced reads along the columns.
func TuningFor(info vk.DeviceInfo) Tuning {
	switch {
	case info.Kind != "cpu":
		return TuningIn(info, shaders.Shared)
	case largeTexels(info):
		return TuningIn(info, shaders.Texel)
	}
	return TuningIn(info, shaders.Storage)
}

// largeTexels tells a driver whose texel buffers hold whole matrices.
func largeTexels(info vk.DeviceInfo) bool { return info.Limits.MaxTexelElements >= 1<<27 }

// TuningIn is the tuning with a form of the kernels that TuningFor may not choose for the device.
func TuningIn(info vk.DeviceInfo, form shaders.Form) Tuning {
	t := Tuning{Form: form, Lanes: 64, Run: 32, Rows: 4, Cols: 4, Many: 17, Depth: 2, TokenDepth: 1, Ranges: 16, Span: 1, Movers: 16, RowTile: 4, SliceBytes: 32 << 20, Steps: 16}
	if info.Kind == "cpu" { // it computes on the cores that would submit, and barriers cost much
		t.Steps = 1
	} else if form == shaders.Shared {
		t.Tile = wholeTile
	}
	if oneSubgroup(info, form) {
		t.Lanes, t.Run, t.Rows, t.Depth = int(info.Limits.SubgroupSize), 1, 16, 8
		t.TokenDepth, t.Ranges, t.Span, t.Movers = 4, 2, 64, 1
	}
	if info.Kind == "cpu" && largeTexels(info) {
		t.Walk = 140_000 // lavapipe ends loops early: tests/ops_evict_test.go shows that these are reached
	}
	if form == shaders.Texel {
		t.Threads = runtime.NumCPU()
	}
	if buffers := int(info.Limits.MaxStorageBuffers); buffers < tokenOutputs || t.Form != shaders.Texel && buffers < tokenOutputs+tokenInputs {
		t.TokenDepth = 0
	}
	return t
}

// oneSubgroup tells whether a form's workgroups are one subgroup each: those that combine lanes through shared memory are
// larger, but on a CPU that costs twenty times as much.
func oneSubgroup(info vk.DeviceInfo, form shaders.Form) bool {
	return form != shaders.Shared || info.Kind == "cpu" && info.Limits.SubgroupSize >= 4
}

// RowsFor is the number of rows per invocation for matrices of so many rows, multiplied one after the other: the one with
// which the threads are done first. The product does not depend on it.
func (t Tuning) RowsFor(heights ...int) int {
	if t.Threads == 0 {
		return t.Rows
	}
	const overhead = 1 // of a workgroup, as rows per invocation: it starts, and it reads the activations
	cost := func(perLane int) (sum int) {
		for _, rows := range heights {
			groups := (rows*t.Run + perLane*t.Lanes - 1) / (perLane * t.Lanes)
			sum += (groups + t.Threads - 1) / t.Threads * (perLane + overhead)
		}
		return sum
	}
	best := t.Rows
	for n := t.Rows - 4; n >= 4; n -= 4 {
		if cost(n) < cost(best) {
			best = n
		}
	}
	return best
}

// Links tells whether one dispatch goes through several layers of a single row, as chain.comp does: worth it where a dispatch
// costs much and its workgroups are as many as threads. Fetches of texels see there what was written before in the same
// dispatch.
func (t Tuning) Links() bool {
	return !t.Unlinked && t.Form == shaders.Texel && t.Run == 1 && t.Threads > 0
}

// MergesParts tells whether products bring the parts of attention together on the way: it costs every workgroup a little,
// where a dispatch of its own costs more.
func (t Tuning) MergesParts() bool { return !t.Apart && t.Form == shaders.Texel && t.Run == 1 }

// Split is the number of slots in one split of attention.
func (t Tuning) Split() int { return t.Depth * t.Lanes }

// TokenSplit is the same for attention of single tokens, 0 if that is not one kernel.
func (t Tuning) TokenSplit() int { return t.TokenDepth * t.Lanes }
