package tests

import (
	"fmt"
	"math"
	"math/rand/v2"

	"vkdecode/ref"
	"vkdecode/runtime"
	"vkdecode/shaders"
)

// sampleCase chooses the tokens of rows, each with logits, settings and a history of its own, at several positions.
type sampleCase struct {
	vocab     int
	shape     shape
	settings  []ref.Sampling // by row
	positions int            // draws of each row
	groups    int            // workgroups that share a row, 0 = 3
	forge     func(s *ref.Sampling, logits []float32)
}

// shape is how logits lie.
type shape string

const (
	spread  shape = "spread"  // normal, as a model's are
	flat    shape = "flat"    // nearly equal: every cut is far down
	few     shape = "few"     // a handful of values: ties everywhere
	one     shape = "one"     // all equal
	peaked  shape = "peaked"  // one token has nearly everything
	falling shape = "falling" // by id: the largest share a block
	signs   shape = "signs"   // around zero, of all magnitudes, with zeros of both signs and -inf
	broken  shape = "broken"  // with a NaN, an infinity, or nothing finite
)

func (c sampleCase) String() string {
	return fmt.Sprintf("%d %s logits, %d draws under %d settings", c.vocab, c.shape, c.positions, len(c.settings))
}

// logits are those of a row.
func (s shape) logits(rnd *rand.Rand, vocab int) []float32 {
	all, inf := make([]float32, vocab), float32(math.Inf(1))
	for i := range all {
		switch s {
		case spread:
			all[i] = float32(10 + 3*rnd.NormFloat64())
		case flat:
			all[i] = float32(-7 + 0.01*rnd.NormFloat64())
		case few:
			all[i] = -1e4 * float32(1+rnd.IntN(5))
		case one:
			all[i] = -2.5
		case peaked:
			all[i] = float32(-30 + rnd.NormFloat64())
		case falling:
			all[i] = 20 - 0.05*float32(i)
		case signs:
			all[i] = float32(math.Copysign(math.Exp(2*rnd.NormFloat64()-3), float64(rnd.IntN(2))-0.5))
			if n := rnd.IntN(10); n < 3 {
				all[i] = []float32{0, float32(math.Copysign(0, -1)), -inf}[n]
			}
		case broken:
			all[i] = -inf
		}
	}
	switch s {
	case peaked:
		all[rnd.IntN(vocab)] = 2
	case signs:
		all[rnd.IntN(vocab)] = 0.5
	case broken:
		if n := rnd.IntN(4); n < 3 {
			all[0] = 1
			all[rnd.IntN(vocab)] = []float32{inf, float32(math.NaN()), -float32(math.NaN())}[n]
		}
	}
	return all
}

// apart are settings of which each does one thing, and all of them together.
func apart(vocab int) []ref.Sampling {
	return []ref.Sampling{
		{}, {Temperature: 1, Seed: 1}, {Temperature: 0.3}, {Temperature: 5, Seed: 1 << 40}, {Temperature: 1e-9}, {Temperature: 1e9},
		{Temperature: 1, TopK: 1}, {Temperature: 1, TopK: 2}, {Temperature: 1, TopK: 40}, {Temperature: 2, TopK: vocab - 1}, {Temperature: 1, TopK: vocab}, {Temperature: 1, TopK: vocab + 9},
		{Temperature: 1, TopP: 0.103}, {Temperature: 1, TopP: 0.9511}, {Temperature: 2, TopP: 0.507}, {Temperature: 1, TopP: 0.9999}, {Temperature: 1, TopP: 1}, {Temperature: 1, TopP: 1e-9},
		{Temperature: 1, MinP: 0.05}, {Temperature: 2, MinP: 1}, {Temperature: 1, MinP: 1e-9},
		{Temperature: 1, RepeatPenalty: 1.3, Window: 8}, {RepeatPenalty: 1.7}, {Temperature: 1, Presence: 2}, {Temperature: 1, Frequency: 0.7, Window: 16}, {Temperature: 1, Presence: -3, Frequency: -1},
		{Temperature: 1, Bias: map[int]float32{0: 20}}, {Bias: map[int]float32{vocab - 1: 1e5}}, {Temperature: 1, Bias: map[int]float32{0: float32(math.Inf(-1)), vocab / 2: float32(math.Inf(-1))}},
		{Temperature: 0.8, TopK: 40, TopP: 0.9511, Seed: 3}, {Temperature: 0.8, TopK: 40, TopP: 0.9511, MinP: 0.05}, {Temperature: 1.5, TopP: 0.9031, MinP: 0.02}, {Temperature: 1, TopK: 20, MinP: 0.3},
		{Temperature: 0.8, TopK: 40, TopP: 0.9511, MinP: 0.05, RepeatPenalty: 1.1, Presence: 0.5, Frequency: 0.2, Window: 32, Bias: map[int]float32{vocab / 3: 3, vocab - 1: -3}, Seed: 77},
	}
}

// anySampling are settings of any kind.
func anySampling(rnd *rand.Rand, vocab, n int) (all []ref.Sampling) {
	pick := func(of ...float64) float64 { return of[rnd.IntN(len(of))] }
	for range n {
		s := ref.Sampling{
			Temperature: pick(0, 0.5, 1, 1, 2), TopK: int(pick(0, 0, 1+float64(rnd.IntN(vocab)), 1+float64(rnd.IntN(60)))),
			TopP: pick(0, 0, rnd.Float64()), MinP: pick(0, 0, 0, rnd.Float64(), 1e-3), Seed: rnd.Uint64(), Window: rnd.IntN(40),
		}
		s.RepeatPenalty, s.Presence, s.Frequency = float32(pick(0, 1.1, 0.9)), float32(pick(0, 0.4)), float32(pick(0, 0.3))
		if rnd.IntN(3) == 0 {
			s.Bias = map[int]float32{rnd.IntN(vocab): float32(rnd.NormFloat64() * 5), rnd.IntN(vocab): float32(math.Inf(-1))}
			if vocab < 3 {
				s.Bias = nil
			}
		}
		all = append(all, s)
	}
	return all
}

func sampleCases(launch) (all []opCase) {
	for _, vocab := range []int{1, 3, 32, 33, 257} {
		for _, s := range []shape{spread, flat, few, one, signs} {
			all = append(all, sampleCase{vocab: vocab, shape: s, settings: apart(vocab), positions: 2})
		}
	}
	return append(all, sampleCase{vocab: 1001, shape: spread, settings: apart(1001), positions: 2}, sampleCase{vocab: 1001, shape: few, settings: apart(1001), positions: 2},
		sampleCase{vocab: 1001, shape: peaked, settings: apart(1001), positions: 2}, sampleCase{vocab: 1001, shape: falling, settings: apart(1001), positions: 2, groups: 1},
		sampleCase{vocab: 257, shape: broken, settings: apart(257), positions: 2, groups: 9}, sampleCase{vocab: 3001, shape: spread, settings: apart(3001), positions: 2, groups: 40})
}

// historyTokens is how many tokens stand before the first one drawn.
const historyTokens = 30

// nearEnough is the distance from another choice, as a share of the whole, at which the device may make it: its weights are
// single precision.
const nearEnough = 1e-6

func (c sampleCase) run(b *bench, l launch) error {
	_, err := c.draw(b, l)
	return err
}

// draw samples and compares, and returns what was drawn, by position and row.
func (c sampleCase) draw(b *bench, l launch) (drawn []uint32, err error) {
	rnd := rand.New(rand.NewPCG(13, uint64(c.vocab)))
	rows, groups, stride := len(c.settings), c.groups, ceil(c.vocab, 4)+1
	if groups == 0 {
		groups = 3
	}
	padded, blocks := 4*ceil(c.vocab, 4), ceil(c.vocab, 32)
	logits, settings, adjust := make([]float32, rows*4*stride), make([]uint32, rows*runtime.SettingWords), make([]uint32, rows*padded*2)
	histories := make([][]int, rows)
	for i := range logits {
		logits[i] = 1e30 // beyond the vocabulary
	}
	for row, s := range c.settings {
		copy(logits[row*4*stride:], c.shape.logits(rnd, c.vocab))
		for range historyTokens {
			histories[row] = append(histories[row], int(float64(c.vocab)*math.Pow(rnd.Float64(), 3)))
		}
		words := deviceSampling(s).Words(c.vocab)
		copy(settings[row*runtime.SettingWords:], words[:])
		for id, times := range ref.Count(histories[row], s.Window) {
			if words[0]&2 != 0 {
				adjust[2*(row*padded+id)] = uint32(times)
			}
		}
		for id, bias := range s.Bias {
			adjust[2*(row*padded+id)+1] = math.Float32bits(bias)
		}
	}
	step := func(offset int) (all []runtime.Row, outs []int) {
		for row := range rows {
			all = append(all, runtime.Row{Pos: int32(historyTokens - 1 + offset)})
			outs = append(outs, row)
		}
		return all, outs
	}
	all, outs := step(0)
	r := b.rig(l, all, outs...)
	defer r.free()
	lanes, vocab := uint32(l.lanes), uint32(c.vocab)
	x, set, adj := in(r, "logits", logits).Range, in(r, "settings", settings).Range, in(r, "adjust", adjust).Range
	peaks, sums, tokens := r.out("peaks", rows*(blocks+groups)), r.out("sums", rows*blocks*2), r.out("tokens", rows+1)
	room := runtime.ListRoom(c.vocab)
	list := r.out("list", rows*2*room)
	r.add(shaders.SamplePeaks{Lanes: lanes, Vocab: vocab, Stride: uint32(stride), Step: r.step.Range, Logits: x, Settings: set, Adjust: adj, Peaks: peaks.Range}, "", "", groups, rows+1, 1)
	r.add(shaders.SampleSums{Lanes: lanes, Vocab: vocab, Stride: uint32(stride), Step: r.step.Range, Logits: x, Settings: set, Adjust: adj, Peaks: peaks.Range, Sums: sums.Range}, "", "", groups, rows+1, 1)
	r.add(shaders.SampleList{Lanes: lanes, Vocab: vocab, Stride: uint32(stride), Groups: uint32(groups), Room: uint32(room), Step: r.step.Range, Logits: x, Settings: set, Adjust: adj,
		Peaks: peaks.Range, Sums: sums.Range, List: list.Range}, "", "", rows+1, 1, 1)
	r.add(shaders.Sample{Lanes: lanes, AtATime: 4, Searched: 8, Vocab: vocab, Room: uint32(room), Step: r.step.Range, Settings: set, List: list.Range, Tokens: tokens.Range}, "", "", rows+1, 1, 1)
	if err := r.run(); err != nil {
		return nil, err
	}
	var distributions []ref.Distribution
	var settingsOfTwin []ref.Sampling
	for row := range c.settings {
		own, how := logits[row*4*stride:][:c.vocab], c.settings[row]
		if c.forge != nil {
			c.forge(&how, own)
		}
		settingsOfTwin = append(settingsOfTwin, how)
		distributions = append(distributions, how.Distribution(own, histories[row]))
	}
	excused := 0
	for offset := range c.positions {
		if offset > 0 {
			all, outs := step(offset)
			r.err = runtime.NewStep(b.device, &runtime.Tensor{Range: r.step.data}).Write(all, outs, 0)
			r.submit()
		}
		got := r.words(tokens)
		if r.err != nil {
			return nil, r.err
		}
		if got[rows] != blank {
			return nil, fmt.Errorf("a token of a row that is not wanted")
		}
		for row, s := range settingsOfTwin {
			d := distributions[row]
			want, near := d.At(ref.Uniform(s.Seed, uint64(historyTokens+offset)))
			switch {
			case got[row] == uint32(int32(want)):
			case want != ref.NoToken && got[row] < vocab && min(near, d.Near) < nearEnough:
				excused++
			default:
				return nil, fmt.Errorf("row %d: token %d at position %d, want %d, %.2g from another choice; %+v", row, int32(got[row]), historyTokens+offset, want, min(near, d.Near), s)
			}
		}
		drawn = append(drawn, got[:rows]...)
	}
	if most := 1 + rows*c.positions/100; excused > most {
		return nil, fmt.Errorf("%d of %d tokens are others, want at most %d even near a bound", excused, rows*c.positions, most)
	}
	return drawn, nil
}

// deviceSampling are the settings as a session is given them.
func deviceSampling(s ref.Sampling) runtime.Sampling {
	d := runtime.Sampling{Temperature: s.Temperature, TopK: s.TopK, TopP: s.TopP, MinP: s.MinP, RepeatPenalty: float64(s.RepeatPenalty), Presence: float64(s.Presence),
		Frequency: float64(s.Frequency), RepeatLast: s.Window, Seed: s.Seed}
	for id, b := range s.Bias {
		if d.Bias == nil {
			d.Bias = map[int32]float64{}
		}
		d.Bias[int32(id)] = float64(b)
	}
	return d
}
