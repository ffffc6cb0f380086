package h2o

import (
	"fmt"
	"slices"
	"strings"

	"vkdecode/shaders"
)

// Types are the types that K and V are held in, which may differ.
type Types struct{ K, V string }

// ParseTypes reads the type of K and V, "f16", or both as K/V, "q8_0/q4_0".
func ParseTypes(text string) (Types, error) {
	k, v, two := strings.Cut(text, "/")
	if !two {
		v = k
	}
	for _, t := range []string{k, v} {
		if _, known := layouts[t]; !known {
			return Types{}, fmt.Errorf("h2o: KV type %q, want %s, or two as K/V such as q8_0/q4_0", text, strings.Join(shaders.CacheTypes, ", "))
		}
	}
	return Types{k, v}, nil
}

// String is what ParseTypes reads.
func (t Types) String() string {
	if t.K == t.V {
		return t.K
	}
	return t.K + "/" + t.V
}

// TypeWords are all texts that ParseTypes reads.
func TypeWords() []string {
	words := slices.Clone(shaders.CacheTypes)
	for _, k := range shaders.CacheTypes {
		for _, v := range shaders.CacheTypes {
			if k != v {
				words = append(words, k+"/"+v)
			}
		}
	}
	return words
}

// layout is how a cache type holds a head: shaders/cache/<type>/pack.glsl is its other half. A tensor has the uvec4 of all
// slots, then the scales of all slots: include/scales.glsl.
type layout struct {
	pack   int  // dimensions per uvec4
	unit   int  // dimensions that an invocation of rope_cache packs
	share  int  // dimensions that a lane of attend_values takes of a uvec4
	scaled bool // has an f16 scale for each block of 32 dimensions
}

var layouts = map[string]layout{
	"f32":  {4, 4, 4, false},
	"f16":  {8, 8, 8, false},
	"q8_0": {16, 64, 8, true},
	"q4_0": {32, 64, 8, true},
}

const (
	quadBytes  = 16 // a uvec4
	scaleBytes = 4  // a word, which holds two scales
	blockDims  = 32 // dimensions that share a scale
)

// scales is the number of words of scales that a slot has.
func (l layout) scales(pad int) int {
	if !l.scaled {
		return 0
	}
	return ceil(pad, 2*blockDims)
}

// bytes is the size of one slot.
func (l layout) bytes(pad int) int64 {
	return int64(pad/l.pack)*quadBytes + int64(l.scales(pad))*scaleBytes
}

// tensorBytes is the size of so many slots in whole uvec4: what scales leave of the last one, 12 bytes at most, is counted.
func (l layout) tensorBytes(pad, slots int) int64 {
	return (int64(slots)*l.bytes(pad) + quadBytes - 1) / quadBytes * quadBytes
}

// plane is the uvec4 at which the scales of a tensor of so many slots begin.
func (l layout) plane(pad int, slots int64) uint32 { return uint32(slots * int64(pad/l.pack)) }

// HeadPad is the head size as both K and V store it: rounded up to 8, or with scales to whole blocks, so that a head is
// whole uvec4 in every type.
func (g Geometry) HeadPad(t Types) int {
	to := 8
	if layouts[t.K].scaled || layouts[t.V].scaled {
		to = blockDims
	}
	return ceil(g.HeadDim, to) * to
}

// SlotBytes is the size of one slot of one KV head, K and V with their scales: what budgets in bytes, plans and reports
// count. Positions and scores take TableBytes more.
func (g Geometry) SlotBytes(t Types) int64 {
	pad := g.HeadPad(t)
	return layouts[t.K].bytes(pad) + layouts[t.V].bytes(pad)
}

// Bytes is the size of K and V of all layers for so many slots per KV head.
func (g Geometry) Bytes(t Types, slots int) (sum int64) {
	for _, l := range g.Layers {
		sum += g.layerBytes(t, l.KV*slots)
	}
	return sum
}

// layerBytes is the size of K and V for so many slots of a layer.
func (g Geometry) layerBytes(t Types, slots int) (sum int64) {
	for _, name := range []string{t.K, t.V} {
		sum += layouts[name].tensorBytes(g.HeadPad(t), slots)
	}
	return sum
}

// mostKV is the number of KV heads of the layer that has most.
func (g Geometry) mostKV() (n int) {
	for _, l := range g.Layers {
		n = max(n, l.KV)
	}
	return n
}
