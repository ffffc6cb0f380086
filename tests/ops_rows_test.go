package tests

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"vkdecode/ref"
	"vkdecode/runtime"
	"vkdecode/shaders"
)

// embedCase gathers rows of a table that comes in two slices.
type embedCase struct {
	weight                string
	share, perLane, width int // the planes' geometry; blocks per row
	forge                 func(raw []byte)
}

func (c embedCase) String() string {
	return fmt.Sprintf("%s, %d shared, %d rows each, %d blocks", c.weight, c.share, c.perLane, c.width)
}

func embedCases(l launch) (all []opCase) {
	for i, w := range shaders.WeightTypes {
		c := []embedCase{{w, 1, 4, 3, nil}, {w, 4, 8, 2 * l.lanes, nil}, {w, 2, 16, 5, nil}}[i%3]
		if c.width%blocksOf(w) != 0 { // rows are whole super-blocks
			c.width *= blocksOf(w)
		}
		all = append(all, c)
	}
	return all
}

func (c embedCase) run(b *bench, l launch) error {
	rnd := rand.New(rand.NewPCG(7, uint64(c.width)))
	group := c.perLane * l.lanes / c.share
	vocab := group + 5
	r := b.rig(l, []runtime.Row{{Token: 0}, {Token: int32(group)}, {Token: int32(group - 1)}, {Token: 3}, {Token: 3}, {Token: int32(vocab - 1)}})
	defer r.free()
	tokens := []int{0, group, group - 1, 3, 3, vocab - 1}
	order := make([]int, vocab)
	for i := range order {
		order[i] = i
	}
	raw := randomWeights(rnd, c.weight, vocab*c.width)
	weights, scales := r.planes(matmulCase{weight: c.weight, share: c.share, perLane: c.perLane, blocks: c.width, sliced: true}, raw, order)
	blocks := ceil(c.width, c.share) * c.share
	stride := blocks + 1 // of x, which another matrix may want wider
	x := r.out("x", (len(tokens)+1)*32*stride)
	for i := range weights {
		r.add(shaders.Embed{Lanes: uint32(l.lanes), PlaneLanes: uint32(l.lanes), Run: uint32(c.share), Rows: uint32(c.perLane), Blocks: uint32(blocks), Stride: uint32(stride),
			First: uint32(i * group), Count: uint32(group), Step: r.step.Range, W: weights[i].Range, S: scales[i].Range, X: x.Range},
			c.weight, "", ceil(blocks, l.lanes)+1, len(tokens)+1, 1)
	}
	if err := r.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(raw)
	}
	table, want := ref.Weights(c.weight, raw), values((len(tokens)+1)*32*stride)
	for i, token := range tokens {
		clear(want[i*32*stride:][:32*blocks])
		copy(want[i*32*stride:], ref.Embed(table, 32*c.width, token))
	}
	return compare("x", r.floats(x), want, exact)
}

// rmsNormCase normalises rows, or those whose logits are wanted.
type rmsNormCase struct {
	width int
	outs  []int // nil: all rows
	eps   float32
	forge func(w []float32)
}

func (c rmsNormCase) String() string {
	return fmt.Sprintf("width %d, eps %g, rows %v", c.width, c.eps, c.outs)
}

func rmsNormCases(launch) []opCase {
	return []opCase{
		rmsNormCase{width: 64, eps: 1e-5}, rmsNormCase{width: 50, eps: 1e-6, outs: []int{4, 0, 2}}, rmsNormCase{width: 1, eps: 1e-3},
		rmsNormCase{width: 577, eps: 1e-5}, rmsNormCase{width: 577, eps: 1e-5, outs: []int{3}},
	}
}

func (c rmsNormCase) run(b *bench, l launch) error {
	const rows = 5
	rnd := rand.New(rand.NewPCG(3, uint64(c.width)))
	r := b.rig(l, stepRows(rows), c.outs...)
	defer r.free()
	quads := ceil(c.width, 4)
	x, w := make([]float32, rows*4*quads), make([]float32, 4*quads)
	for i := range rows - 1 { // the last row is zero: only eps keeps it from 0/0
		copy(x[4*quads*i:], randomFloats(rnd, c.width))
	}
	copy(w, randomFloats(rnd, c.width))
	y := r.out("y", (rows+1)*4*quads)
	r.add(shaders.RmsNorm{Lanes: uint32(l.lanes), Width: uint32(c.width), Quads: uint32(quads), Gather: word(c.outs != nil), Eps: c.eps,
		Step: r.step.Range, X: in(r, "x", x).Range, W: in(r, "w", w).Range, Y: y.Range}, "", "", 1, rows+1, 1)
	if err := r.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(w)
	}
	want, from := values((rows+1)*4*quads), c.outs
	if from == nil {
		from = []int{0, 1, 2, 3, 4}
	}
	for i, row := range from {
		clear(want[i*4*quads:][:4*quads])
		copy(want[i*4*quads:], ref.RMSNorm(x[row*4*quads:][:c.width], w, c.eps))
	}
	return compare("y", r.floats(y), want, 1e-13)
}

// advanceCase makes the next step.
type advanceCase struct {
	tokens, ends []uint32
	taken        uint32
	window       int // tokens that count, -1 = nothing is counted
	forge        func(rows []ref.Row, sequence []int)
}

func (c advanceCase) String() string {
	return fmt.Sprintf("tokens %v, ends %v, %d steps taken, window %d", c.tokens, c.ends, c.taken, c.window)
}

func advanceCases(launch) []opCase {
	return []opCase{
		advanceCase{tokens: []uint32{7}, window: -1},
		advanceCase{tokens: []uint32{7, 9, 7}, ends: []uint32{9, 2}, taken: 4},
		advanceCase{tokens: []uint32{7, 9, 7}, ends: []uint32{2, 9, 7}, taken: 5, window: 3},
		advanceCase{tokens: []uint32{2}, ends: []uint32{2}, taken: 1 << 20, window: 1},
		advanceCase{tokens: []uint32{2, blank, 1}, ends: []uint32{2}, taken: 1, window: -1}, // another id than the vocabulary has
		advanceCase{tokens: []uint32{2, noToken, 1}, ends: []uint32{2}, window: 31},
		advanceCase{tokens: []uint32{1, 2, 3}, window: 32},
		advanceCase{tokens: []uint32{1, 2, 3}, window: 400},
		advanceCase{ends: []uint32{2}, taken: 3},
	}
}

// noToken is the token of a row from which none can be chosen.
const noToken = 0xffffffff

func (c advanceCase) run(b *bench, l launch) error {
	const entries, takenWord, rowWord, vocab, first, positions = 4, 3, 4, 12, 30, 40
	var rows []runtime.Row
	var twin []ref.Row
	n := len(c.tokens)
	settings := make([]uint32, (n+1)*runtime.SettingWords)
	seen, history := make([]uint32, (n+1)*vocab*2), make([]uint32, (n+1)*positions)
	var sequences [][]int
	for i := range c.tokens {
		rows = append(rows, runtime.Row{Token: 1, Seq: int32(2 * i), Pos: int32(first + i)})
		twin = append(twin, ref.Row{Token: 1, Seq: 2 * i, Pos: first + i})
		how := runtime.Sampling{Temperature: 1, Presence: 1, RepeatLast: c.window}
		if c.window < 0 {
			how = runtime.Sampling{Temperature: 1}
		}
		words := how.Words(vocab)
		copy(settings[i*runtime.SettingWords:], words[:])
		var sequence []int
		for p := range first + i + 1 {
			sequence = append(sequence, p*p%vocab)
			history[i*positions+p] = uint32(sequence[p])
		}
		for token, times := range ref.Count(sequence, c.window) {
			seen[2*(i*vocab+token)] = uint32(times)
		}
		sequences = append(sequences, sequence)
	}
	r := b.rig(l, rows, make([]int, len(rows))...)
	defer r.free()
	r.patch(r.step, takenWord, c.taken)
	ring := r.out("ring", entries*(n+1))
	counts, record := in(r, "seen", seen), in(r, "history", history)
	r.add(shaders.Advance{Lanes: uint32(l.lanes), Rows: uint32(n + 1), Entries: entries, Vocab: vocab, Positions: positions,
		Step: r.step.Range, StepOut: r.step.Range, Ring: ring.Range, Settings: in(r, "settings", settings).Range, Seen: counts.Range, History: record.Range,
		Tokens: in(r, "tokens", append(slices.Clone(c.tokens), blank)).Range, Ends: in(r, "ends", append([]uint32{uint32(len(c.ends))}, c.ends...)).Range}, "", "", 1, 1, 1)
	before := r.words(r.step)
	if err := r.run(); err != nil {
		return err
	}
	tokens := ints(c.tokens)
	for i, token := range tokens {
		if token == noToken {
			tokens[i] = ref.NoToken
		}
	}
	if c.forge != nil {
		c.forge(twin, sequences[0])
	}
	next, done := ref.Advance(twin, tokens, ints(c.ends))
	before[doneWord], before[takenWord] = word(done), c.taken+1
	wantRing := r.words(r.out("blank", entries*(n+1)))
	for i, row := range next {
		copy(before[rowWord*(1+i):], []uint32{uint32(row.Token), uint32(row.Seq), uint32(row.Pos)})
		wantRing[int(c.taken)%entries*(n+1)+i] = uint32(row.Token)
		if c.window < 0 || row.Token < 0 || row.Token >= vocab {
			continue
		}
		history[i*positions+row.Pos] = uint32(row.Token)
		clear(seen[2*i*vocab : 2*(i+1)*vocab])
		for token, times := range ref.Count(append(sequences[i], row.Token), c.window) {
			seen[2*(i*vocab+token)] = uint32(times)
		}
	}
	for _, o := range []struct {
		t    *tensor
		want []uint32
	}{{ring, wantRing}, {r.step, before}, {record, history}, {counts, seen}} {
		if err := compareWords(o.t.name, r.words(o.t), o.want); err != nil {
			return err
		}
	}
	return nil
}

func ints(words []uint32) (out []int) {
	for _, w := range words {
		out = append(out, int(w))
	}
	return out
}
