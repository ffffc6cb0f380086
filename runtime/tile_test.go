package runtime

import (
	"testing"

	"vkdecode/shaders"
	"vkdecode/vk"
)

// Whatever a GPU's subgroups and matrices are, tiles are such as the kernels can divide among a workgroup that the device
// takes, in the shared memory that every device has.
func TestTilesFitEveryDevice(t *testing.T) {
	const everyDevice = 16 << 10 // bytes of shared memory
	matrices := 0
	for _, subgroup := range []uint32{4, 8, 16, 32, 64, 128} {
		for _, invocations := range []uint32{128, 256, 1024} {
			for _, m := range [][3]uint32{{}, {8, 8, 8}, {16, 16, 16}, {8, 16, 16}, {16, 8, 32}} {
				info := vk.DeviceInfo{Kind: "discrete", Limits: vk.Limits{SubgroupSize: subgroup, MaxInvocations: invocations, Matrix: m}}
				tuning := TuningIn(info, shaders.Shared)
				for _, tile := range []Tile{tuning.Tile, tuning.Halved(info).Tile} {
					lanes, element, pieces, whole := tile.Lanes(), 4, 0, [3]int{4, 4, 1} // of what an owner has whole multiples
					if tile.Half {
						element = 2
					}
					if tile.Matrix[0] > 0 {
						matrices++
						whole, pieces = tile.Matrix, 4*tile.Rows/tile.OwnRows*(tile.Cols/tile.OwnCols)*tile.Matrix[0]*tile.Matrix[1]
					}
					if tile.OwnRows%whole[0] > 0 || tile.OwnCols%whole[1] > 0 || 32%whole[2] > 0 || tile.Rows%tile.OwnRows > 0 || tile.Cols%tile.OwnCols > 0 {
						t.Errorf("%+v: cannot be divided", tile)
					}
					if lanes > int(min(invocations, mostLanes)) || lanes%tile.Cols > 0 {
						t.Errorf("%+v: %d invocations, of %d", tile, lanes, invocations)
					}
					if bytes := 32*(tile.Rows+tile.Cols)*element + 8*mostLanes + pieces; bytes > everyDevice {
						t.Errorf("%+v: %d bytes of shared memory", tile, bytes)
					}
				}
			}
		}
	}
	if matrices == 0 {
		t.Error("no device multiplies matrices")
	}
}
