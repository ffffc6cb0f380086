package tests

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"vkdecode/ref"
	"vkdecode/shaders"
)

// chainCase is a layer's products after its attention and the projections of the next layer, in one dispatch.
type chainCase struct {
	weight     string
	perLane    int
	workgroups int
	parts      int  // of attention, 0: it is one row
	taken      int  // groups of each product that somebody has taken and will never do
	skipped    bool // the first of them is said to be done
	forge      func(raw []byte, norm []float32)
}

func (c chainCase) String() string {
	return fmt.Sprintf("%s, %d rows each, %d workgroups, parts %d, %d groups taken", c.weight, c.perLane, c.workgroups, c.parts, c.taken)
}

func chainCases(l launch) (all []opCase) {
	if l.form != shaders.Texel {
		return nil
	}
	for i, w := range shaders.WeightTypes {
		all = append(all, chainCase{weight: w, perLane: 4 + i%3*4, workgroups: 1 + i%5, parts: i % 4, taken: i % 3})
	}
	return all
}

// chainLink is one of the products: where it reads and writes, in f32.
type chainLink struct {
	rows, columns int // of the weights
	epilogue      ref.Epilogue
	normed        bool
	x, y, res     int
}

func (c chainCase) run(b *bench, l launch) error {
	rnd := rand.New(rand.NewPCG(uint64(c.perLane), uint64(c.parts)))
	r := b.rig(l, stepRows(1))
	defer r.free()
	unit := 32 * blocksOf(c.weight)
	attn, width, ffn, keys := unit, unit, 2*unit, c.perLane*l.lanes+5
	const gap = 8 // f32 between regions
	at := 0
	region := func(n int) int { at += n + gap; return at - n }
	begin, middle, end, attention, gated, projected := region(width), region(width), region(width), region(attn), region(ffn), region((keys+3)&^3)
	own := at + gap
	ownEach := max(width, attn) + gap
	rows := values32(own + c.workgroups*ownEach)
	copy(rows[begin:], randomFloats(rnd, width))
	copy(rows[attention:], randomFloats(rnd, attn))
	links := []chainLink{
		{width, attn, ref.AddRes, false, attention, middle, begin},
		{2 * ffn, width, ref.SiluPair, true, middle, gated, 0},
		{width, ffn, ref.AddRes, false, gated, end, middle},
		{keys, width, ref.Store, true, end, projected, 0},
	}
	k := shaders.Chain{Lanes: uint32(l.lanes), Rows: uint32(c.perLane), Run: 1, Cols: 1, First: 1, Count: uint32(len(links)), Own: uint32(own), OwnEach: uint32(ownEach), Patience: 50, Eps: 1e-3, Step: r.step.Range}
	merged := ref.Widen(rows[attention:][:attn])
	k.Parts = r.step.Range
	if c.parts > 0 {
		const dim, pad = 20, 24
		heads := attn / dim
		k.Ranges, k.Heads, k.HeadQuads, k.PadQuads, k.PartsAt = uint32(c.parts), uint32(heads), dim/4, pad/4, 1
		var all [][]float64
		k.Parts, all = r.attention(rnd, 1, heads, c.parts, dim, pad, attn, 1)
		merged = all[0]
		copy(rows[attention:][:attn], values32(attn)) // not read
	}

	var planes, table, state []uint32
	raws, norm := make([][]byte, len(links)), randomFloats(rnd, width)
	for _, v := range norm {
		planes = append(planes, math.Float32bits(v))
	}
	table = append(table, make([]uint32, 12)...) // another chain's
	for i, p := range links {
		raws[i] = randomWeights(rnd, c.weight, p.rows*p.columns/32)
		order := make([]int, p.rows)
		for n := range order {
			order[n] = n
		}
		if p.epilogue == ref.SiluPair {
			order = ref.Paired(p.rows/2, l.lanes, 1, c.perLane)
		}
		w, s := ref.Planes(c.weight, len(order), p.columns, inOrder(raws[i], order, rowBytes(c.weight, p.columns/32)), l.lanes, 1, c.perLane)
		groups, normed := ceil(len(order), c.perLane*l.lanes), 0
		if p.normed {
			normed = width
		}
		table = append(table, uint32(p.columns/32), uint32(groups), uint32(p.rows), uint32(p.epilogue),
			uint32(p.x/4), uint32(len(planes)/4), uint32((len(planes)+len(w))/4), uint32(len(state)), uint32(p.y), uint32(p.res), 0, uint32(normed))
		planes = append(append(planes, w...), s...)
		taken := min(c.taken, groups)
		begun := make([]uint32, 2+groups)
		begun[0] = uint32(taken)
		if c.skipped {
			begun[1], begun[2] = 1, 1
		}
		state = append(state, begun...)
	}
	activations, states := in(r, "rows", rows), in(r, "state", state)
	k.W = in(r, "w", planes).Range
	k.S, k.Products, k.X, k.Res, k.Y, k.State = k.W, in(r, "products", table).Range, activations.Range, activations.Range, activations.Range, states.Range
	r.add(k, c.weight, "", c.workgroups, 1, 1)
	if err := r.run(); err != nil {
		return err
	}

	if c.forge != nil {
		c.forge(raws[0], norm)
	}
	want := values(len(rows))
	for i, v := range rows {
		if v == v {
			want[i] = float64(v)
		}
	}
	for i, p := range links {
		x := slices.Clone(want[p.x:][:p.columns])
		if i == 0 {
			x = merged
		}
		if p.normed {
			narrow := make([]float32, len(x))
			for n, v := range x {
				narrow[n] = float32(v)
			}
			x = ref.RMSNorm(narrow, norm, 1e-3)
		}
		if i == 0 && c.parts > 0 || p.normed {
			for g := range c.workgroups {
				copy(want[own+g*ownEach:], x)
			}
		}
		var res []float32
		if p.epilogue == ref.AddRes {
			for _, v := range want[p.res:][:p.rows] {
				res = append(res, float32(v))
			}
		}
		copy(want[p.y:], ref.MatMul(ref.Weights(c.weight, raws[i]), x, nil, res, p.epilogue))
	}
	if err := compare("rows", r.floats(activations), want, productError); err != nil {
		return err
	}
	left := r.words(states)
	for i := range links {
		groups, from := table[12*(i+1)+1], table[12*(i+1)+7]
		if left[from+1] != groups || slices.Contains(left[from+2:][:groups], 0) {
			return fmt.Errorf("state: %d groups of product %d are said to be done, it has %d", left[from+1], i, groups)
		}
	}
	return nil
}

// inOrder are the rows of a file in their order, zeros for -1.
func inOrder(raw []byte, order []int, size int) (packed []byte) {
	for _, row := range order {
		if row < 0 {
			packed = append(packed, make([]byte, size)...)
		} else {
			packed = append(packed, raw[row*size:(row+1)*size]...)
		}
	}
	return packed
}
