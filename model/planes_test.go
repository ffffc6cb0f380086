package model

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"vkdecode/model/gguf"
	"vkdecode/ref"
	"vkdecode/runtime"
)

func words(b []byte) (out []uint32) {
	for i := 0; i < len(b); i += 4 {
		out = append(out, binary.LittleEndian.Uint32(b[i:]))
	}
	return out
}

func TestPlanesAgreeWithTheirTwin(t *testing.T) {
	for kind, w := range weightTypes {
		for _, launch := range []runtime.Launch{{Lanes: 8, Run: 1, Rows: 16}, {Lanes: 4, Run: 4, Rows: 4}, {Lanes: 64, Run: 32, Rows: 4}, {Lanes: 32, Run: 2, Rows: 8}} {
			const fileBlocks = 3
			columns := fileBlocks * w.columns
			p := newPlanes(launch, w, columns)
			rows := 2*p.groupRows() + 1
			size := fileBlocks * w.bytes
			own := size // of a row in the file: without scales it may end within a block
			if w.scales == noScales {
				own -= w.bytes / 4
			}
			raw := make([]byte, rows*size)
			random := rand.NewChaCha8([32]byte{byte(kind)})
			random.Read(raw)
			for row := range rows {
				clear(raw[row*size+own : (row+1)*size])
			}
			var weights, scales []byte
			for group := range 3 {
				gw, gs := make([]byte, p.weightBytes()), make([]byte, p.scaleBytes())
				if w.scales == noScales {
					gs = nil
				}
				p.pack(w, func(i int) []byte {
					if i += group * p.groupRows(); i < rows {
						return raw[i*size:][:own]
					}
					return nil
				}, gw, gs)
				weights, scales = append(weights, gw...), append(scales, gs...)
			}
			wantWeights, wantScales := ref.Planes(w.name, rows, columns, raw, launch.Lanes, launch.Run, launch.Rows)
			if !slices.Equal(words(weights), wantWeights) {
				t.Errorf("%s, %+v: another weight plane", w.name, launch)
			}
			if !slices.Equal(words(scales), wantScales) {
				t.Errorf("%s, %+v: another scale plane", w.name, launch)
			}
		}
	}
}

// The other form of IQ4_NL is that of the Q8_0 block with the same scale and the values as bytes.
func TestValuesOfIQ4NLFillTheBytesOfQ8(t *testing.T) {
	values := [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	block := []byte{0x34, 0x9A}
	bytes := append([]byte{0x34, 0x9A}, make([]byte, 32)...)
	for i := range byte(16) {
		low, high := i*7%16, 15-i
		block = append(block, low|high<<4)
		bytes[2+i], bytes[18+i] = byte(values[low]), byte(values[high])
	}
	w := onCPU[gguf.IQ4_NL]
	got, gotScale, want, wantScale := make([]uint32, w.words), make([]uint32, 1), make([]uint32, 8), make([]uint32, 1)
	w.repack(block, got, gotScale)
	weightTypes[gguf.Q8_0].repack(bytes, want, wantScale)
	if !slices.Equal(got, want) || gotScale[0] != wantScale[0] {
		t.Errorf("%x, %x, want %x, %x", got, gotScale, want, wantScale)
	}
	if ours, q8 := w, weightTypes[gguf.Q8_0]; ours.name != q8.name || ours.words != q8.words || ours.scales != q8.scales || int64(ours.bytes) != gguf.IQ4_NL.BlockBytes() {
		t.Errorf("%+v does not fit the kernel of %+v", ours, q8)
	}
}

// Every row of the table has the file's blocks.
func TestWeightTypesHaveTheBlocksOfTheFormat(t *testing.T) {
	for kind, w := range weightTypes {
		if each := int64(w.columns) / kind.BlockSize(); int64(w.columns)%kind.BlockSize() != 0 || each*kind.BlockBytes() != int64(w.bytes) {
			t.Errorf("%v: %d bytes for %d columns, the format has %d for %d", kind, w.bytes, w.columns, kind.BlockBytes(), kind.BlockSize())
		}
	}
}

func TestPairedRowsAgreeWithTheirTwin(t *testing.T) {
	const rows = 37
	tensor := func(first byte) *gguf.Tensor { // one byte a row: its number
		x := &gguf.Tensor{Shape: []int64{1, rows}}
		for i := range byte(rows) {
			x.Data = append(x.Data, first+i)
		}
		return x
	}
	for _, launch := range []runtime.Launch{{Lanes: 8, Run: 1, Rows: 16}, {Lanes: 64, Run: 32, Rows: 4}} {
		m := &Matrix{rows: 2 * rows, paired: true, parts: []*gguf.Tensor{tensor(0), tensor(rows)}, planes: newPlanes(launch, weightTypes[gguf.F32], 32)}
		for i, want := range ref.Paired(rows, launch.Lanes, launch.Run, launch.Rows) {
			row := m.row(i)
			if want < 0 && row != nil || want >= 0 && (len(row) != 1 || int(row[0]) != want) {
				t.Errorf("%+v: row %d is %v, want %d", launch, i, row, want)
			}
		}
	}
}
