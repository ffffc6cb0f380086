package runtime

import "vkdecode/shaders"

// Tile is how workgroups multiply with many activation rows: they unpack weights for all their invocations, as
// matmul_tile.comp does. None if Rows is 0.
type Tile struct {
	Rows, Cols       int    // of a tile: weight rows and activation rows
	OwnRows, OwnCols int    // of them, per invocation in multiples of 4, or per subgroup with matrices
	Half             bool   // tiles hold f16
	Matrix           [3]int // M, N, K of the cooperative matrices that subgroups multiply; 0 = invocations do
	Subgroup         int    // invocations of one, where there are matrices
}

// Lanes is the size of a workgroup, a multiple of Cols.
func (t Tile) Lanes() int {
	owners := t.Rows / t.OwnRows * (t.Cols / t.OwnCols)
	if t.Matrix[0] > 0 {
		return owners * t.Subgroup
	}
	return owners
}

// Of is the product k, of planes with so many rows, in tiles.
func (t Tile) Of(k shaders.Matmul, height int) shaders.Kernel {
	whole := shaders.MatmulTile{Lanes: uint32(t.Lanes()), PlaneLanes: k.Lanes, Run: k.Run, Rows: k.Rows,
		TileRows: uint32(t.Rows), TileCols: uint32(t.Cols), OwnRows: uint32(t.OwnRows), OwnCols: uint32(t.OwnCols),
		Epilogue: k.Epilogue, Biased: k.Biased, Outs: k.Outs, Normed: k.Normed,
		Blocks: k.Steps * k.Run, First: k.First, Height: uint32(height), Count: k.Count,
		XStride: k.XStride, XOffset: k.XOffset, YStride: k.YStride, YOffset: k.YOffset, Eps: k.Eps,
		Step: k.Step, W: k.W, S: k.S, X: k.X, Norm: k.Norm, Bias: k.Bias, Res: k.Res, Y: k.Y}
	switch {
	case t.Matrix[0] > 0:
		return shaders.MatmulMatrix{Lanes: whole.Lanes, PlaneLanes: k.Lanes, Run: k.Run, Rows: k.Rows,
			TileRows: whole.TileRows, TileCols: whole.TileCols, OwnRows: whole.OwnRows, OwnCols: whole.OwnCols,
			Epilogue: k.Epilogue, Biased: k.Biased, Outs: k.Outs, Normed: k.Normed,
			M: uint32(t.Matrix[0]), N: uint32(t.Matrix[1]), K: uint32(t.Matrix[2]),
			Blocks: whole.Blocks, First: k.First, Height: whole.Height, Count: k.Count,
			XStride: k.XStride, XOffset: k.XOffset, YStride: k.YStride, YOffset: k.YOffset, Eps: k.Eps,
			Step: k.Step, W: k.W, S: k.S, X: k.X, Norm: k.Norm, Bias: k.Bias, Res: k.Res, Y: k.Y}
	case t.Half:
		return shaders.MatmulHalf(whole)
	}
	return whole
}

const (
	mostLanes     = 256 // of tile.glsl's workgroups
	largestMatrix = 16  // M and N, as vk.Limits has them
)

// wholeTile is the one that GPUs use. It takes 14 KiB of the 16 KiB of shared memory that every device has.
var wholeTile = Tile{Rows: 64, Cols: 32, OwnRows: 4, OwnCols: 4}
