package tests

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"vkdecode/h2o"
	"vkdecode/ref"
	"vkdecode/shaders"
)

// chainCase is two layers in one dispatch: of each the attention, if it is a part of the chain, and the products up to the
// next one.
type chainCase struct {
	weight     string
	perLane    int
	workgroups int
	cache      string // type of K and V
	attends    bool   // attention is part of the chain
	scored     bool   // e and peaks are kept
	ranges     int    // parts of attention for every head; 0: it is one row
	taken      int    // groups of each attention and product that somebody has taken and will never do
	skipped    bool   // the first of each product is said to be done
	forge      func(r *chainRun)
}

func (c chainCase) String() string {
	return fmt.Sprintf("%s, %d rows each, %d workgroups, cache %s, attends %t, scored %t, %d ranges, %d groups taken", c.weight, c.perLane, c.workgroups, c.cache, c.attends, c.scored, c.ranges, c.taken)
}

func chainCases(l launch) (all []opCase) {
	if l.form != shaders.Texel {
		return nil
	}
	for i, w := range shaders.WeightTypes {
		for n, cache := range []string{"f16", "f32"} {
			c := chainCase{weight: w, cache: cache, perLane: 4 + i%3*4, workgroups: 1 + i%5, ranges: (i + n) % 4, taken: i % 3}
			if (i+n)%4 == 1 { // attention knows nothing of weight types
				c.attends, c.scored, c.ranges = true, i/4%2 == 0, 1+i/4%3
			}
			all = append(all, c)
		}
	}
	return all
}

const (
	chainLayers        = 2
	chainKV, chainHead = 2, 6 // heads of each
	chainDim, chainPad = 20, 24
	chainDepth         = 2
	chainTile          = 2
	chainBefore        = 1                                  // heads of others in a row of parts
	chainProjected     = (chainHead + 2*chainKV) * chainDim // q, k and v of a layer
)

// chainRun is a case with its buffers.
type chainRun struct {
	chainCase
	*cacheRig
	kernel shaders.Chain
	all    []float32     // activations
	qkv    []int         // by layer, where the row begins that attention reads
	links  [][]chainLink // by layer
	own    int           // where the rows begin that workgroups make for themselves
	each   int           // from one to the next
	norm   []float32
	rope   ref.RopeCache
	merged []float64 // what parts come to that were there before

	activations, state, parts, e, peaks, shares *tensor
}

// chainLink is one of the products: where it reads and writes, in f32.
type chainLink struct {
	rows, columns int // of the weights
	epilogue      ref.Epilogue
	normed        bool
	x, y, res     int
	raw           []byte
}

func (c chainCase) run(b *bench, l launch) error {
	rnd := rand.New(rand.NewPCG(uint64(c.perLane), uint64(c.ranges)))
	live := 3*chainDepth*l.lanes + 3
	r := &chainRun{chainCase: c, cacheRig: b.newCache(l, rnd, h2o.Types{K: c.cache, V: c.cache}, chainPad, chainLayers*chainKV, []sequence{{live: live, rows: 1}}, nil)}
	defer r.free()
	r.kernel = shaders.Chain{Lanes: uint32(l.lanes), Rows: uint32(c.perLane), Run: 1, Cols: 1, First: 1, Count: chainLayers, Patience: 50, Looks: 120, Eps: 1e-3, Step: r.step.Range}
	r.shape(rnd)
	r.products(rnd)
	r.bindCache(rnd, live+1)
	r.add(r.kernel, c.weight, c.cache, c.workgroups, 1, 1)
	if err := r.rig.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(r)
	}
	return r.compare()
}

// shape places the rows and says what is multiplied with what.
func (r *chainRun) shape(rnd *rand.Rand) {
	width, at := max(128, 32*blocksOf(r.weight)), 0
	region := func(n int) int {
		const gap = 8 // f32
		at += n + gap
		return at - n
	}
	x := region(width)
	r.qkv = append(r.qkv, region(chainProjected))
	given := map[int]int{x: width, r.qkv[0]: chainProjected}
	for i := range chainLayers {
		attn, middle, gated, end := region(width), region(width), region(width), region(width)
		if r.ranges == 0 {
			given[attn] = width
		}
		links := []chainLink{
			{rows: width, columns: width, epilogue: ref.AddRes, x: attn, y: middle, res: x},
			{rows: 2 * width, columns: width, epilogue: ref.SiluPair, normed: true, x: middle, y: gated},
			{rows: width, columns: width, epilogue: ref.AddRes, x: gated, y: end, res: middle},
		}
		if i < chainLayers-1 {
			r.qkv = append(r.qkv, region(chainProjected))
			links = append(links, chainLink{rows: chainProjected, columns: width, epilogue: ref.Store, normed: true, x: end, y: r.qkv[i+1]})
		}
		r.links, x = append(r.links, links), end
	}
	r.each = width + 8
	r.own = region(r.workgroups * r.each)
	r.all, r.norm = values32(at), randomFloats(rnd, width)
	for i := range r.norm {
		r.norm[i] /= 10 // so that K and V that are made are about as large as those that are there
	}
	for _, x := range slices.Sorted(maps.Keys(given)) {
		copy(r.all[x:], randomFloats(rnd, given[x]))
	}
	r.activations = in(r.rig, "rows", r.all)
	r.kernel.Own, r.kernel.OwnEach = uint32(r.own), uint32(r.each)
	r.kernel.X, r.kernel.Res, r.kernel.Y = r.activations.Range, r.activations.Range, r.activations.Range
}

// products makes their weights, and the tables.
func (r *chainRun) products(rnd *rand.Rand) {
	var planes, layers, records, state []uint32
	for _, v := range r.norm {
		planes = append(planes, math.Float32bits(v))
	}
	begin := func(groups int) int { // to be done, some of which were taken
		words := make([]uint32, 2+groups)
		words[0] = uint32(min(r.taken, groups))
		state = append(state, words...)
		return len(state) - len(words)
	}
	layers = append(layers, make([]uint32, 4)...) // another chain's
	for i, links := range r.links {
		layers = append(layers, uint32(len(links)), uint32(1+chainLayers+len(records)/4), uint32(r.qkv[i]/4), uint32(len(state)))
		if r.attends {
			begin(r.ranges * chainKV * ceil(chainHead/chainKV, chainTile))
		}
		for n := range links {
			p := &links[n]
			p.raw = randomWeights(rnd, r.weight, p.rows*p.columns/32)
			order := make([]int, p.rows)
			for row := range order {
				order[row] = row
			}
			if p.epilogue == ref.SiluPair {
				order = ref.Paired(p.rows/2, r.lanes, 1, r.perLane)
			}
			w, s := ref.Planes(r.weight, len(order), p.columns, inOrder(p.raw, order, rowBytes(r.weight, p.columns/32)), r.lanes, 1, r.perLane)
			groups, normed := ceil(len(order), r.perLane*r.lanes), 0
			if p.normed {
				normed = p.columns
			}
			at := begin(groups)
			if r.skipped {
				state[at+1], state[at+2] = 1, 1
			}
			records = append(records, uint32(p.columns/32), uint32(groups), uint32(p.rows), uint32(p.epilogue),
				uint32(p.x/4), uint32(len(planes)/4), uint32((len(planes)+len(w))/4), uint32(at), uint32(p.y), uint32(p.res), 0, uint32(normed))
			planes = append(append(planes, w...), s...)
		}
	}
	r.state = in(r.rig, "state", state)
	r.kernel.State, r.kernel.Layers, r.kernel.W = r.state.Range, in(r.rig, "layers", append(layers, records...)).Range, in(r.rig, "w", planes).Range
	r.kernel.S = r.kernel.W
}

// bindCache binds the cache of so many slots, or parts that are there before, or nothing.
func (r *chainRun) bindCache(rnd *rand.Rand, live int) {
	k, split := &r.kernel, chainDepth*r.lanes
	heads, splits := chainBefore+chainLayers*chainHead, ceil(live, split)+1
	r.parts, r.e = r.out("parts", heads*max(r.ranges, 1)*(chainPad+4)), r.out("e", heads*splits*split)
	r.peaks, r.shares = r.out("peaks", heads*splits), r.out("shares", heads*splits)
	k.Table, k.K, k.V, k.KOut, k.VOut, k.SlotsOut = r.table.Range, r.k.Range, r.v.Range, r.k.Range, r.v.Range, r.slots.Range
	k.Parts, k.PartsOut, k.E, k.Peaks, k.PeaksOut, k.Shares = r.parts.Range, r.parts.Range, r.e.Range, r.peaks.Range, r.peaks.Range, r.shares.Range
	k.Ranges, k.Head, k.KvHeads, k.Group, k.HeadDim, k.HeadPad = uint32(r.ranges), chainBefore, chainKV, chainHead/chainKV, chainDim, chainPad
	k.Depth, k.HeadTile, k.RopeDim, k.Wide = chainDepth, chainTile, chainDim, uint32(min(r.lanes, 8))
	r.rope = ref.RopeCache{QHeads: chainHead, KVHeads: chainKV, Dim: chainDim, Pad: chainPad, RopeDim: chainDim, Scale: float64(float32(0.3)), Turns: randomTurns(rnd, 2*live, chainDim)}
	k.Rope = in(r.rig, "rope", r.rope.Turns).Range
	switch {
	case r.attends:
		k.Attends, k.Scored, k.Entry, k.Scale, k.Stride, k.Splits = 1, word(r.scored), others, 0.3, uint32(splits*split), uint32(splits)
	case r.ranges > 0:
		var all [][]float64
		k.Parts, all = r.rig.attention(rnd, 1, heads, r.ranges, chainDim, chainPad, heads*chainDim, 0)
		r.merged = all[0][chainBefore*chainDim:]
	}
}

// compare compares all that was written with the twins'.
func (r *chainRun) compare() error {
	want := ref.Widen(r.all) // what was not a number must still be blank
	parts, e := values(int(r.parts.data.Size/4)), values(int(r.e.data.Size/4))
	peaks, shares := values(int(r.peaks.data.Size/4)), values(int(r.shares.data.Size/4))
	for i, links := range r.links {
		merged := r.merged
		if r.attends {
			merged = r.walk(i, want[r.qkv[i]:][:chainProjected], parts, e, peaks, shares)
		} else if r.ranges > 0 {
			merged = merged[i*chainHead*chainDim:][:chainHead*chainDim]
		}
		for n, p := range links {
			x := slices.Clone(want[p.x:][:p.columns])
			if n == 0 && r.ranges > 0 {
				clear(x)
				copy(x, merged)
			}
			if p.normed {
				x = ref.RMSNorm(narrow(x), r.norm, r.kernel.Eps)
			}
			if n == 0 && r.ranges > 0 || p.normed {
				for g := range r.workgroups {
					copy(want[r.own+g*r.each:], x)
				}
			}
			var res []float32
			if p.epilogue == ref.AddRes {
				res = narrow(want[p.res:][:p.rows])
			}
			copy(want[p.y:], ref.MatMul(ref.Weights(r.weight, p.raw), x, nil, res, p.epilogue))
		}
	}
	most := productError
	if r.attends { // a value of the new token that is rounded the other way counts for more than the sums do
		most = max(attendError, roundingError(r.cache))
	}
	for _, x := range []struct {
		t    *tensor
		want []float64
	}{{r.parts, parts}, {r.e, e}, {r.peaks, peaks}, {r.shares, shares}, {r.activations, want}} {
		if err := compare(x.t.name, r.floats(x.t), x.want, most); err != nil {
			return err
		}
	}
	if err := r.compareCache(most, most); err != nil {
		return err
	}
	return r.finished()
}

// walk is the twin of a layer's attention.
func (r *chainRun) walk(layer int, qkv, parts, e, peaks, shares []float64) (merged []float64) {
	heads, split := r.heads[layer*chainKV:][:chainKV], chainDepth*r.lanes
	q := r.rope.Append(r.rows, narrow(qkv), heads, r.twin)
	for head := range chainHead {
		h, at := heads[head/(chainHead/chainKV)], chainBefore+layer*chainHead+head
		walked := r.twin.Walk(h, h.Live+1, q[head*chainPad:][:chainPad], split, r.ranges)
		slot, peak := at*int(r.kernel.Stride), at*int(r.kernel.Splits)
		for n, p := range walked {
			of := parts[(at*r.ranges+n)*(chainPad+4):]
			copy(of, p.O)
			copy(of[chainPad:], []float64{p.Peak, p.Sum, 0, 0})
			if r.scored {
				clear(e[slot:][:len(p.Peaks)*split]) // a split is written whole
				copy(shares[peak:], ref.Shares(walked, p.Peaks))
				byLane(e[slot:], p.E, r.lanes, chainDepth)
				slot, peak = slot+len(p.Peaks)*split, peak+copy(peaks[peak:], p.Peaks)
			}
		}
		merged = append(merged, ref.Merge(walked)[:chainDim]...)
	}
	return merged
}

// finished expects every group to be done and to be said so.
func (r *chainRun) finished() error {
	words := r.words(r.state)
	for at := 0; at < len(words); {
		groups := words[at+1]
		if words[at] < groups || groups == 0 || slices.Contains(words[at+2:][:groups], 0) {
			return fmt.Errorf("state: of the groups at word %d %d are said to be done", at, groups)
		}
		at += 2 + int(groups)
	}
	return nil
}

func narrow(x []float64) (y []float32) {
	for _, v := range x {
		y = append(y, float32(v))
	}
	return y
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
