package ref

import (
	"encoding/binary"
	"math"
)

// Place is where a block of 32 columns of a row of a repacked matrix lies: include/planes.glsl.
type Place struct {
	Weights int // first uvec4 of the block's four rows in the weight plane; the next one lies lanes further
	Scales  int // their uvec4 in the scale plane, or their record of a super-block
	Part    int // which of the four rows
}

// superBlocks are the blocks of 32 in a super-block, record the uvec4 that have its scales for four rows.
const superBlocks, record = 8, 5

// place finds block number `block` of a row. A workgroup of lanes invocations owns perLane rows for each of its
// lanes / run row lanes; run invocations share a row, each taking every run-th of its blocks.
func place(row, block, blocks, lanes, run, perLane, words int, super bool) Place {
	rowLanes := lanes / run
	group, inGroup := row/(perLane*rowLanes), row%(perLane*rowLanes)
	r, rowLane := inGroup/rowLanes, inGroup%rowLanes
	lane, four := rowLane*run+block%run, (group*(blocks/run)+block/run)*(perLane/4)+r/4
	p := Place{Weights: four*words*lanes + lane, Scales: four*lanes + lane, Part: r % 4}
	if super {
		supers := roundUp(blocks, superBlocks) / superBlocks
		p.Scales = ((group*supers+block/superBlocks)*(perLane/4)+r/4)*record*rowLanes + rowLane
	}
	return p
}

// planeBits is the size of a weight in the weight plane.
var planeBits = map[string]int{"f32": 32, "f16": 16, "bf16": 16, "q8_0": 8, "q4_0": 4, "q4_1": 4, "q5_0": 5, "q5_1": 5, "iq4_nl": 4, "mxfp4": 5,
	"q2_k": 2, "q3_k": 3, "q4_k": 4, "q5_k": 5, "q6_k": 6}

// Planes repacks a matrix (rows, columns), whose rows are whole blocks in the file's form, for workgroups of lanes
// invocations with perLane rows each, a multiple of 4: the weight plane and the scale plane, empty for types without.
func Planes(weightType string, rows, columns int, raw []byte, lanes, run, perLane int) (w, s []uint32) {
	size, words, rowLanes := blockOf(weightType), planeBits[weightType], lanes/run
	super := size.Weights > 32
	blocks, groups := roundUp(columns/32, run), roundUp(rows, perLane*rowLanes)/(perLane*rowLanes)
	w = make([]uint32, groups*perLane*words*lanes*blocks/run)
	switch {
	case super:
		s = make([]uint32, groups*perLane*record*rowLanes*roundUp(blocks, superBlocks)/superBlocks)
	case words < 16:
		s = make([]uint32, groups*perLane*lanes*blocks/run)
	}
	for row := range rows {
		for column := range columns {
			inFile := row*columns + column
			block := raw[inFile/size.Weights*size.Bytes:][:size.Bytes]
			j := inFile % size.Weights
			p := place(row, column/32, blocks, lanes, run, perLane, words, super)
			putBits(w, p, lanes, words, column%32, planeCode(weightType, block, j))
			switch {
			case super:
				n := column / 32 % superBlocks
				s[4*p.Scales+p.Part] = superScale(weightType, block)
				s[4*(p.Scales+(1+n/2)*rowLanes)+p.Part] |= subScale(weightType, block, j) << (16 * (n % 2))
			case s != nil:
				s[4*p.Scales+p.Part] = scale(weightType, block)
			}
		}
	}
	return w, s
}

// putBits writes weight j of a block of so many words, which is the number of bits of a weight as well. Words hold whole
// weights; what is left of them is the bits of the last two, spread over the words' top bits.
func putBits(w []uint32, p Place, lanes, words, j int, code uint32) {
	put := func(word int, bits uint32) {
		if words%4 == 0 {
			w[4*(p.Weights+(p.Part*words/4+word/4)*lanes)+word%4] |= bits
		} else {
			w[4*(p.Weights+word*lanes)+p.Part] |= bits
		}
	}
	perWord := 32 / words
	if j < words*perWord {
		put(j/perWord, code<<(j%perWord*words))
		return
	}
	for b := range words {
		at := (j-words*perWord)*words + b // of the 2 words bits that are left
		put(at/2, code>>b&1<<(30+at%2))
	}
}

// planeCode is weight j of a block as the weight plane has it.
func planeCode(weightType string, block []byte, j int) uint32 {
	switch weightType {
	case "f32":
		return binary.LittleEndian.Uint32(block[4*j:])
	case "f16", "bf16":
		return uint32(binary.LittleEndian.Uint16(block[2*j:]))
	case "q8_0":
		if j%4 == 3 {
			return uint32(block[2+j])
		}
		return uint32(code(weightType, block, j) + 128)
	case "mxfp4":
		return uint32(2*e2m1[code(weightType, block, j)] + 12)
	}
	return uint32(code(weightType, block, j))
}

// scale is the scale word of a block: both halves as the file has them, or the one scale as f32.
func scale(weightType string, block []byte) uint32 {
	switch weightType {
	case "q4_1", "q5_1":
		return binary.LittleEndian.Uint32(block)
	case "mxfp4":
		return math.Float32bits(float32(math.Ldexp(0.5, int(block[0])-127)))
	}
	return math.Float32bits(float32(half(block, 0)))
}

// superScale is the word of a super-block: d and dmin, or d alone.
func superScale(weightType string, block []byte) uint32 {
	switch weightType {
	case "q2_k":
		return binary.LittleEndian.Uint32(block[80:])
	case "q3_k", "q6_k":
		return uint32(binary.LittleEndian.Uint16(block[len(block)-2:]))
	}
	return binary.LittleEndian.Uint32(block)
}

// subScale are the scales of the 32 weights around weight j as 16 bits: those of both halves, or scale and minimum.
func subScale(weightType string, block []byte, j int) uint32 {
	first, last := j/32*32, j/32*32+31
	scale, minimum := subScales(weightType, block, first)
	other, otherMinimum := subScales(weightType, block, last)
	switch weightType {
	case "q2_k":
		return uint32(scale) | uint32(minimum)<<4 | uint32(other)<<8 | uint32(otherMinimum)<<12
	case "q3_k", "q6_k":
		return uint32(uint8(int(scale))) | uint32(uint8(int(other)))<<8
	}
	return uint32(scale) | uint32(minimum)<<8
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
