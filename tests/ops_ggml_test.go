package tests

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"vkdecode/h2o"
	"vkdecode/ref"
	"vkdecode/shaders"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// ggmlBlocks are rows of numbers and the blocks that ggml makes of them; tests/reference/cache_types.py writes them.
type ggmlBlocks struct {
	Columns int
	X       []byte            // (rows, columns) f32
	Blocks  map[string][]byte // by type
}

func readBlocks(t *testing.T) (g ggmlBlocks, x []float32) {
	t.Helper()
	readJSON(t, "testdata/cache_types.json", &g)
	for at := 0; at < len(g.X); at += 4 {
		x = append(x, math.Float32frombits(binary.LittleEndian.Uint32(g.X[at:])))
	}
	return g, x
}

// The kernel that fills the cache packs q8_0 and q4_0 as ggml does, bit for bit, and so do the twins.
func TestCacheHoldsTheBlocksOfGGML(t *testing.T) {
	g, x := readBlocks(t)
	for name, blocks := range g.Blocks {
		if err := twinBlocks(name, x, blocks); err != nil {
			t.Error(err)
		}
		blocks[len(blocks)/2] ^= 0x11
		if twinBlocks(name, x, blocks) == nil {
			t.Errorf("%s: a changed block makes no difference to the twin", name)
		}
		blocks[len(blocks)/2] ^= 0x11
	}
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		b := &bench{d, map[string]*vk.Pipeline{}, map[string]bool{}}
		defer b.close()
		for name, blocks := range g.Blocks {
			for _, l := range b.launches() {
				if err := b.deviceBlocks(l, name, x, g.Columns, blocks); err != nil {
					t.Errorf("%s, %s: %v", l, name, err)
				}
			}
			for _, at := range []int{0, len(blocks) - 1} { // a scale and the last value
				blocks[at] ^= 1
				if b.deviceBlocks(b.launches()[0], name, x, g.Columns, blocks) == nil {
					t.Errorf("%s: a changed byte %d makes no difference", name, at)
				}
				blocks[at] ^= 1
			}
		}
	})
}

// twinBlocks compares what the twin makes of x with ggml's blocks.
func twinBlocks(cacheType string, x []float32, blocks []byte) error {
	var got []float32
	for _, v := range ref.Held(cacheType, widen(x)) {
		got = append(got, float32(v))
	}
	return compare(cacheType, got, ref.Weights(cacheType, blocks), exact)
}

// deviceBlocks brings rows of x, not rotated, into K and V and compares the words there with ggml's blocks.
func (b *bench) deviceBlocks(l launch, cacheType string, x []float32, columns int, blocks []byte) error {
	rows, scales := len(x)/columns, columns/64
	r := b.newCache(l, rand.New(rand.NewPCG(1, 1)), h2o.Types{K: cacheType, V: cacheType}, columns, 1, []sequence{{rows: rows}}, nil)
	defer r.free()
	var heads []float32
	for row := range rows {
		for range 3 { // q, k, v
			heads = append(heads, x[row*columns:][:columns]...)
		}
	}
	still := make([][2]float32, 64*columns/2)
	for i := range still {
		still[i] = [2]float32{1, 0}
	}
	r.add(shaders.RopeCache{Lanes: uint32(l.lanes), QHeads: 1, KvHeads: 1, HeadDim: uint32(columns), HeadPad: uint32(columns), RopeDim: uint32(columns),
		Head: others, XStride: uint32(3 * columns), Scale: 1, Count: 3, KPlane: r.kPlane, VPlane: r.vPlane,
		Step: r.step.Range, Table: r.table.Range, X: in(r.rig, "x", heads).Range, Rope: in(r.rig, "rope", still).Range, Q: r.out("q", rows*columns).Range,
		K: r.k.Range, V: r.v.Range, Slots: r.slots.Range}, "", cacheType, ceil(3*scales, l.lanes), rows, 1)
	if err := r.run(); err != nil {
		return err
	}
	for name, words := range map[string][]uint32{"k": r.words(r.k), "v": r.words(r.v)} {
		l, first := layoutOf(cacheType, len(r.twin.Slots), columns), r.heads[0].Offset
		wantData, wantScales := ggmlWords(cacheType, blocks)
		if err := compareWords(name, words[first*l.data:][:rows*l.data], wantData); err != nil {
			return err
		}
		if err := compareWords(fmt.Sprintf("scales of %s", name), words[l.plane+first*l.scales:][:rows*l.scales], wantScales); err != nil {
			return err
		}
	}
	return nil
}

// ggmlWords are blocks as the cache holds them: values in order, signed, and pairs of scales.
func ggmlWords(cacheType string, blocks []byte) (data, scales []uint32) {
	size := ref.Blocks[cacheType].Bytes
	for n := 0; n*size < len(blocks); n++ {
		block := blocks[n*size:][:size]
		scale := uint32(binary.LittleEndian.Uint16(block))
		if n%2 == 0 {
			scales = append(scales, scale)
		} else {
			scales[n/2] |= scale << 16
		}
		if cacheType == "q8_0" {
			for at := 2; at < size; at += 4 {
				data = append(data, binary.LittleEndian.Uint32(block[at:]))
			}
			continue
		}
		for w := range 4 {
			word := uint32(0)
			for j := range 8 { // the low halves of the bytes are values 0 to 15, the high ones 16 to 31
				i := w*8 + j
				q := block[2+i%16] >> (i / 16 * 4) & 15
				word |= uint32((q-8)&15) << (4 * j)
			}
			data = append(data, word)
		}
	}
	return data, scales
}
