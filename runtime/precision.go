package runtime

import (
	"vkdecode/shaders"
	"vkdecode/vk"
)

// The precisions in which products of many rows are done. No device uses another than F32 unless it is asked to.
const (
	F32  = "f32"
	F16  = "f16"  // weights and activations are rounded, on GPUs
	Int8 = "int8" // activations are rounded, on CPU drivers
)

// Precisions are all of them.
var Precisions = []string{F32, F16, Int8}

// Precision is that of the tuning.
func (t Tuning) Precision() string {
	switch {
	case t.Pairs > 0:
		return Int8
	case t.Tile.Half:
		return F16
	}
	return F32
}

// Halved is the tuning with tiles of f16, for a device that computes with them: multiplied by cooperative matrices where it
// has them, by four subgroups, which unpack faster than one; elsewhere with twice as many weights in as much memory.
func (t Tuning) Halved(info vk.DeviceInfo) Tuning {
	if t.Tile.Rows == 0 {
		return t
	}
	l := info.Limits
	t.Tile = Tile{Rows: 128, Cols: 32, OwnRows: 8, OwnCols: 4, Half: true}
	matrices := Tile{Rows: 64, Cols: 64, OwnRows: 32, OwnCols: 32, Half: true,
		Matrix: [3]int{int(l.Matrix[0]), int(l.Matrix[1]), int(l.Matrix[2])}, Subgroup: int(l.SubgroupSize)}
	if lanes := matrices.Lanes(); lanes < matrices.Cols { // small subgroups
		matrices.Cols, matrices.OwnCols = lanes, lanes/2
	}
	if l.Matrix[0] > 0 && matrices.OwnCols >= largestMatrix && matrices.Lanes() <= min(mostLanes, int(l.MaxInvocations)) {
		t.Tile = matrices
	}
	return t
}

// Int8 is the tuning in which products of many rows round activations to int8. It is for CPU drivers, where one integer
// multiplication serves two rows: false for others.
func (t Tuning) Int8() (Tuning, bool) {
	if t.Form == shaders.Shared || t.Run != 1 {
		return t, false
	}
	t.Pairs = 4
	return t, true
}
