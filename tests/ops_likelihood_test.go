package tests

import (
	"fmt"
	"math"
	"math/rand/v2"

	"vkdecode/ref"
	"vkdecode/runtime"
	"vkdecode/shaders"
)

// likelihoodCase takes the logits of some rows of a step, which begins at a position, and the text that they foretell.
type likelihoodCase struct {
	vocab  int
	first  int     // position of the first row
	outs   []int   // rows whose logits are wanted
	spread float64 // of the logits; 0: all are equal
	far    float64 // of the full cache's logits from the others
	forge  func(text []uint32, full []float32)
}

func (c likelihoodCase) String() string {
	return fmt.Sprintf("%d logits, spread %g, %g from the full cache's, rows %v from position %d", c.vocab, c.spread, c.far, c.outs, c.first)
}

func likelihoodCases() []likelihoodCase {
	return []likelihoodCase{
		{vocab: 1, outs: []int{0}, spread: 1, far: 1},
		{vocab: 3, first: 7, outs: []int{2, 0}, spread: 4, far: 1},
		{vocab: 1001, first: 2, outs: []int{1, 2, 3}, spread: 3, far: 0.5},
		{vocab: 1024, outs: []int{3}, spread: 300, far: 100},
		{vocab: 49_157, outs: []int{0, 1}, spread: 3, far: 0.1},
		{vocab: 49_157, first: 1, outs: []int{0, 3}, far: 1e-3}, // the largest sum of all: every term is 1
	}
}

// limit is the difference from the twin, in nats, that is taken for none: 1e-5, and f32's own where logits are large.
func (c likelihoodCase) limit() float64 { return max(1e-5, 3e-7*c.spread) }

// rigged makes the rows, their logits with those of a full cache, and the text.
func (c likelihoodCase) rigged(b *bench, l launch) (r *rig, stride int, logits, full []float32, text []uint32) {
	const rows = 4
	rnd := rand.New(rand.NewPCG(11, uint64(c.vocab)))
	step := make([]runtime.Row, rows)
	for i := range step {
		step[i] = runtime.Row{Token: 1, Pos: int32(c.first + i)}
	}
	stride = ceil(c.vocab, 4) + 1
	logits, full = make([]float32, len(c.outs)*4*stride), make([]float32, len(c.outs)*4*stride)
	for i := range logits {
		logits[i], full[i] = 1e30, -1e30 // beyond the vocabulary
		if i%(4*stride) < c.vocab {
			logits[i] = float32(-20 + c.spread*rnd.NormFloat64())
			full[i] = logits[i] + float32(c.far*rnd.NormFloat64())
		}
	}
	for range c.first + rows + 1 {
		text = append(text, uint32(rnd.IntN(c.vocab)))
	}
	return b.rig(l, step, c.outs...), stride, logits, full, text
}

// check compares what stands at the positions after the wanted rows' with the twin's; the rest must be untouched.
func (c likelihoodCase) check(what string, got []float32, stride int, twin func(from, next int) float64) error {
	want := values(len(got))
	for i, row := range c.outs {
		next := c.first + row + 1
		w := twin(i*4*stride, next)
		if d := float64(got[next]) - w; !(math.Abs(d) <= c.limit()) {
			return fmt.Errorf("%s: %g at position %d, want %g: %.2g apart, want %.0e at most", what, got[next], next, w, d, c.limit())
		}
		want[next] = anything
	}
	return compare(what, got, want, exact)
}

// nllCase is how unlikely the next tokens of the text were.
type nllCase struct{ likelihoodCase }

func nllCases(launch) (all []opCase) {
	for _, c := range likelihoodCases() {
		all = append(all, nllCase{c})
	}
	return all
}

func (c nllCase) run(b *bench, l launch) error {
	r, stride, logits, _, text := c.rigged(b, l)
	defer r.free()
	nll, tokens := r.out("nll", len(text)+1), r.out("tokens", len(c.outs)+1)
	r.add(shaders.Nll{Lanes: uint32(l.lanes), Vocab: uint32(c.vocab), Stride: uint32(stride), Step: r.step.Range, Logits: in(r, "logits", logits).Range,
		Text: in(r, "text", text).Range, Nll: nll.Range, Tokens: tokens.Range}, "", "", len(c.outs)+1, 1, 1)
	if err := r.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(text, logits)
	}
	next := make([]uint32, len(c.outs), len(c.outs)+1)
	for i, row := range c.outs {
		next[i] = text[c.first+row+1]
	}
	if err := compareWords("tokens", r.words(tokens), append(next, blank)); err != nil {
		return err
	}
	return c.check("nll", r.floats(nll), stride, func(from, next int) float64 { return ref.NLL(logits[from:][:c.vocab], int(text[next])) })
}

// klCase is how far logits are from those of a full cache.
type klCase struct{ likelihoodCase }

func klCases(launch) (all []opCase) {
	for _, c := range likelihoodCases() {
		all = append(all, klCase{c})
		c.far = 0
		all = append(all, klCase{c})
	}
	return all
}

func (c klCase) run(b *bench, l launch) error {
	r, stride, logits, full, text := c.rigged(b, l)
	defer r.free()
	kl := r.out("kl", len(text)+1)
	r.add(shaders.Kl{Lanes: uint32(l.lanes), Vocab: uint32(c.vocab), Stride: uint32(stride), Step: r.step.Range, Full: in(r, "full", full).Range,
		Logits: in(r, "logits", logits).Range, Kl: kl.Range}, "", "", len(c.outs)+1, 1, 1)
	if err := r.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(text, full)
	}
	return c.check("kl", r.floats(kl), stride, func(from, _ int) float64 { return ref.KL(full[from:][:c.vocab], logits[from:][:c.vocab]) })
}
