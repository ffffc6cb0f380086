package tests

import (
	"math"
	"math/rand/v2"

	"github.com/x448/float16"

	"vkdecode/h2o"
)

// cacheTypes are the types of K and V with what a value on the device may differ from the twin's, as NMSE, for the kernel
// rotates in f32 what the twin rotates in float64: now and then a value is rounded the other way.
var cacheTypes = []struct {
	name string
	most float64
}{{"f16", 1e-8}, {"f32", productError}, {"q4_0", 1e-8}, {"q8_0", 1e-8}}

func roundingError(cacheType string) float64 {
	for _, t := range cacheTypes {
		if t.name == cacheType {
			return t.most
		}
	}
	return 0
}

// typesOf spreads the types over cases: by number, the first four have one type for both.
func typesOf(i, shift int) h2o.Types {
	return h2o.Types{K: cacheTypes[(i+shift)%4].name, V: cacheTypes[(i+i/4+shift)%4].name}
}

// mixed are the two ways to hold K and V in the two types with scales: together they run both kernels of attention in both.
var mixed = []h2o.Types{{K: "q8_0", V: "q4_0"}, {K: "q4_0", V: "q8_0"}}

// scaled tells whether a type has scales, and wordValues is the number of values in a word of data.
func scaled(cacheType string) bool { return cacheType == "q8_0" || cacheType == "q4_0" }

func wordValues(cacheType string) int {
	return map[string]int{"f32": 1, "f16": 2, "q8_0": 4, "q4_0": 8}[cacheType]
}

// padOf is the size of a head as a cache of these types holds it.
func padOf(types h2o.Types, dim int) int {
	if scaled(types.K) || scaled(types.V) {
		return (dim + 31) / 32 * 32
	}
	return (dim + 7) / 8 * 8
}

// slotLayout is where a tensor of K or V has what belongs to a slot, in words.
type slotLayout struct{ quads, data, scales, plane, words int }

// layoutOf is the layout of a tensor of so many slots.
func layoutOf(cacheType string, slots, pad int) (l slotLayout) {
	l.data = pad / wordValues(cacheType)
	l.quads, l.plane = l.data/4, slots*l.data
	if scaled(cacheType) {
		l.scales = (pad + 63) / 64
	}
	l.words = (l.plane + slots*l.scales + 3) / 4 * 4
	return l
}

// randomCache fills a tensor of so many slots.
func randomCache(rnd *rand.Rand, cacheType string, slots, pad int) []uint32 {
	l := layoutOf(cacheType, slots, pad)
	words := make([]uint32, l.words)
	for i := range words {
		half := func(x float64) uint32 { return uint32(float16.Fromfloat32(float32(x)).Bits()) }
		switch {
		case i >= l.plane: // scales; some are negative
			words[i] = half((rnd.Float64()-0.3)/float64(len(cacheType))) | half(rnd.Float64()*0.1)<<16
		case cacheType == "f32":
			words[i] = math.Float32bits(float32(rnd.NormFloat64()))
		case cacheType == "f16":
			words[i] = half(rnd.NormFloat64()) | half(rnd.NormFloat64())<<16
		default:
			words[i] = rnd.Uint32()
		}
	}
	return words
}

// unpacked are the values of a tensor's slots, (slots, pad).
func unpacked(cacheType string, words []uint32, slots, pad int) (values []float32) {
	l := layoutOf(cacheType, slots, pad)
	half := func(w uint32, high int) float32 { return float16.Frombits(uint16(w >> (16 * high))).Float32() }
	for slot := range slots {
		for i := range pad {
			w := words[slot*l.data+i/wordValues(cacheType)]
			var v float32
			switch cacheType {
			case "f32":
				v = math.Float32frombits(w)
			case "f16":
				v = half(w, i%2)
			case "q8_0":
				v = float32(int8(w >> (8 * (i % 4))))
			case "q4_0":
				v = float32(int8(w>>(4*(i%8))<<4) >> 4)
			}
			if scaled(cacheType) {
				v *= half(words[l.plane+slot*l.scales+i/64], i/32%2)
			}
			values = append(values, v)
		}
	}
	return values
}

func widen(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}
