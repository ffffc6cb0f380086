package tests

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/x448/float16"

	"vkdecode/model/gguf"
	"vkdecode/ref"
	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// productError bounds the NMSE of products: sums of f32 in another order, and the driver's exp.
const productError = 1e-11

// matmulCase is y = epilogue(W x) for some activation rows.
type matmulCase struct {
	weight             string
	lanes              int // per workgroup, 0 = the form's
	share, perLane     int // invocations that share a weight row, rows per invocation
	cols               int // activation rows per invocation
	epilogue           ref.Epilogue
	biased, outs       bool
	normed             bool         // x is normed on the way, and with outs gathered
	parts              int          // x is merged from so many parts, 0: it is x
	inPlace            bool         // y holds res before
	rows, blocks, many int          // rows of y, blocks of 32 columns, activation rows
	sliced             bool         // the first group of rows is a slice of its own
	tile               runtime.Tile // in tiles by matmul_tile or matmul_half; none: by matmul
	pairs              int          // of activation rows in int8, by matmul_int8; 0: by matmul
	forge              func(raw []byte, bias, norm []float32)
}

func (c matmulCase) String() string {
	return fmt.Sprintf("%s (%d, %d), %d lanes, %d shared, %d rows each, %d of %d activations, epilogue %d, bias %t, outs %t, normed %t, parts %d, tile %+v, %d pairs in int8",
		c.weight, c.rows, 32*c.blocks, c.lanes, c.share, c.perLane, c.cols, c.many, c.epilogue, c.biased, c.outs, c.normed, c.parts, c.tile, c.pairs)
}

// unrolled are the weight types with unrolled copies of the product.
var unrolled = []string{"f16", "q8_0", "q4_0", "q4_1", "q4_k", "q6_k"}

// blocksOf is the number of blocks of 32 in a block of the file, rowBytes the size in the file of a row of so many.
func blocksOf(weightType string) int { return ref.Blocks[weightType].Weights / 32 }

func rowBytes(weightType string, blocks int) int {
	return blocks / blocksOf(weightType) * ref.Blocks[weightType].Bytes
}

func matmulCases(l launch) (all []opCase) {
	kinds := []matmulCase{
		{share: 1, perLane: 4, cols: 1, normed: true},
		{share: 1, perLane: 8, cols: 2, epilogue: ref.AddRes, biased: true},
		{share: 1, perLane: 12, cols: 4, epilogue: ref.SiluPair, biased: true},
		{share: 2, perLane: 4, cols: 2, epilogue: ref.SiluMul, outs: true},
		{share: 2, perLane: 4, cols: 1, epilogue: ref.AddRes, inPlace: true, outs: true},
		{share: 4, perLane: 8, cols: 4, epilogue: ref.SiluPair, outs: true, normed: true},
	}
	for i, w := range shaders.WeightTypes {
		first := i + l.lanes/16 + int(l.form) // each form takes every kind, with another weight type
		mine := []matmulCase{kinds[first%len(kinds)]}
		if l.form != shaders.Shared && l.form == runtime.TuningFor(l.info).Form { // others are spare here, or have two sizes of workgroups, and are slow to build
			mine = append(mine, kinds[(first+3)%len(kinds)])
		}
		if l.form == shaders.Storage && slices.Contains(unrolled, w) {
			mine = append(mine, matmulCase{share: 1, perLane: 16, cols: 1, epilogue: ref.SiluPair, normed: true})
		}
		if l.form == shaders.Texel && i%2 == 0 {
			mine = append(mine, matmulCase{share: 1, perLane: 4, cols: 1 + i/2, epilogue: ref.AddRes, parts: 1 + i})
		}
		if w == "q4_1" || w == "q8_0" {
			if l.form != shaders.Shared {
				mine = append(mine, matmulCase{share: 1, perLane: 16, cols: 4})
			} else if l.lanes == 64 {
				mine = append(mine, matmulCase{share: 32, perLane: 4, cols: 4}, matmulCase{share: 32, perLane: 4, cols: 1, normed: true})
			}
		}
		for _, c := range append(mine, tunedCases(l, i)...) {
			c.weight = w
			group := c.perLane * c.on(l).lanes / c.share
			if c.epilogue == ref.SiluPair {
				group /= 2
			}
			shapes := []matmulCase{{rows: 1, blocks: 1, many: 5}, {rows: group + 5, blocks: 3, many: 3, sliced: true}, {rows: 2*group + 1, blocks: 2, many: 1}}
			if c.normed || c.parts > 0 { // every number of columns is another pipeline
				shapes[2].blocks = 3
			}
			for _, shape := range shapes {
				shape.blocks *= blocksOf(w)
				c.rows, c.blocks, c.many, c.sliced = shape.rows, shape.blocks, shape.many, shape.sliced
				all = append(all, c)
			}
		}
	}
	return all
}

// tunedCases are the ways that tuning may choose for a form, each with another weight type, for steps and for chunks.
func tunedCases(l launch, weight int) (all []matmulCase) {
	table, info := runtime.TuningIn(l.info, l.form), l.info
	if l.lanes != table.Lanes { // the other size of workgroups: beside it the form is tried as on a CPU
		info.Kind = "cpu"
	}
	for i, way := range runtime.Launches(info, l.form) {
		for chunk := range 2 {
			if (2*i+chunk)%len(shaders.WeightTypes) == weight {
				c := matmulCase{lanes: way.Lanes, share: way.Run, perLane: way.Rows, cols: 1, normed: true}
				if chunk == 1 {
					c.cols, c.normed = table.Cols, false
				}
				all = append(all, c)
			}
		}
	}
	return all
}

// on is the launch that the case takes of a form.
func (c matmulCase) on(l launch) launch {
	if c.lanes > 0 {
		l.lanes = c.lanes
	}
	return l
}

// halvesAt is where a weight type's block in a file has f16 values.
var halvesAt = map[string][]int{"q8_0": {0}, "q4_0": {0}, "q4_1": {0, 2}, "q5_0": {0}, "q5_1": {0, 2}, "iq4_nl": {0}, "mxfp4": {},
	"q2_k": {80, 82}, "q3_k": {108}, "q4_k": {0, 2}, "q5_k": {0, 2}, "q6_k": {208}}

// randomWeights are rows of so many blocks of 32 as files have them, tiny scales and negative ones included.
func randomWeights(r *rand.Rand, weightType string, blocks int) (raw []byte) {
	half := func() uint16 {
		if r.IntN(16) == 0 {
			return uint16(r.IntN(1 << 10)) // too small for a normal number
		}
		return float16.Fromfloat32(r.Float32() - 0.5).Bits()
	}
	for range blocks / blocksOf(weightType) {
		block := make([]byte, ref.Blocks[weightType].Bytes)
		for i := range block {
			block[i] = byte(r.Uint32())
		}
		for _, at := range halvesAt[weightType] {
			binary.LittleEndian.PutUint16(block[at:], half())
		}
		switch weightType {
		case "mxfp4":
			block[0] = byte(110 + r.IntN(20)) // of a power of two
		case "f16":
			for i := 0; i < len(block); i += 2 {
				binary.LittleEndian.PutUint16(block[i:], half())
			}
		case "bf16", "f32":
			for i := len(block) / 32; i <= len(block); i += len(block) / 32 {
				binary.LittleEndian.PutUint16(block[i-2:], uint16(r.IntN(2)<<15|(120+r.IntN(8))<<7|r.IntN(128))) // the upper half of an f32
			}
		}
		raw = append(raw, block...)
	}
	return raw
}

func randomFloats(r *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64())
	}
	return out
}

// stepRows are n rows of one sequence.
func stepRows(n int) (rows []runtime.Row) {
	for i := range n {
		rows = append(rows, runtime.Row{Token: int32(i), Pos: int32(i)})
	}
	return rows
}

func (c matmulCase) run(b *bench, l launch) error {
	l = c.on(l)
	rnd := rand.New(rand.NewPCG(uint64(c.rows), uint64(c.blocks)))
	rows, outs := stepRows(c.many), []int(nil)
	if c.outs {
		rows, outs = stepRows(c.many+2), make([]int, c.many)
		for i := range outs {
			outs[i] = (i*3 + 1) % len(rows)
		}
	}
	from := outs // the row of x for each activation row
	if !c.outs || !c.normed {
		from = make([]int, c.many)
		for i := range from {
			from[i] = i
		}
	}
	r := b.rig(l, rows, outs...)
	defer r.free()

	fileRows := c.rows // rows of the file's matrices
	order := make([]int, c.rows)
	for i := range order {
		order[i] = i
	}
	if c.epilogue == ref.SiluPair {
		fileRows, order = 2*c.rows, ref.Paired(c.rows, l.lanes, c.share, c.perLane)
	}
	raw := randomWeights(rnd, c.weight, fileRows*c.blocks)
	weights, scales := r.planes(c, raw, order)

	steps, columns := ceil(c.blocks, c.share), 32*c.blocks
	xStride, xOffset, yStride, yOffset := 8*steps*c.share+2, 1, c.rows+7, 3
	x, res, bias := randomFloats(rnd, len(rows)*columns), values32(c.many*yStride), randomFloats(rnd, fileRows)
	padded, norm := values32(len(rows)*4*xStride), make([]float32, 32*steps*c.share)
	copy(norm, randomFloats(rnd, columns))
	for i := range rows {
		at := 4 * (i*xStride + xOffset)
		clear(padded[at:][:32*steps*c.share])
		copy(padded[at:], x[i*columns:(i+1)*columns])
	}
	for i := range c.many {
		copy(res[i*yStride+yOffset:], randomFloats(rnd, c.rows))
	}
	xs, ress, biases, y := in(r, "x", padded), in(r, "res", res), in(r, "bias", bias), r.out("y", len(res))
	if c.inPlace {
		y = ress
	}
	k := shaders.Matmul{Lanes: uint32(l.lanes), Run: uint32(c.share), Rows: uint32(c.perLane), Cols: uint32(c.cols), Epilogue: uint32(c.epilogue), Biased: word(c.biased), Outs: word(c.outs),
		Steps: uint32(steps), Count: uint32(fileRows), XStride: uint32(xStride), XOffset: uint32(xOffset), YStride: uint32(yStride), YOffset: uint32(yOffset),
		Step: r.step.Range, X: xs.Range, Norm: in(r, "norm", norm).Range, Bias: biases.Range, Res: ress.Range, Y: y.Range}
	if c.normed {
		k.Normed, k.Eps = uint32(columns), 1e-3
	}
	merged := make([][]float64, len(rows))
	if c.parts > 0 {
		const dim, pad = 20, 24
		heads := columns / dim
		k.Ranges, k.Heads, k.HeadQuads, k.PadQuads, k.XStride = uint32(c.parts), uint32(heads), dim/4, pad/4, uint32(heads*c.parts*(pad+4)/4+xOffset)
		k.X, merged = r.attention(rnd, len(rows), heads, c.parts, dim, pad, columns, xOffset)
	}
	given := ref.Widen(x) // what is multiplied
	var words, factors *tensor
	if c.pairs > 0 {
		q, d := ref.Quantize(x)
		given = ref.Dequantize(q, d)
		ws, ds := ref.Pairs(q, d, columns)
		words, factors = in(r, "q", ws), in(r, "d", ds)
	}
	group := c.perLane * l.lanes / c.share
	for i := range weights {
		k.First, k.W, k.S = uint32(i*group), weights[i].Range, scales[i].Range
		groups := 1
		if i == len(weights)-1 {
			groups = ceil(len(order), group) - i
		}
		if c.pairs > 0 {
			r.add(c.inInt8(k, words, factors), c.weight, "", groups, ceil(c.many, 2*c.pairs)+1, 1)
		} else if c.tile.Rows > 0 {
			r.add(c.tile.Of(k, groups*group), c.weight, "", ceil(groups*group, c.tile.Rows)+1, ceil(c.many, c.tile.Cols)+1, 1)
		} else {
			r.add(k, c.weight, "", groups, ceil(c.many, c.cols)+1, 1)
		}
	}
	if err := r.run(); err != nil {
		return err
	}

	if !c.biased {
		bias = nil
	}
	if c.forge != nil {
		c.forge(raw, bias, norm)
	}
	w, want := ref.Weights(c.weight, raw), values(len(res))
	for i := range c.many {
		row := ref.RMSNorm(x[from[i]*columns:][:columns], norm[:columns], 1e-3)
		if c.parts > 0 {
			row = merged[i]
		} else if !c.normed {
			row = given[from[i]*columns:][:columns]
		}
		copy(want[i*yStride+yOffset:], ref.MatMul(w, row, bias, res[i*yStride+yOffset:], c.epilogue))
	}
	most := productError
	if c.tile.Half {
		most = halfError
	}
	return compare("y", r.floats(y), want, most)
}

// attention makes random parts of attention, after so many vec4 in each row, and the rows that they merge to, zero from the
// last head to columns.
func (r *rig) attention(rnd *rand.Rand, rows, heads, count, dim, pad, columns, offset int) (parts vk.Range, merged [][]float64) {
	var floats []float32
	for range rows {
		row := make([]float64, 0, columns)
		floats = append(floats, values32(4*offset)...)
		for range heads {
			walked := make([]ref.Part, count)
			for i := range walked {
				o := randomFloats(rnd, pad)
				end := []float32{float32(rnd.NormFloat64()), 1 + rnd.Float32(), blankFloat, blankFloat}
				if i == count-1 && count > 1 { // an empty range
					clear(o)
					end[0], end[1] = ref.Never, 0
				}
				floats = append(append(floats, o...), end...)
				walked[i] = ref.Part{Peak: float64(end[0]), Sum: float64(end[1]), O: ref.Widen(o)}
			}
			row = append(row, ref.Merge(walked)[:dim]...)
		}
		merged = append(merged, append(row, make([]float64, columns-len(row))...))
	}
	return in(r, "parts", floats).Range, merged
}

// planes puts the file's rows in their order, -1 for one that is missing, into the planes of each slice.
func (r *rig) planes(c matmulCase, raw []byte, order []int) (weights, scales []*tensor) {
	w, s := ref.Planes(c.weight, len(order), 32*c.blocks, inOrder(raw, order, rowBytes(c.weight, c.blocks)), r.lanes, c.share, c.perLane)
	cuts := []int{0, 1}
	if c.sliced {
		cuts = []int{0, 1, 2}
	}
	if n := ceil(len(order), c.perLane*r.lanes/c.share); n > 0 {
		cuts[len(cuts)-1] = n
		for i := range len(cuts) - 1 {
			part := func(plane []uint32) []uint32 { return plane[len(plane)/n*cuts[i] : len(plane)/n*cuts[i+1]] }
			weights = append(weights, in(r, "w", part(w)))
			scales = append(scales, weights[i])
			if s != nil {
				scales[i] = in(r, "s", part(s))
			}
		}
	}
	return weights, scales
}

// values32 are n blank floats.
func values32(n int) []float32 { return slices.Repeat([]float32{blankFloat}, n) }

func word(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

func ceil(a, b int) int { return (a + b - 1) / b }

// fileTypes are the numbers under which files name the weight types.
var fileTypes = map[string]gguf.Type{"f32": gguf.F32, "f16": gguf.F16, "bf16": gguf.BF16, "q8_0": gguf.Q8_0, "q4_0": gguf.Q4_0, "q4_1": gguf.Q4_1,
	"q5_0": gguf.Q5_0, "q5_1": gguf.Q5_1, "iq4_nl": gguf.IQ4_NL, "mxfp4": gguf.MXFP4,
	"q2_k": gguf.Q2_K, "q3_k": gguf.Q3_K, "q4_k": gguf.Q4_K, "q5_k": gguf.Q5_K, "q6_k": gguf.Q6_K}

func TestTwinsReadWeightsAsTheReaderDoes(t *testing.T) {
	for _, name := range shaders.WeightTypes {
		raw := randomWeights(rand.New(rand.NewPCG(1, 2)), name, 96)
		read := func(raw []byte) error {
			got := make([]float32, 32*96)
			if err := gguf.Dequantize(fileTypes[name], raw, got); err != nil {
				t.Fatal(err)
			}
			return compare(name, got, ref.Weights(name, raw), exact)
		}
		if err := read(raw); err != nil {
			t.Error(err)
		}
		twin := ref.Weights(name, raw)
		for at := range raw[:ref.Blocks[name].Bytes] { // no byte of a block is without effect on the twin
			changed := slices.Clone(raw)
			changed[at] ^= 0x55
			if slices.Equal(ref.Weights(name, changed), twin) {
				t.Errorf("%s: byte %d of a block makes no difference", name, at)
			}
		}
	}
}

// Tuning chooses among ways that were compared with the twin, for steps and for chunks.
func TestEveryWayThatTuningMayChooseIsCompared(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		b := &bench{device: d}
		compared := map[string]bool{}
		name := func(form shaders.Form, l runtime.Launch, chunk bool) string { return fmt.Sprint(form, l, chunk) }
		for _, l := range b.launches() {
			for _, c := range matmulCases(l) {
				c := c.(matmulCase)
				compared[name(l.form, runtime.Launch{Lanes: c.on(l).lanes, Run: c.share, Rows: c.perLane}, c.cols > 1)] = true
			}
		}
		for _, form := range []shaders.Form{shaders.Texel, shaders.Storage, shaders.Shared} {
			for _, l := range runtime.Launches(d.Info, form) {
				for _, chunk := range []bool{false, true} {
					if !compared[name(form, l, chunk)] {
						t.Errorf("%v kernels, %v, chunk %v: compared with no twin", form, l, chunk)
					}
				}
			}
		}
	})
}
