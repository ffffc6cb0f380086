package ref

import (
	"encoding/binary"
	"math"
)

// Place is where a block of 32 columns of a repacked matrix lies: include/planes.glsl.
type Place struct {
	Quads int // first uvec4 of the block in the weight plane; the next one lies lanes further
	Scale int // its uvec4 in the scale plane
	Part  int // which of the four scales there
}

// place finds block number `block` of a row. A workgroup of lanes invocations owns perLane rows for each of its
// lanes / run row lanes; run invocations share a row, each taking every run-th of its blocks.
func place(row, block, blocks, lanes, run, perLane, quads int) Place {
	rowLanes := lanes / run
	group, inGroup := row/(perLane*rowLanes), row%(perLane*rowLanes)
	r, lane := inGroup/rowLanes, inGroup%rowLanes*run+block%run
	step := group*(blocks/run) + block/run
	return Place{Quads: (step*perLane+r)*quads*lanes + lane, Scale: (step*(perLane/4)+r/4)*lanes + lane, Part: r % 4}
}

// Planes repacks a matrix (rows, columns), whose rows are whole blocks in the file's form, for workgroups of lanes
// invocations with perLane rows each, a multiple of 4: the weight plane and the scale plane, empty for types without.
func Planes(weightType string, rows, columns int, raw []byte, lanes, run, perLane int) (w, s []uint32) {
	size := blockBytes(weightType)
	bits := map[string]int{"f32": 32, "f16": 16, "bf16": 16, "q8_0": 8, "q4_0": 4, "q4_1": 4}[weightType]
	quads, fileBlocks := bits/4, columns/32
	blocks, groups := roundUp(fileBlocks, run), roundUp(rows, perLane*lanes/run)/(perLane*lanes/run)
	w = make([]uint32, 4*groups*perLane*quads*lanes*blocks/run)
	if bits < 16 {
		s = make([]uint32, groups*perLane*lanes*blocks/run)
	}
	for row := range rows {
		for b := range fileBlocks {
			block := raw[(row*fileBlocks+b)*size:][:size]
			p := place(row, b, blocks, lanes, run, perLane, quads)
			for j := range 32 {
				word := j * bits / 32 // of the block
				w[4*(p.Quads+word/4*lanes)+word%4] |= code(weightType, block, j) << (j * bits % 32)
			}
			if s != nil {
				s[4*p.Scale+p.Part] = scale(weightType, block)
			}
		}
	}
	return w, s
}

// code is weight j of a block as the weight plane has it.
func code(weightType string, block []byte, j int) uint32 {
	switch weightType {
	case "f32":
		return binary.LittleEndian.Uint32(block[4*j:])
	case "f16", "bf16":
		return uint32(binary.LittleEndian.Uint16(block[2*j:]))
	case "q8_0":
		if j%4 == 3 {
			return uint32(block[2+j])
		}
		return uint32(int(int8(block[2+j])) + 128)
	case "q4_0":
		return uint32(nibble(block[2:], j))
	default: // q4_1
		return uint32(nibble(block[4:], j))
	}
}

// scale is the scale word of a block: both halves as the file has them, or the one scale as f32.
func scale(weightType string, block []byte) uint32 {
	if weightType == "q4_1" {
		return binary.LittleEndian.Uint32(block)
	}
	return math.Float32bits(float32(half(block, 0)))
}

// Paired is the order of rows that silu(gate) up needs: entry i is the row of the two matrices under each other (rows
// each) that is packed as row i, or -1 for a row that pads a group. An invocation's rows 2n and 2n + 1 are gate and up.
func Paired(rows, lanes, run, perLane int) []int {
	rowLanes := lanes / run
	order := make([]int, 2*roundUp(rows, perLane*rowLanes/2))
	for i := range order {
		r, lane := i/rowLanes, i%rowLanes
		output := r/2*rowLanes + lane
		switch {
		case output >= rows:
			order[i] = -1
		case r%2 == 0:
			order[i] = output
		default:
			order[i] = rows + output
		}
	}
	return order
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }
