package ref

import (
	"math"

	"github.com/x448/float16"
)

// Rule is what a policy does with scores.
type Rule struct {
	Birth, Update, Reduce            int
	Layer, Selfless, Lifetime, Admit bool
	Decay                            float32
	Seed                             uint32
}

// Birth is the score of a new token, Update what attention does to scores, Reduce how the query heads of a group are
// taken together: include/heads.glsl.
const (
	BirthZero     = 0
	BirthPosition = 1
	BirthLowBit   = 2
	UpdateNone    = 0
	UpdateAdd     = 1
	UpdateLast    = 2
	UpdateHash    = 3
	ReduceSum     = 0
	ReduceMean    = 1
	ReduceMax     = 2
)

// Born is the score of a new token.
func (r Rule) Born(pos int) float32 {
	switch {
	case r.Birth == BirthPosition:
		return float32(pos)
	case r.Birth == BirthLowBit && pos == 0:
		return 1 << 40
	case r.Birth == BirthLowBit:
		low := 1
		for pos%(2*low) == 0 {
			low *= 2
		}
		return float32(low)
	}
	return 0
}

// Head is an entry of the cache's table: one KV head of one sequence in one layer.
type Head struct {
	Offset, Capacity int // its slots in the layer's pool
	Budget           int // slots that an eviction leaves
	Live             int // slots that hold tokens: the first ones
	Recent, Sinks    int // last and first positions that are protected
	Rule
	Slack         int     // slots above the budget that do not start an eviction yet
	Evicted, Last int     // tokens evicted so far; in the last step
	Pinned        [2]Span // protected positions
}

// Span is positions from Begin up to, not including, End.
type Span struct{ Begin, End int }

// Slot is a token of the cache.
type Slot struct {
	Pos   int
	Score float32
}

// Pool is a layer's slots, of all its heads.
type Pool struct {
	KType, VType string    // "f32", "f16", "q8_0" or "q4_0"
	Pad          int       // dimensions of a head as K and V hold them
	K, V         []float64 // (slots, Pad)
	Slots        []Slot
}

// key and value are the vectors of a slot.
func (p *Pool) key(slot int) []float64   { return p.K[slot*p.Pad : (slot+1)*p.Pad] }
func (p *Pool) value(slot int) []float64 { return p.V[slot*p.Pad : (slot+1)*p.Pad] }

// Held are the values of a head as a cache type holds them. f16 clamps and rounds to the nearest. q8_0 and q4_0 give every
// 32 values a scale d, an f16, and round each to a multiple of it: -127 to 127 with d = max |x| / 127, or -8 to 7 with
// d = -x / 8 of the x furthest from 0, so that it is met exactly. The quotient is
// by d before it is an f16, as in ggml; a block beyond the largest scale is clamped.
func Held(cacheType string, x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(float32(v))
		if cacheType == "f16" {
			out[i] = toHalf(v)
		}
	}
	if cacheType != "q8_0" && cacheType != "q4_0" {
		return out
	}
	for ; len(x) > 0; x = x[32:] {
		block := out[len(out)-len(x):][:32]
		furthest := 0.0
		for _, v := range block {
			if math.Abs(v) > math.Abs(furthest) {
				furthest = v
			}
		}
		d, least, most := math.Abs(furthest)/127, -127.0, 127.0
		if cacheType == "q4_0" {
			d, least, most = furthest/-8, -8, 7
		}
		d = min(max(d, -mostHalf), mostHalf)
		for i, v := range block {
			steps := 0.0
			switch {
			case d == 0:
			case cacheType == "q8_0":
				steps = math.Round(v / d)
			default:
				steps = math.Floor(v/d + 0.5)
			}
			block[i] = toHalf(d) * min(max(steps, least), most)
		}
	}
	return out
}

const mostHalf = 65504 // the largest f16

// toHalf is the nearest f16; what lies beyond is clamped.
func toHalf(v float64) float64 {
	return float64(float16.Fromfloat32(float32(min(max(v, -mostHalf), mostHalf))).Float32())
}
