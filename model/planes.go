package model

import (
	"encoding/binary"

	"vkdecode/runtime"
)

// planes is where a repacked matrix keeps its weights; include/planes.glsl is its other half. A workgroup of lanes
// invocations owns rows weight rows for each of its lanes/run row lanes; run invocations share a row, each taking every
// run-th block of columns. Neighbouring invocations read neighbouring uvec4.
type planes struct {
	lanes, run, rows int
	quads            int // uvec4 per block
	steps            int // blocks per invocation
}

func newPlanes(t runtime.Tuning, w weightType, rows, columns int) planes {
	blocks := (columns + blockColumns - 1) / blockColumns
	return planes{t.Lanes, t.Run, t.RowsFor(rows), w.quads, (blocks + t.Run - 1) / t.Run}
}

// groupRows is the number of weight rows of a workgroup.
func (p planes) groupRows() int { return p.rows * p.lanes / p.run }

// weightBytes and scaleBytes are the sizes of a group in the two planes.
func (p planes) weightBytes() int { return p.steps * p.rows * p.quads * p.lanes * 16 }
func (p planes) scaleBytes() int  { return p.steps * p.rows / 4 * p.lanes * 16 }

// pack writes one group: row returns a row's bytes in the file's form, nil for a row that pads the last group.
// scales is nil for types without. Both slices are zero where nothing is written.
func (p planes) pack(w weightType, row func(i int) []byte, weights, scales []byte) {
	words := make([]uint32, 4*p.quads)
	padded := make([]byte, w.bytes)
	for i := range p.groupRows() {
		src := row(i)
		r, lane0 := i/(p.lanes/p.run), i%(p.lanes/p.run)*p.run
		for b := 0; len(src) > 0; b++ {
			block := src[:min(w.bytes, len(src))]
			src = src[len(block):]
			if len(block) < w.bytes { // unquantised rows may end within a block
				clear(padded)
				copy(padded, block)
				block = padded
			}
			scale := w.repack(block, words)
			step, lane := b/p.run, lane0+b%p.run
			at := ((step*p.rows+r)*p.quads*p.lanes + lane) * 16
			for q := range p.quads {
				for e := range 4 {
					binary.LittleEndian.PutUint32(weights[at+q*p.lanes*16+4*e:], words[4*q+e])
				}
			}
			if w.scaled {
				binary.LittleEndian.PutUint32(scales[((step*(p.rows/4)+r/4)*p.lanes+lane)*16+4*(r%4):], scale)
			}
		}
	}
}
