package ref

import (
	"math"
	"slices"
	"testing"
)

// linear is a pool of one dimension whose tokens have these positions, and their slot's number as K.
func linear(positions ...int) *Pool {
	p := &Pool{Pad: 1}
	for i, pos := range positions {
		p.K, p.V, p.Slots = append(p.K, float64(i)), append(p.V, -float64(i)), append(p.Slots, Slot{Pos: pos})
	}
	return p
}

func TestRanksCountLowerPositions(t *testing.T) {
	p := linear(99, 15, 36, 13, 10, 98)
	h := Head{Offset: 1, Live: 4}
	if got := p.Ranks(h, 4); !slices.Equal(got, []int{2, 3, 1, 0}) {
		t.Errorf("ranks %v", got)
	}
	if got := p.Ranks(h, 5); !slices.Equal(got, []int{2, 3, 1, 0, 4}) {
		t.Errorf("ranks with a new token %v", got)
	}
	if got := p.Enter(h); !slices.Equal(got, []int{3, 2, 0, 1}) {
		t.Errorf("in order of position: slots %v", got)
	}
}

func TestGatherMakesListedSlotsConsecutive(t *testing.T) {
	to := make([]int, 10)
	if Gather(to, 1, []int{0, 0, 10, 11, 20, 21, 30, 31}, 1, []int{2, 0}, 2); !slices.Equal(to, []int{0, 0, 30, 31, 10, 11, 0, 0, 0, 0}) {
		t.Errorf("%v", to)
	}
}

func TestChooseKeepsTheHighestAndTheWindow(t *testing.T) {
	p := linear(0, 3, 4, 7, 8, 9)
	for i, score := range []float32{0, 2, 1, 2, 0, 0} {
		p.Slots[i].Score = score
	}
	for _, c := range []struct {
		name          string
		h             Head
		kept, victims []int
	}{
		{"room", Head{Budget: 6}, []int{0, 1, 2, 3, 4, 5}, nil},
		{"window", Head{Budget: 4, Recent: 2}, []int{1, 3, 4, 5}, []int{0, 2}},
		{"sinks", Head{Budget: 3, Recent: 1, Sinks: 1}, []int{0, 3, 5}, []int{1, 2, 4}}, // of equal scores the older goes
		{"pinned", Head{Budget: 2, Pinned: [2]Span{{}, {4, 6}}}, []int{2, 3}, []int{0, 1, 4, 5}},
		{"none is just leaving the window", Head{Budget: 4, Recent: 2, Rule: Rule{Admit: true}}, []int{1, 3, 4, 5}, []int{0, 2}},
	} {
		h := c.h
		h.Live, h.Evicted = 6, 10
		kept, victims := h.Choose(p, 9)
		if !slices.Equal(kept, c.kept) || !slices.Equal(victims, c.victims) || h.Live != len(kept) || h.Last != len(victims) || h.Evicted != 10+len(victims) {
			t.Errorf("%s: kept %v, victims %v, head %+v, want %v and %v", c.name, kept, victims, h, c.kept, c.victims)
		}
	}
}

func TestPoliciesBeginWithScoresTheyUnderstand(t *testing.T) {
	for _, c := range []struct {
		rule     Rule
		measured bool
		want     float32
	}{
		{Rule{Update: UpdateAdd}, true, 0.5}, {Rule{Update: UpdateAdd}, false, 0}, {Rule{Update: UpdateLast}, true, 0.5},
		{Rule{Birth: BirthPosition}, true, 12}, {Rule{Birth: BirthLowBit}, false, 4},
	} {
		if got := c.rule.Begin(0.5, 12, c.measured); got != c.want {
			t.Errorf("%+v, measured %t: %v, want %v", c.rule, c.measured, got, c.want)
		}
	}
}

func TestCarryGoesThereAndBack(t *testing.T) {
	prompt, step := make([]int, 8), []int{1, 2, 3, 4}
	if Carry(prompt, step, 2, []int{3, 1}); !slices.Equal(prompt, []int{0, 0, 3, 4, 0, 0, 1, 2}) {
		t.Errorf("there: %v", prompt)
	}
	back := make([]int, 4)
	if CarryBack(back, prompt, 2, []int{3, 1}); !slices.Equal(back, step) {
		t.Errorf("back: %v", back)
	}
}

// The same token turned to its place, keys where they are read and queries when they come, is as far from the query as if
// both had been turned by their positions: rotations are relative.
func TestRenumberedKeysAreTurnedToTheirRank(t *testing.T) {
	angle := math.Pi / 6
	var turns [][2]float32
	for place := range 12 {
		turns = append(turns, [2]float32{float32(math.Cos(angle * float64(place))), float32(math.Sin(angle * float64(place)))})
	}
	for _, halves := range []bool{false, true} {
		r := RopeCache{QHeads: 1, KVHeads: 1, Dim: 3, Pad: 4, RopeDim: 2, Halves: halves, Scale: 1, Turns: turns}
		logit := func(renumber bool, positions ...int) float64 {
			r.Renumber = renumber
			p := &Pool{KType: "f32", VType: "f32", Pad: 4, K: make([]float64, 16), V: make([]float64, 16), Slots: make([]Slot, 4)}
			var q []float64
			h := Head{}
			for i, pos := range positions {
				q = r.Append([]Row{{Pos: pos}}, []float32{1, 2, 3, float32(i), 1, 1, 0, 0, 0}, []Head{h}, p)
				h.Live++
			}
			if renumber {
				p = p.Turned(h, p.Ranks(h, h.Live), turns, 2)
			}
			return dot(q, p.key(0))
		}
		if got, want := logit(true, 2, 5, 9), logit(false, 0, 1, 2); math.Abs(got-want) > 1e-6 {
			t.Errorf("halves %t: places 0 and 2 give %v, want that of positions 0 and 2, %v", halves, got, want)
		}
		if got, other := logit(true, 2, 5, 9), logit(false, 2, 5, 9); math.Abs(got-other) < 1e-2 {
			t.Errorf("halves %t: positions 2 and 9 give %v, as places 0 and 2 do", halves, got)
		}
	}
}

// Keys that are turned where they are read have their pairs side by side, and so have their queries.
func TestRenumberedPairsLieSideBySide(t *testing.T) {
	quarter := [][2]float32{{1, 0}, {1, 0}, {0, 1}, {0, 1}}
	r := RopeCache{QHeads: 1, KVHeads: 1, Dim: 5, Pad: 6, RopeDim: 4, Halves: true, Renumber: true, Scale: 2, Turns: quarter}
	p := &Pool{KType: "f32", VType: "f32", Pad: 6, K: make([]float64, 18), V: make([]float64, 18), Slots: make([]Slot, 3)}
	q := r.Append([]Row{{Pos: 7}}, []float32{1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0}, []Head{{Live: 1}}, p)
	if !near(q, []float64{-6, 2, -8, 4, 10, 0}) || !near(p.key(1), []float64{1, 3, 2, 4, 5, 0}) || p.Slots[1].Pos != 7 {
		t.Errorf("q %v, k %v, slot %v", q, p.key(1), p.Slots[1])
	}
}
