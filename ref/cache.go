package ref

import "github.com/x448/float16"

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
	Type  string    // of K and V, "f16" or "f32"
	Pad   int       // dimensions of a head as K and V hold them
	K, V  []float64 // (slots, Pad)
	Slots []Slot
}

// key and value are the vectors of a slot.
func (p *Pool) key(slot int) []float64   { return p.K[slot*p.Pad : (slot+1)*p.Pad] }
func (p *Pool) value(slot int) []float64 { return p.V[slot*p.Pad : (slot+1)*p.Pad] }

// hold copies values into a key or value of the pool, as its type holds them: f16 is clamped and rounded to the nearest.
func (p *Pool) hold(to, from []float64) {
	const most = 65504 // the largest f16
	for i, v := range from {
		to[i] = float64(float32(v))
		if p.Type == "f16" {
			to[i] = float64(float16.Fromfloat32(float32(min(max(v, -most), most))).Float32())
		}
	}
}
