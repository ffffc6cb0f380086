package ref

import (
	"math"
	"slices"
	"testing"
)

// near tells whether values are those worked out by hand.
func near(got, want []float64) bool {
	return slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(b)) })
}

func TestWeightsAreTheFormatsFormulas(t *testing.T) {
	const one, minusTwo, half = 0x3C00, 0xC000, 0x3800 // f16
	block := func(kind string, head ...byte) []byte {
		return append(head, make([]byte, Blocks[kind].Bytes-len(head))...)
	}
	patched := func(kind string, bytes map[int]byte) []byte {
		b := block(kind)
		for at, v := range bytes {
			b[at] = v
		}
		return b
	}
	for _, c := range []struct {
		kind  string
		block []byte
		want  map[int]float64 // by column
	}{
		{"f32", block("f32", 0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0), map[int]float64{0: 1, 1: -2, 2: 0}},
		{"f16", block("f16", one&0xFF, one>>8, minusTwo&0xFF, minusTwo>>8), map[int]float64{0: 1, 1: -2, 2: 0}},
		{"bf16", block("bf16", 0x80, 0x3F, 0, 0xC0), map[int]float64{0: 1, 1: -2, 2: 0}},
		{"q8_0", block("q8_0", minusTwo&0xFF, minusTwo>>8, 3, 0x80, 0xFF), map[int]float64{0: -6, 1: 256, 2: 2, 3: 0}},
		{"q4_0", block("q4_0", half&0xFF, half>>8, 0x8F, 0x98), map[int]float64{0: 3.5, 16: 0, 1: 0, 17: 0.5, 2: -4}},
		{"q4_1", block("q4_1", half&0xFF, half>>8, one&0xFF, one>>8, 0x2F), map[int]float64{0: 8.5, 16: 2, 1: 1}},
		{"q5_0", block("q5_0", half&0xFF, half>>8, 1, 0, 1, 0, 0x8F), map[int]float64{0: 7.5, 16: 4, 1: -8, 17: -8}},
		{"q5_1", block("q5_1", half&0xFF, half>>8, one&0xFF, one>>8, 0, 0, 0, 0x80, 0x2F), map[int]float64{0: 8.5, 16: 2, 1: 1, 31: 9}},
		{"iq4_nl", block("iq4_nl", half&0xFF, half>>8, 0x8F), map[int]float64{0: 56.5, 16: 0.5, 1: -63.5}},
		{"mxfp4", block("mxfp4", 128, 0x9F, 0x71), map[int]float64{0: -12, 16: -1, 1: 1, 17: 12, 2: 0}},
		{"mxfp4", block("mxfp4", 0, 0x07), map[int]float64{0: 6 * 0x1p-127}},
		// The first weights of the first and of the last 16 or 32, and of two between whose scales are packed otherwise.
		{"q2_k", patched("q2_k", map[int]byte{81: one >> 8, 83: half >> 8, 0: 0x21, 15: 0x43, 8: 0x01, 16: 0x01, 79: 0xC0, 48: 0x02}),
			map[int]float64{0: 1 - 1, 1: -1, 255: 9 - 2, 254: -2, 128: 2, 129: 0, 64: 0}},
		{"q3_k", patched("q3_k", map[int]byte{109: one >> 8, 96: 0x0F, 104: 0x02, 107: 0xC0, 103: 0x10, 0: 0x81, 32: 0x02, 95: 0xC0, 31: 0x80}),
			map[int]float64{0: (47 - 32) * 2, 1: 15 * -4, 224: -32 * 0, 225: -32 * -4, 255: (49 - 32) * 3, 254: 17 * -4}},
		{"q4_k", patched("q4_k", map[int]byte{1: one >> 8, 3: half >> 8, 4: 0xC5, 8: 0x42, 7: 0x3F, 11: 0xC1, 12: 0x21, 15: 0x32, 16: 0x0F, 143: 0xF0}),
			map[int]float64{0: 5*15 - 1, 1: -1, 96: 0 - 0.5, 128: 0 - 0.5*(2+16), 129: -9, 255: 2*15 - 0.5*(3+48), 254: -25.5}},
		{"q5_k", patched("q5_k", map[int]byte{1: one >> 8, 3: half >> 8, 4: 0xC5, 8: 0x42, 7: 0x3F, 11: 0xC1, 12: 0x21, 15: 0x32, 16: 0x11, 47: 0x80, 48: 0x0F, 175: 0xF0}),
			map[int]float64{0: 5*31 - 1, 1: -1, 96: 0 - 0.5, 128: (1+48)*16 - 9, 129: -9, 255: 2*31 - 0.5*(3+48), 254: -25.5}},
		{"q6_k", patched("q6_k", map[int]byte{209: one >> 8, 192: 0xFE, 196: 0x03, 207: 0x7F, 0: 0x5F, 128: 0x23, 127: 0xF0, 191: 0xC0}),
			map[int]float64{0: -2 * (63 - 32), 1: -2 * -32, 64: 3 * (5 + 32 - 32), 65: 3 * -32, 255: 127 * 31, 254: 127 * -32}},
	} {
		w := Weights(c.kind, c.block)
		for j, want := range c.want {
			if w[j] != want {
				t.Errorf("%s: weight %d is %v, want %v", c.kind, j, w[j], want)
			}
		}
	}
}

func TestMatMulAndItsEpilogues(t *testing.T) {
	w, x := []float64{1, 2, 3, 4, 0.5, 0, 0, -1}, []float64{1, -1} // p = -1, -1, 0.5, 1
	silu := func(v float64) float64 { return v * (0.5 + 0.5*math.Tanh(v/2)) }
	for e, want := range map[Epilogue][]float64{
		Store: {0, -1, 0.5, 1}, AddRes: {10, 19, 30.5, 41}, SiluPair: {0, silu(-1)}, SiluMul: {0, 20 * silu(-1), 30 * silu(0.5), 40 * silu(1)},
	} {
		if got := MatMul(w, x, []float32{1, 0, 0, 0}, []float32{10, 20, 30, 40}, e); !near(got, want) {
			t.Errorf("epilogue %d: %v, want %v", e, got, want)
		}
	}
}

func TestNLLAndKL(t *testing.T) {
	half := float32(math.Log(0.5))
	for shift := range 2 { // softmax does not change when all logits do
		x := []float32{half + float32(shift), half + float32(shift)}
		if got := NLL(x, 1); !near([]float64{got}, []float64{math.Ln2}) {
			t.Errorf("a fair coin has %v nats, want ln 2", got)
		}
	}
	if got := NLL([]float32{1e4, 0, -1e4}, 2); got != 2e4 {
		t.Errorf("a likelihood of e^-20000 is %v nats", got)
	}
	quarter := []float32{float32(math.Log(0.25)), float32(math.Log(0.75))}
	if got, want := KL([]float32{half, half}, quarter), math.Log(2/math.Sqrt(3)); !near([]float64{got}, []float64{want}) {
		t.Errorf("KL of a fair and an unfair coin is %v, want %v", got, want)
	}
	if got := KL(quarter, quarter); got != 0 {
		t.Errorf("KL of a coin and itself is %v", got)
	}
}

func TestRMSNorm(t *testing.T) {
	if got := RMSNorm([]float32{3, 4, 0, 0}, []float32{1, 2, 3, 4}, 0); !near(got, []float64{1.2, 3.2, 0, 0}) {
		t.Errorf("%v", got)
	}
	if got := RMSNorm([]float32{0}, []float32{1}, 1e-5); !near(got, []float64{0}) {
		t.Errorf("zero: %v", got)
	}
}

func TestRopeCacheTurnsPairsAndFillsSlots(t *testing.T) {
	quarter := [][2]float32{{1, 0}, {1, 0}, {0, 1}, {0, 1}} // position 0 stays, position 1 turns by 90 degrees
	for halves, want := range map[bool][]float64{false: {-4, 2, -8, 6, 10, 0}, true: {-6, -8, 2, 4, 10, 0}} {
		r := RopeCache{QHeads: 1, KVHeads: 1, Dim: 5, Pad: 6, RopeDim: 4, Halves: halves, Scale: 2, Turns: quarter}
		pool := &Pool{KType: "f16", VType: "f16", Pad: 6, K: make([]float64, 18), V: make([]float64, 18), Slots: make([]Slot, 3)}
		x := []float32{1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 1, 1, 1, 1e6}
		q := r.Append([]Row{{Pos: 1}}, x, []Head{{Offset: 1, Live: 1, Rule: Rule{Birth: BirthPosition}}}, pool)
		for i := range want {
			if q[i] != want[i] || pool.key(2)[i] != want[i]/2 {
				t.Errorf("halves %t: q %v, k %v, want %v and half of it", halves, q, pool.key(2), want)
				break
			}
		}
		if v := pool.value(2); !near(v, []float64{1, 1, 1, 1, 65504, 0}) || pool.Slots[2] != (Slot{1, 1}) {
			t.Errorf("v %v, slot %v", v, pool.Slots[2])
		}
	}
}

func TestAttendIsSoftmaxOverWhatTheQuerySees(t *testing.T) {
	ln3 := math.Log(3)
	p := &Pool{Pad: 1, K: []float64{ln3, 0, 9, 0}, V: []float64{4, 8, 100, 16}, Slots: []Slot{{0, 0.5}, {1, 0}, {7, 0}, {3, 0}}}
	h := Head{Rule: Rule{Update: UpdateAdd, Decay: 1}}
	a := p.Attend(h, 4, []float32{1}, 3, 2) // the third slot is of a later position
	for _, c := range []struct {
		name      string
		got, want []float64
	}{
		{"P", a.P, []float64{0.6, 0.2, 0, 0.2}}, {"Y", a.Y, []float64{7.2}}, {"E", a.E, []float64{1, 1. / 3, 0, 1}}, {"Peak", a.Peak, []float64{ln3, 0}},
		{"Sum", a.Sum, []float64{4. / 3, 1}}, {"F", a.F, []float64{0.6, 0.2}}, {"O", slices.Concat(a.O...), []float64{4 + 8./3, 16}},
		{"scores", p.Score(h, 4, 0, []ScoreQuery{{3, [][]float64{a.P, a.P}}}), []float64{1.7, 0.4, 0, 0.4}}, {"other scores", p.Score(Head{}, 2, 0, []ScoreQuery{{3, [][]float64{a.P}}}), []float64{0.5, 0}},
		{"nothing seen", p.Attend(Head{Offset: 1}, 3, []float32{1}, 1, 1).Peak, []float64{0, Never, Never}},
	} {
		if !near(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestWalkLeavesPartsThatMergeToAttention(t *testing.T) {
	ln3 := math.Log(3)
	p := &Pool{Pad: 1, K: []float64{7, 0, ln3, 0, 0, ln3}, V: []float64{9, 4, 8, 16, 2, 6}, Slots: make([]Slot, 6)}
	parts := p.Walk(Head{Offset: 1}, 5, []float64{1}, 2, 2) // three splits: two in the first range
	a := p.Attend(Head{Offset: 1}, 5, []float32{1}, 9, 2)
	for _, c := range []struct {
		name      string
		got, want []float64
	}{
		{"peaks", slices.Concat([]float64{parts[0].Peak, parts[1].Peak}, parts[0].Peaks, parts[1].Peaks), []float64{ln3, ln3, ln3, ln3, ln3}},
		{"sums", []float64{parts[0].Sum, parts[1].Sum}, []float64{2, 1}}, {"o", slices.Concat(parts[0].O, parts[1].O), []float64{(4+16+2)/3. + 8, 6}},
		{"e", slices.Concat(parts[0].E, parts[1].E), []float64{1. / 3, 1, 1. / 3, 1. / 3, 1}},
		{"merged", Merge(parts), a.Y}, {"in one range", Merge(p.Walk(Head{Offset: 1}, 5, []float64{1}, 3, 1)), a.Y},
		{"with an empty range", Merge(p.Walk(Head{Offset: 1}, 5, []float64{1}, 3, 3)), a.Y},
		{"probabilities", []float64{Shares(parts, parts[0].Peaks)[0] * parts[0].E[1], Shares(parts, parts[1].Peaks)[0] * parts[1].E[0]}, []float64{a.P[1], a.P[4]}},
		{"so far", p.Walk(Head{Offset: 1}, 2, []float64{1}, 1, 1)[0].Peaks, []float64{0, ln3}},
	} {
		if !near(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestEvictTakesTheLowestAndOfEqualsTheOlder(t *testing.T) {
	pool := func(slots ...Slot) *Pool { return &Pool{Slots: slots} }
	ties := pool(Slot{15, 1}, Slot{36, 1}, Slot{13, 1}, Slot{10, 1})
	for _, c := range []struct {
		name    string
		h       Head
		pool    *Pool
		victims []int
		moves   []Move
	}{
		{"ties", Head{Budget: 2}, ties, []int{2, 3}, nil},
		{"moves", Head{Budget: 2, Sinks: 11, Recent: 1}, ties, []int{0, 2}, []Move{{3, 0}}},
		{"negative", Head{Budget: 2}, pool(Slot{0, 0.5}, Slot{1, -2}, Slot{2, -1}, Slot{3, 0}), []int{1, 2}, []Move{{3, 1}}},
		{"pinned", Head{Budget: 3, Pinned: [2]Span{{0, 2}, {3, 4}}}, pool(Slot{0, 0}, Slot{1, 0}, Slot{2, 9}, Slot{3, 0}), []int{2}, []Move{{3, 2}}},
		{"window", Head{Budget: 3, Recent: 3}, pool(Slot{0, 9}, Slot{1, 0}, Slot{2, 0}, Slot{3, 0}), []int{0}, []Move{{3, 0}}},
		{"room", Head{Budget: 4}, ties, nil, nil},
		{"slack", Head{Budget: 2, Slack: 2}, ties, nil, nil},
		{"too little slack", Head{Budget: 2, Slack: 1}, ties, []int{2, 3}, nil},
		{"admitted", Head{Budget: 3, Recent: 1, Rule: Rule{Admit: true}}, pool(Slot{0, 9}, Slot{34, 1}, Slot{35, 0}, Slot{36, 0}), []int{0}, []Move{{3, 0}}},
		{"only admitted ones", Head{Budget: 3, Recent: 1, Rule: Rule{Admit: true}}, pool(Slot{0, 5}, Slot{1, 0}, Slot{2, 0}, Slot{3, 0}), []int{0}, []Move{{3, 0}}},
	} {
		last := 0
		for _, s := range c.pool.Slots {
			last = max(last, s.Pos)
		}
		victims, moves := c.h.Evict(c.pool, 4, last, false)
		if !slices.Equal(victims, c.victims) || !slices.Equal(moves, c.moves) || c.h.Live != 4-len(victims) || c.h.Last != len(victims) || c.h.Evicted != len(victims) {
			t.Errorf("%s: victims %v, moves %v, head %+v, want %v and %v", c.name, victims, moves, c.h, c.victims, c.moves)
		}
	}
}

// The examples of the policies' definition.
func TestScoresFollowTheRule(t *testing.T) {
	add := Rule{Update: UpdateAdd, Decay: 1}
	for _, c := range []struct {
		name  string
		rule  func(r *Rule)
		slots []Slot
		rows  []ScoreQuery
		want  []float64
	}{
		{"accumulate", func(*Rule) {}, []Slot{{0, 1.5}, {1, -0.8}, {2, 4.1}, {3, 7.7}, {4, 0}}, []ScoreQuery{{4, [][]float64{{-7.4, 2.6, 8.9, -0.1, 3.5}}}}, []float64{-5.9, 1.8, 13.0, 7.6, 3.5}},
		{"sum", func(*Rule) {}, []Slot{{0, 0}, {1, 0}}, []ScoreQuery{{1, [][]float64{{1, 2}, {3, 6}}}}, []float64{4, 8}},
		{"mean", func(r *Rule) { r.Reduce = ReduceMean }, []Slot{{0, 0}, {1, 0}}, []ScoreQuery{{1, [][]float64{{1, 2}, {3, 6}}}}, []float64{2, 4}},
		{"max", func(r *Rule) { r.Reduce = ReduceMax }, []Slot{{0, 0}, {1, 0}}, []ScoreQuery{{1, [][]float64{{1, 2}, {3, 6}}}}, []float64{3, 6}},
		{"decay", func(r *Rule) { r.Decay = 0.5 }, []Slot{{0, 1}, {1, 1}, {2, 1}, {3, 1}}, []ScoreQuery{{3, [][]float64{{0, 1, 2, 3}}}}, []float64{.5, 1.5, 2.5, 3.5}},
		{"decay in a chunk", func(r *Rule) { r.Decay = 0.5 }, []Slot{{0, 8}}, []ScoreQuery{{1, [][]float64{{1}}}, {2, [][]float64{{3}}}}, []float64{2 + 0.5 + 3}},
		{"lifetime", func(r *Rule) { r.Lifetime = true }, []Slot{{0, 2}, {3, 0}}, []ScoreQuery{{3, [][]float64{{6, 5}}}}, []float64{3, 5}},
		{"selfless", func(r *Rule) { r.Selfless = true }, []Slot{{0, 1}, {1, 0}}, []ScoreQuery{{1, [][]float64{{1, 5}}}}, []float64{2, 0}},
		{"last", func(r *Rule) { r.Update = UpdateLast }, []Slot{{0, 9}}, []ScoreQuery{{1, [][]float64{{1}}}, {2, [][]float64{{3}, {4}}}}, []float64{7}},
		{"none", func(r *Rule) { r.Update = UpdateNone }, []Slot{{0, 9}}, []ScoreQuery{{1, [][]float64{{1}}}}, []float64{9}},
	} {
		h := Head{Rule: add}
		c.rule(&h.Rule)
		pool := &Pool{Slots: c.slots}
		for i, got := range pool.Score(h, len(c.slots), 0, c.rows) {
			if math.Abs(got-c.want[i]) > 1e-6 {
				t.Errorf("%s: slot %d has %g, want %g", c.name, i, got, c.want[i])
			}
		}
	}
	low := Rule{Birth: BirthLowBit}
	for pos, want := range []float32{1 << 40, 1, 2, 1, 4, 1, 2, 1, 8} {
		if low.Born(pos) != want {
			t.Errorf("position %d is born with %g, want %g", pos, low.Born(pos), want)
		}
	}
}

// Numbers of one step are all different and spread over [0, 1); other steps, heads and seeds give others.
func TestHashesAreSpread(t *testing.T) {
	seen, sum := map[float64]bool{}, 0.0
	for pos := range 1000 {
		h := Hash(1, 1000, 3, pos)
		seen[h] = true
		sum += h
	}
	if len(seen) < 999 || math.Abs(sum/1000-0.5) > 0.04 {
		t.Errorf("%d different numbers of mean %g", len(seen), sum/1000)
	}
	if a := Hash(1, 9, 3, 5); a == Hash(2, 9, 3, 5) || a == Hash(1, 8, 3, 5) || a == Hash(1, 9, 2, 5) || a == Hash(1, 9, 3, 4) {
		t.Error("an argument makes no difference")
	}
}

func TestCompactMovesSurvivors(t *testing.T) {
	p := &Pool{Pad: 1, K: []float64{1, 2, 3}, V: []float64{4, 5, 6}, Slots: []Slot{{1, 0}, {2, 0}, {3, 0.5}}}
	p.Compact(Head{Offset: 1}, []Move{{1, 0}})
	if !slices.Equal(p.K, []float64{1, 3, 3}) || !slices.Equal(p.V, []float64{4, 6, 6}) || p.Slots[1] != (Slot{3, 0.5}) {
		t.Errorf("%+v", p)
	}
}

func TestAdvance(t *testing.T) {
	next, done := Advance([]Row{{5, 0, 8, 0}, {6, 3, 2, 0}}, []int{1, 2}, []int{2})
	if !slices.Equal(next, []Row{{1, 0, 9, 0}, {2, 3, 3, 0}}) || done {
		t.Errorf("%v, done %t", next, done)
	}
	if _, done := Advance([]Row{{5, 0, 8, 0}}, []int{2}, []int{1, 2}); !done {
		t.Error("an end token alone is not the end")
	}
	if _, done := Advance([]Row{{5, 0, 8, 0}, {6, 3, 2, 0}}, []int{1, NoToken}, []int{2}); !done {
		t.Error("a row without a token does not end the step")
	}
}

func TestPlanesPutNeighbouringRowsSideBySide(t *testing.T) {
	raw := make([]byte, 9*2*34) // 9 rows of 2 blocks: weight 0 is the row, weight 1 the block
	for i := range 18 {
		raw[34*i+2], raw[34*i+3] = byte(i/2), byte(i%2)
	}
	w, s := Planes("q8_0", 9, 64, raw, 2, 1, 4) // two lanes of four rows, so two groups
	if len(w) != 2*2*4*2*2*4 || len(s) != len(w)/8 {
		t.Fatalf("%d and %d words", len(w), len(s))
	}
	for row := range 9 {
		for block := range 2 {
			group, r, lane := row/8, row%8/2, row%2
			at := 4 * (((group*2+block)*4+r)*2*2 + lane)
			if want := uint32(row+128) | uint32(block+128)<<8 | 128<<16; w[at] != want {
				t.Errorf("row %d, block %d: %#x, want %#x", row, block, w[at], want)
			}
		}
	}
}

// A row's five bits a weight: six to a word, the last two in the top bits; word by word in the uvec4 that four rows share.
func TestPlanesSpreadWhatDoesNotFit(t *testing.T) {
	raw := make([]byte, 4*22)
	for row := range 4 {
		b := raw[22*row:][:22]
		b[1], b[6+14], b[6+15], b[6] = 0x3C, 0x50, byte(row)<<4, 0x03 // weights 30, 31 and 0
		b[2+3] = 0x40                                                 // the fifth bit of weight 30
	}
	w, s := Planes("q5_0", 4, 32, raw, 1, 1, 4)
	for row := range uint32(4) {
		want := [5]uint32{0b01<<30 | 3, 0b01 << 30, (1 | row&1<<1) << 30, (row >> 1) << 30, 0} // of 10101, then the row
		for i, v := range want {
			if got := w[4*i+int(row)]; got != v {
				t.Errorf("row %d, word %d: %#x, want %#x", row, i, got, v)
			}
		}
		if s[row] != 0x3F800000 {
			t.Errorf("row %d: scale %#x", row, s[row])
		}
	}
}

// Two super-blocks of four rows, shared by two lanes: a record is d and dmin of the four, then 16 bits for each of eight
// blocks, two to a word.
func TestPlanesKeepScalesOfSuperBlocksInRecords(t *testing.T) {
	raw := make([]byte, 4*2*144)
	for i := range 8 { // rows of two super-blocks
		b := raw[144*i:][:144]
		b[0], b[2] = byte(i/2), byte(i%2+1)    // d and dmin: the row, the super-block
		b[4], b[9], b[15] = 7, 9, byte(i)<<4|2 // scale of block 0, minimum of block 1, both of block 7
	}
	_, s := Planes("q4_k", 4, 512, raw, 2, 2, 4)
	if len(s) != 2*5*4 {
		t.Fatalf("%d words", len(s))
	}
	for row := range uint32(4) {
		for super := range uint32(2) {
			want := [5]uint32{row | (super+1)<<16, 7 | 9<<24, 0, 0, (2 | (2*row+super)<<8) << 16}
			for i, v := range want {
				if got := s[4*(5*int(super)+i)+int(row)]; got != v {
					t.Errorf("row %d, super-block %d, word %d: %#x, want %#x", row, super, i, got, v)
				}
			}
		}
	}
}

func TestPairedRowsAreInterleaved(t *testing.T) {
	if order := Paired(3, 2, 1, 4); !slices.Equal(order, []int{0, 1, 3, 4, 2, -1, 5, -1}) {
		t.Errorf("paired: %v", order)
	}
}
