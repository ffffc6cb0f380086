package model

import (
	"fmt"
	"sync"
	"sync/atomic"

	"vkdecode/h2o"
	"vkdecode/model/gguf"
	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/vk"
)

// Matrix is a weight matrix on the device, repacked for it: (rows, columns), y = W x. It may be several tensors of the
// file under each other, or two of them interleaved (gate and up). One larger than a binding is held in slices of rows.
type Matrix struct {
	name       string
	product    runtime.Product // what decode steps use it for; without an input it is only looked up
	rows       int             // of y before the epilogue; gate and up count both
	columns    int
	paired     bool
	weight     weightType
	layer      int // -1 for none
	planes     planes
	parts      []*gguf.Tensor
	slices     []matrixSlice
	bias       *runtime.Tensor // (rows) f32, nil if there is none
	biasValues []float32
}

// matrixSlice is a run of groups of rows that fits a binding.
type matrixSlice struct {
	group, groups   int
	weights, scales *runtime.Tensor // scales nil for types without
}

// newMatrix plans the memory of tensors under each other (or of two interleaved, paired). All have one type. input is what
// decode steps multiply with, beside the rows of the matrices that the same kernel multiplies, one after the other.
func newMatrix(e *runtime.Engine, a *runtime.Arena, name string, input runtime.Input, paired bool, beside []int, parts ...*gguf.Tensor) (*Matrix, error) {
	w, ok := weightTypeFor(parts[0].Type, e.Tuning.Form)
	if !ok {
		return nil, fmt.Errorf("model: tensor %q: weight type %s has no kernel; %s do", parts[0].Name, parts[0].Type, runningTypes())
	}
	m := &Matrix{name: name, columns: int(parts[0].Columns()), paired: paired, weight: w, parts: parts}
	for _, p := range parts {
		m.rows += int(p.Rows())
	}
	if input == runtime.Parts && !e.Tuning.MergesParts() {
		input = runtime.Plain
	}
	m.product = runtime.Product{Weight: w.name, Rows: m.rows, Columns: m.columns, Input: input}
	launch := e.Launch(m.product)
	if len(beside) > 0 { // what is best for each by itself need not be best for all
		m.product.Input, launch = "", e.Tuning.Launch(beside...)
	}
	return m, m.lay(e, a, launch)
}

// lay plans the matrix's planes for a way to launch its products.
func (m *Matrix) lay(e *runtime.Engine, a *runtime.Arena, l runtime.Launch) error {
	m.planes = newPlanes(l, m.weight, m.columns)
	limits := e.Device.Info.Limits
	groups, most := ceil(m.rows, m.planes.groupRows()), int(e.Bindable())/m.planes.weightBytes()
	if m.paired { // gate and up are each padded to whole groups' halves
		groups = ceil(m.rows/2, m.planes.groupRows()/2)
	}
	most = min(most, int(limits.MaxGroups[0]))
	if most == 0 {
		return fmt.Errorf("model: %s: %d columns are more than the device can bind", m.name, m.columns)
	}
	for g := 0; g < groups; g += most {
		s := matrixSlice{group: g, groups: min(most, groups-g)}
		s.weights = a.Tensor(fmt.Sprintf("weights.%s.%d", m.name, g), int64(s.groups*m.planes.weightBytes()))
		if m.weight.scales != noScales {
			s.scales = a.Tensor(fmt.Sprintf("weights.%s.%d.scales", m.name, g), int64(s.groups*m.planes.scaleBytes()))
		}
		m.slices = append(m.slices, s)
	}
	return nil
}

// bytes are what its planes take.
func (m *Matrix) bytes() (sum int64) {
	for _, s := range m.slices {
		if sum += s.weights.Bytes; s.scales != nil {
			sum += s.scales.Bytes
		}
	}
	return sum
}

// row returns row i of the repacked matrix, in the file's form; nil for a row that pads the last group.
func (m *Matrix) row(i int) []byte {
	if m.paired {
		lanes := m.planes.lanes / m.planes.run
		r, lane := i/lanes, i%lanes
		o := r/2*lanes + lane
		if o >= m.rows/2 {
			return nil
		}
		return tensorRow(m.parts[r%2], o)
	}
	for _, p := range m.parts {
		if i < int(p.Rows()) {
			return tensorRow(p, i)
		}
		i -= int(p.Rows())
	}
	return nil
}

func tensorRow(t *gguf.Tensor, i int) []byte {
	n := len(t.Data) / int(t.Rows())
	return t.Data[i*n : (i+1)*n]
}

// loadWorkers repack at once; the memory of each is one piece of stagedBytes.
const (
	loadWorkers = 2
	stagedBytes = 4 << 20
)

// load repacks the matrix into its tensors, calling progress with bytes of the file as they are done; an
// error from it ends the load.
func (m *Matrix) load(d *vk.Device, progress func(int64) error) error {
	type piece struct {
		slice         matrixSlice
		group, groups int
	}
	var pieces []piece
	each := max(1, stagedBytes/(m.planes.weightBytes()+m.planes.scaleBytes()))
	for _, s := range m.slices {
		for g := 0; g < s.groups; g += each {
			pieces = append(pieces, piece{s, g, min(each, s.groups-g)})
		}
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for range min(loadWorkers, len(pieces)) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(pieces) || failed.Load() != nil {
					return
				}
				p := pieces[i]
				done, err := m.loadPiece(d, p.slice, p.group, p.groups)
				if err == nil {
					err = progress(done)
				}
				if err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return fmt.Errorf("model: load %s: %w", m.name, *err)
	}
	if m.bias != nil {
		return writeFloats(d, m.bias, m.biasValues)
	}
	return nil
}

// loadPiece repacks groups of a slice, straight into the device's memory where the host sees it.
func (m *Matrix) loadPiece(d *vk.Device, s matrixSlice, group, groups int) (fileBytes int64, err error) {
	wb, sb := m.planes.weightBytes(), m.planes.scaleBytes()
	weights := s.weights.Slice(int64(group*wb), int64(groups*wb))
	wbuf, staged := hostView(weights)
	var sbuf []byte
	var scales vk.Range
	if m.weight.scales != noScales {
		scales = s.scales.Slice(int64(group*sb), int64(groups*sb))
		sbuf, _ = hostView(scales)
	}
	for g := range groups {
		var sg []byte
		if sbuf != nil {
			sg = sbuf[g*sb : (g+1)*sb]
		}
		first := (s.group + group + g) * m.planes.groupRows()
		m.planes.pack(m.weight, func(i int) []byte {
			row := m.row(first + i)
			fileBytes += int64(len(row))
			return row
		}, wbuf[g*wb:(g+1)*wb], sg)
	}
	if staged {
		if err := d.Write(weights, wbuf); err != nil {
			return 0, err
		}
		if sbuf != nil {
			return fileBytes, d.Write(scales, sbuf)
		}
	}
	return fileBytes, nil
}

// hostView is the memory of a range, or a buffer to be written to it where the host does not see it.
func hostView(r vk.Range) (b []byte, staged bool) {
	if mapped := r.Buffer.Bytes(); mapped != nil {
		return mapped[r.Offset : r.Offset+r.Size], false
	}
	return make([]byte, r.Size), true
}

// Epilogues of matmul.comp.
const (
	store    = 0
	addRes   = 1
	siluPair = 2 // silu(gate) * up of interleaved rows
	siluMul  = 3 // silu(y) * res
)

// product is one use of a matrix.
type product struct {
	x        vk.Range // (rows, xStride) f32
	y, res   vk.Range // (rows, yStride) f32
	xStride  int
	yStride  int
	yOffset  int
	epilogue uint32
	int8     *int8Rows  // scratch for x in int8, nil if it stays f32
	parts    *h2o.Parts // what x is, nil for x itself
	norm     *vector    // of x, nil for none
	width    int        // elements of x that count for its norm
	eps      float32
	rows     int  // activation rows, at most
	outs     bool // the rows are those whose logits are wanted
}

// multiply records y = epilogue(W x).
func (m *Matrix) multiply(e *runtime.Engine, p *runtime.Program, step *runtime.Tensor, u product) {
	k := shaders.Matmul{Lanes: uint32(m.planes.lanes), Run: uint32(m.planes.run), Rows: uint32(m.planes.rows), Epilogue: u.epilogue,
		Steps: uint32(m.planes.steps), Count: uint32(m.rows), XStride: uint32(u.xStride / 4), YStride: uint32(u.yStride), YOffset: uint32(u.yOffset),
		Step: step.Range, X: u.x, Norm: u.x, Res: u.res, Y: u.y, Bias: u.x}
	if u.res.Buffer == nil {
		k.Res = u.x
	}
	if u.norm != nil {
		k.Normed, k.Eps, k.Norm = uint32(u.width), u.eps, u.norm.tensor.Range
	}
	if u.parts != nil {
		k.Ranges, k.Heads, k.HeadQuads, k.PadQuads = uint32(u.parts.Count), uint32(u.parts.Heads), uint32(u.parts.Dim/4), uint32(u.parts.Pad/4)
		k.X, k.XStride, k.XOffset = u.parts.Range, uint32(u.parts.All*u.parts.Head()/4), uint32(u.parts.First*u.parts.Head()/4)
	}
	if m.bias != nil {
		k.Biased, k.Bias = 1, m.bias.Range
	}
	if u.outs {
		k.Outs = 1
	}
	v, t := e.Variant(m.weight.name, ""), e.Tuning.Tile
	many := u.rows >= e.Tuning.Many && u.parts == nil
	inInt8, tiled := many && u.int8 != nil && m.knowsInt8(v, e.Tuning), many && t.Rows > 0
	if inInt8 {
		u.int8.quantize(e, p, k, u.rows)
	}
	cols := tile(k, v, u.rows, e.Tuning.Cols)
	k.Cols = uint32(cols)
	for _, s := range m.slices {
		k.First = uint32(s.group * m.planes.groupRows())
		k.W, k.S = s.weights.Range, s.weights.Range
		if s.scales != nil {
			k.S = s.scales.Range
		}
		switch {
		case inInt8:
			p.Dispatch(u.int8.of(k, e.Tuning.Pairs), v, s.groups, ceil(u.rows, 2*e.Tuning.Pairs), 1)
		case tiled:
			height := s.groups * m.planes.groupRows()
			p.Dispatch(t.Of(k, height), v, ceil(height, t.Rows), ceil(u.rows, t.Cols), 1)
		default:
			p.Dispatch(k, v, s.groups, ceil(u.rows, cols), 1)
		}
	}
}

// tile is how many of so many activation rows an invocation takes, most at most. Columns past the rows cost as much as
// others, so 6 rows are two tiles of 3 and not of 4; but where code is unrolled only for most of them that is many times
// quicker.
func tile(k shaders.Matmul, v shaders.Variant, rows, most int) int {
	k.Cols = uint32(most)
	if c, err := k.Call(v); rows > 1 && err == nil && c.Unrolled {
		return most
	}
	return ceil(rows, ceil(rows, most))
}

// gather records x (rows, stride) f32 = W[token] for every row of the step.
func (m *Matrix) gather(e *runtime.Engine, p *runtime.Program, step *runtime.Tensor, x vk.Range, stride, rows int) {
	t := e.Tuning
	blocks := m.planes.steps * m.planes.run
	for _, s := range m.slices {
		k := shaders.Embed{Lanes: uint32(t.Lanes), PlaneLanes: uint32(m.planes.lanes), Run: uint32(m.planes.run), Rows: uint32(m.planes.rows), Blocks: uint32(blocks), Stride: uint32(stride / blockColumns),
			First: uint32(s.group * m.planes.groupRows()), Count: uint32(s.groups * m.planes.groupRows()),
			Step: step.Range, W: s.weights.Range, S: s.weights.Range, X: x}
		if s.scales != nil {
			k.S = s.scales.Range
		}
		p.Dispatch(k, e.Variant(m.weight.name, ""), ceil(blocks, t.Lanes), rows, 1)
	}
}

// paddedColumns is the width of an activation row that the matrix reads: whole blocks for every lane.
func (m *Matrix) paddedColumns() int { return m.planes.steps * m.planes.run * blockColumns }

func ceil(a, b int) int { return (a + b - 1) / b }
