package model

import (
	"encoding/binary"

	"vkdecode/runtime"
)

// planes is where a repacked matrix keeps its weights; include/planes.glsl is its other half. A workgroup of lanes
// invocations owns rows weight rows for each of its lanes/run row lanes; run invocations share a row, each taking every
// run-th block of columns. Neighbouring invocations read neighbouring uvec4. Four rows of an invocation lie together.
type planes struct {
	lanes, run, rows int
	words            int // of a row's block in the weight plane
	scales           scaleForm
	steps            int // blocks per invocation
}

func newPlanes(l runtime.Launch, w weightType, columns int) planes {
	blocks := (columns + blockColumns - 1) / blockColumns
	return planes{l.Lanes, l.Run, l.Rows, w.words, w.scales, (blocks + l.Run - 1) / l.Run}
}

// A record has the scales of a super-block for four rows: a uvec4 of the super-block's own scales, then one for every two
// of its blocks, 16 bits each. The invocations that share a row share the record.
const (
	superBlocks = superSize / blockColumns
	record      = 1 + superBlocks/2 // uvec4
)

// groupRows is the number of weight rows of a workgroup.
func (p planes) groupRows() int { return p.rows * p.lanes / p.run }

// supers is the number of records along a row.
func (p planes) supers() int { return ceil(p.steps*p.run, superBlocks) }

// weightBytes and scaleBytes are the sizes of a group in the two planes.
func (p planes) weightBytes() int { return p.steps * p.rows * p.words * p.lanes * 4 }

func (p planes) scaleBytes() int {
	switch p.scales {
	case perBlock:
		return p.steps * p.rows / 4 * p.lanes * 16
	case perSuper:
		return p.supers() * p.rows / 4 * record * p.lanes / p.run * 16
	}
	return 0
}

// pack writes one group: row returns a row's bytes in the file's form, nil for a row that pads the last group.
// scales is nil for types without. Both slices are zero where nothing is written.
func (p planes) pack(w weightType, row func(i int) []byte, weights, scales []byte) {
	each := w.columns / blockColumns // blocks of ours in one of the file's
	words, s := make([]uint32, each*w.words), make([]uint32, w.scaleWords())
	padded := make([]byte, w.bytes)
	rowLanes := p.lanes / p.run
	for i := range p.groupRows() {
		src := row(i)
		r, rowLane := i/rowLanes, i%rowLanes
		for b := 0; len(src) > 0; b += each {
			block := src[:min(w.bytes, len(src))]
			src = src[len(block):]
			if len(block) < w.bytes { // unquantised rows may end within a block
				clear(padded)
				copy(padded, block)
				block = padded
			}
			w.repack(block, words, s)
			for n := range each {
				p.putWords(weights, r, rowLane, b+n, words[n*w.words:][:w.words])
			}
			switch w.scales {
			case perBlock:
				step, lane := b/p.run, rowLane*p.run+b%p.run
				put(scales, (step*(p.rows/4)+r/4)*p.lanes+lane, r%4, s[0])
			case perSuper:
				at := (b/superBlocks*(p.rows/4)+r/4)*record*rowLanes + rowLane
				put(scales, at, r%4, s[each])
				for n := 0; n < each; n += 2 {
					put(scales, at+(1+n/2)*rowLanes, r%4, s[n]|s[n+1]<<16)
				}
			}
		}
	}
}

// putWords writes the words of a row's block: side by side where they are whole uvec4, else each into a uvec4 with the
// same word of the three rows beside.
func (p planes) putWords(weights []byte, r, rowLane, block int, words []uint32) {
	step, lane := block/p.run, rowLane*p.run+block%p.run
	four := (step*(p.rows/4)+r/4)*p.words*p.lanes + lane
	for i, word := range words {
		if p.words%4 == 0 {
			put(weights, four+(r%4*(p.words/4)+i/4)*p.lanes, i%4, word)
		} else {
			put(weights, four+i*p.lanes, r%4, word)
		}
	}
}

// put writes a word of a uvec4.
func put(plane []byte, uvec4, part int, word uint32) {
	binary.LittleEndian.PutUint32(plane[16*uvec4+4*part:], word)
}
