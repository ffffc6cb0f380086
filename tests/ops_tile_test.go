package tests

import (
	"vkdecode/ref"
	"vkdecode/runtime"
	"vkdecode/shaders"
)

// halfError is that of products whose factors are rounded to f16: each is off by up to 2^-11 of itself, so its square by
// 4e-8 on average, and silu(gate) up has four of them and makes those of the gate larger.
const halfError = 1e-6

// tileCases are those of matmul_tile, matmul_half and matmul_matrix, on planes that are packed for matmul.
func tileCases(l launch) (all []opCase) {
	if l.form != shaders.Shared {
		return nil
	}
	kinds := []matmulCase{
		{share: 32, epilogue: ref.SiluPair, biased: true, tile: runtime.Tile{Rows: 64, Cols: 32, OwnRows: 4, OwnCols: 4}},
		{share: 8, epilogue: ref.AddRes, biased: true, normed: true, tile: runtime.Tile{Rows: 32, Cols: 16, OwnRows: 4, OwnCols: 8}},
		{share: 16, outs: true, normed: true, tile: runtime.Tile{Rows: 64, Cols: 16, OwnRows: 8, OwnCols: 4}},
		{share: 4, epilogue: ref.SiluPair, normed: true, tile: runtime.Tile{Rows: 32, Cols: 32, OwnRows: 8, OwnCols: 4}},
		{share: 2, epilogue: ref.SiluMul, outs: true, tile: runtime.Tile{Rows: 32, Cols: 16, OwnRows: 4, OwnCols: 4}},
	}
	for i, w := range shaders.WeightTypes {
		for form := range 3 { // f32, f16, matrices of f16
			c := kinds[(i+l.lanes/32+form)%len(kinds)]
			c.weight, c.perLane, c.tile.Half = w, 4+i%2*4, form > 0
			if m := l.info.Limits.Matrix; form == 2 {
				c.tile.Matrix, c.tile.Subgroup = [3]int{int(m[0]), int(m[1]), int(m[2])}, int(l.info.Limits.SubgroupSize)
				c.tile.OwnRows, c.tile.OwnCols, c.tile.Cols = c.tile.Rows/2, 16, 16*(1+i%2) // a subgroup beside another, and below
			}
			if c.tile.Half && !l.info.Features.Float16 || form == 2 && c.tile.Matrix[0] == 0 {
				continue
			}
			group := c.perLane * l.lanes / c.share
			if c.epilogue == ref.SiluPair {
				group /= 2
			}
			shapes := []matmulCase{{rows: 1, blocks: 1, many: 5}, {rows: group + 5, blocks: 3, many: c.tile.Cols + 3, sliced: true}}
			if c.tile.Half { // where terms cancel out or weights are too small for f16 a single row has no digits left
				shapes[0].rows = 2*group + 1
			}
			for _, shape := range shapes {
				c.rows, c.blocks, c.many, c.sliced = shape.rows, shape.blocks*blocksOf(w), shape.many, shape.sliced
				all = append(all, c)
			}
		}
	}
	return all
}
