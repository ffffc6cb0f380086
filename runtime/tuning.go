package runtime

import (
	"vkdecode/shaders"
	"vkdecode/vk"
)

// Tuning is how kernels are launched on a device. Weights are repacked for it, so it is fixed before a model is loaded.
type Tuning struct {
	Form       shaders.Form
	Lanes      int // invocations per workgroup
	Run        int // matrix products: invocations that share a weight row
	Rows       int // matrix products: weight rows per invocation, a multiple of 4
	Cols       int // matrix products: activation rows per invocation for chunks
	Depth      int // attention: slots per lane; a split has Depth * Lanes
	RowTile    int // attention: rows per workgroup for chunks
	SliceBytes int // attention: scratch for the probabilities of a slice of rows, at most
}

// TuningFor chooses for a device. CPU drivers run one subgroup as one vector and pay dearly for barriers and for lanes
// along the columns: one lane per weight row, 16 rows each, won on both. lavapipe reads texel buffers ten times faster
// than storage buffers; SwiftShader gains nothing from them and limits them to 1 MiB. GPUs want many small workgroups
// and coalesced reads along the columns.
func TuningFor(info vk.DeviceInfo) Tuning {
	t := Tuning{Form: shaders.Shared, Lanes: 64, Run: 32, Rows: 4, Cols: 4, Depth: 2, RowTile: 4, SliceBytes: 32 << 20}
	if info.Kind == "cpu" {
		t.Form, t.Lanes, t.Run, t.Rows, t.Depth = shaders.Storage, int(info.Limits.SubgroupSize), 1, 16, 8
		if info.Limits.MaxTexelElements >= 1<<27 {
			t.Form = shaders.Texel
		}
	}
	return t
}

// Split is the number of slots in one split of attention.
func (t Tuning) Split() int { return t.Depth * t.Lanes }
