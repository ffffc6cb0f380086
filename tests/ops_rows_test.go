package tests

import (
	"fmt"
	"math/rand/v2"

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
	x := r.out("x", (len(tokens)+1)*32*blocks)
	for i := range weights {
		r.add(shaders.Embed{Lanes: uint32(l.lanes), PlaneLanes: uint32(l.lanes), Run: uint32(c.share), Rows: uint32(c.perLane), Blocks: uint32(blocks),
			First: uint32(i * group), Count: uint32(group), Step: r.step.Range, W: weights[i].Range, S: scales[i].Range, X: x.Range},
			c.weight, "", ceil(blocks, l.lanes)+1, len(tokens)+1, 1)
	}
	if err := r.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(raw)
	}
	table, want := ref.Weights(c.weight, raw), values((len(tokens)+1)*32*blocks)
	for i, token := range tokens {
		clear(want[i*32*blocks:][:32*blocks])
		copy(want[i*32*blocks:], ref.Embed(table, 32*c.width, token))
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

// argmaxCase finds the largest of each row's logits, which are drawn from so many values.
type argmaxCase struct {
	vocab, distinct int
	forge           func(logits []float32)
}

func (c argmaxCase) String() string {
	return fmt.Sprintf("%d logits of %d values", c.vocab, c.distinct)
}

func argmaxCases(launch) []opCase {
	return []opCase{argmaxCase{vocab: 1, distinct: 1}, argmaxCase{vocab: 3, distinct: 2}, argmaxCase{vocab: 1001, distinct: 1 << 20},
		argmaxCase{vocab: 1001, distinct: 5}, argmaxCase{vocab: 1001, distinct: 1}}
}

func (c argmaxCase) run(b *bench, l launch) error {
	const rows = 3
	rnd := rand.New(rand.NewPCG(5, uint64(c.vocab)))
	r := b.rig(l, stepRows(rows+1), 0, 1, 2)
	defer r.free()
	stride := ceil(c.vocab, 4) + 1
	logits := make([]float32, rows*4*stride)
	for i := range logits {
		logits[i] = 1e30 // beyond the vocabulary; what counts is below zero
		if i%(4*stride) < c.vocab {
			logits[i] = -1e4 * float32(1+rnd.IntN(c.distinct))
		}
	}
	tokens := r.out("tokens", rows+1)
	r.add(shaders.Argmax{Lanes: uint32(l.lanes), Vocab: uint32(c.vocab), Stride: uint32(stride), Step: r.step.Range, Logits: in(r, "logits", logits).Range, Tokens: tokens.Range},
		"", "", rows+1, 1, 1)
	if err := r.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(logits)
	}
	want := []uint32{blank, blank, blank, blank}
	for i := range rows {
		want[i] = uint32(ref.Argmax(logits[i*4*stride:][:c.vocab]))
	}
	return compareWords("tokens", r.words(tokens), want)
}

// advanceCase makes the next step.
type advanceCase struct {
	tokens, ends []uint32
	taken        uint32
	forge        func(rows []ref.Row)
}

func (c advanceCase) String() string {
	return fmt.Sprintf("tokens %v, ends %v, %d steps taken", c.tokens, c.ends, c.taken)
}

func advanceCases(launch) []opCase {
	return []opCase{
		advanceCase{tokens: []uint32{7}},
		advanceCase{tokens: []uint32{7, 9, 7}, ends: []uint32{9, 2}, taken: 4},
		advanceCase{tokens: []uint32{7, 9, 7}, ends: []uint32{2, 9, 7}, taken: 5},
		advanceCase{tokens: []uint32{2}, ends: []uint32{2}, taken: 1 << 20},
		advanceCase{ends: []uint32{2}, taken: 3},
	}
}

func (c advanceCase) run(b *bench, l launch) error {
	const entries, takenWord, rowWord = 4, 3, 4
	var rows []runtime.Row
	var twin []ref.Row
	for i := range c.tokens {
		rows = append(rows, runtime.Row{Token: 1, Seq: int32(2 * i), Pos: int32(30 + i)})
		twin = append(twin, ref.Row{Token: 1, Seq: 2 * i, Pos: 30 + i})
	}
	r := b.rig(l, rows, make([]int, len(rows))...)
	defer r.free()
	r.patch(r.step, takenWord, c.taken)
	n := len(rows)
	ring := r.out("ring", entries*(n+1))
	r.add(shaders.Advance{Lanes: uint32(l.lanes), Rows: uint32(n + 1), Entries: entries, Step: r.step.Range, StepOut: r.step.Range, Ring: ring.Range,
		Tokens: in(r, "tokens", append(c.tokens, blank)).Range, Ends: in(r, "ends", append([]uint32{uint32(len(c.ends))}, c.ends...)).Range}, "", "", 1, 1, 1)
	before := r.words(r.step)
	if err := r.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(twin)
	}
	next, done := ref.Advance(twin, ints(c.tokens), ints(c.ends))
	before[doneWord], before[takenWord] = word(done), c.taken+1
	wantRing := r.words(r.out("blank", entries*(n+1)))
	for i, row := range next {
		copy(before[rowWord*(1+i):], []uint32{uint32(row.Token), uint32(row.Seq), uint32(row.Pos)})
		wantRing[int(c.taken)%entries*(n+1)+i] = uint32(row.Token)
	}
	if err := compareWords("ring", r.words(ring), wantRing); err != nil {
		return err
	}
	return compareWords("step", r.words(r.step), before)
}

func ints(words []uint32) (out []int) {
	for _, w := range words {
		out = append(out, int(w))
	}
	return out
}
