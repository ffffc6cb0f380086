package tests

import (
	"fmt"
	"math"
	"math/rand/v2"

	"vkdecode/ref"
	"vkdecode/shaders"
)

// quantizeCase rounds activation rows to int8.
type quantizeCase struct {
	rows, blocks int // of 32 columns
	outs         bool
	forge        func(x []float32)
}

func (c quantizeCase) String() string {
	return fmt.Sprintf("%d rows of %d columns, outs %t", c.rows, 32*c.blocks, c.outs)
}

func quantizeCases(l launch) []opCase {
	if l.form == shaders.Shared {
		return nil
	}
	return []opCase{quantizeCase{rows: 1, blocks: 1}, quantizeCase{rows: 2, blocks: l.lanes + 3}, quantizeCase{rows: 7, blocks: 5, outs: true}}
}

func (c quantizeCase) run(b *bench, l launch) error {
	rnd := rand.New(rand.NewPCG(uint64(c.rows), uint64(c.blocks)))
	rows, outs := stepRows(c.rows), []int(nil)
	if c.outs { // the first rows of x are those that are wanted
		rows, outs = stepRows(c.rows+2), make([]int, c.rows)
	}
	r := b.rig(l, rows, outs...)
	defer r.free()
	columns, stride := 32*c.blocks, 8*c.blocks+2
	x, padded := randomFloats(rnd, c.rows*columns), values32(len(rows)*4*stride)
	for i := range x { // blocks of all sizes
		x[i] *= float32(math.Exp2(float64(i/32%40*3 - 60)))
	}
	clear(x[:min(32, len(x)-32)]) // one of zeros where there are others
	if c.rows > 2 {
		x[columns+3], x[3*columns+40] = float32(math.NaN()), float32(math.Inf(-1))
	}
	for i := range c.rows {
		copy(padded[4*i*stride:], x[i*columns:][:columns])
	}
	pairs := ceil(c.rows, 2)
	q, d := r.out("q", pairs*columns), r.out("d", pairs*c.blocks*2)
	r.add(shaders.Quantize{Lanes: uint32(l.lanes), Outs: word(c.outs), Blocks: uint32(c.blocks), XStride: uint32(stride),
		Step: r.step.Range, X: in(r, "x", padded).Range, Q: q.Range, D: d.Range}, "", "", ceil(c.blocks, l.lanes), pairs+1, 1)
	if err := r.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(x)
	}
	return c.compare(x, r.words(q), r.floats(d))
}

// compare asks of every number that it is the nearest one. Where x lies between two, a division of Vulkan, which may be off
// by 2.5 units in the last place, may choose either.
func (c quantizeCase) compare(x []float32, words []uint32, d []float32) error {
	const inexact = 1e-4 // of a step
	twin, factors := ref.Quantize(x)
	for i, v := range x {
		row, column := i/(32*c.blocks), i%(32*c.blocks)
		word, factor, want := int32(words[row/2*32*c.blocks+column]), d[(row/2*c.blocks+column/32)*2+row%2], factors[i/32]
		if math.IsNaN(float64(want)) {
			if !math.IsNaN(float64(factor)) {
				return fmt.Errorf("d of row %d, column %d: %g, want what is not a number", row, column, factor)
			}
			continue
		}
		if !(math.Abs(float64(factor-want)) <= 1e-6*float64(want)) {
			return fmt.Errorf("d of row %d, column %d: %g, want %g", row, column, factor, want)
		}
		got := word << 16 >> 16
		if row%2 == 1 {
			got = (word - got) >> 16
		}
		exactly := 0.0
		if want > 0 {
			exactly = float64(v) / float64(want)
		}
		if math.Abs(float64(got)-exactly) > 0.5+inexact {
			return fmt.Errorf("q of row %d, column %d: %d, want %d, which is %g", row, column, got, twin[i], exactly)
		}
	}
	if c.rows%2 == 0 {
		return nil
	}
	for i, word := range words[len(words)-32*c.blocks:] { // beside the last row are zeros
		if low := int32(word) << 16 >> 16; int32(word) != low {
			return fmt.Errorf("q beside the last row, column %d: %#x", i, word)
		}
	}
	return nil
}

// int8Cases are products of activations in int8.
func int8Cases(l launch) (all []opCase) {
	if l.form == shaders.Shared {
		return nil
	}
	kinds := []matmulCase{
		{perLane: 4, pairs: 1, epilogue: ref.SiluPair, biased: true},
		{perLane: 8, pairs: 2, epilogue: ref.AddRes, outs: true},
		{perLane: 12, pairs: 3, epilogue: ref.SiluMul, biased: true},
		{perLane: 16, pairs: 4},
	}
	for i, w := range shaders.MatmulInt8Weights {
		mine := []matmulCase{kinds[(i+int(l.form))%len(kinds)]}
		if copied, err := (shaders.MatmulInt8{Rows: 16, Pairs: 4}).Call(shaders.Variant{Form: l.form, Weight: w}); err == nil && copied.Unrolled {
			mine = append(mine, kinds[3])
		}
		for _, c := range mine {
			c.weight, c.share = w, 1
			group := c.perLane * l.lanes
			if c.epilogue == ref.SiluPair {
				group /= 2
			}
			for _, shape := range []matmulCase{{rows: 1, blocks: 1, many: 5}, {rows: group + 5, blocks: 3, many: 4*c.pairs + 1, sliced: true}} {
				c.rows, c.blocks, c.many, c.sliced = shape.rows, shape.blocks*blocksOf(w), shape.many, shape.sliced
				all = append(all, c)
			}
		}
	}
	return all
}

// inInt8 is the product k of activations in int8.
func (c matmulCase) inInt8(k shaders.Matmul, words, factors *tensor) shaders.MatmulInt8 {
	return shaders.MatmulInt8{Lanes: k.Lanes, Rows: k.Rows, Pairs: uint32(c.pairs), Epilogue: k.Epilogue, Biased: k.Biased, Outs: k.Outs,
		Blocks: k.Steps, First: k.First, Count: k.Count, YStride: k.YStride, YOffset: k.YOffset,
		Step: k.Step, W: k.W, S: k.S, Q: words.Range, D: factors.Range, Bias: k.Bias, Res: k.Res, Y: k.Y}
}
