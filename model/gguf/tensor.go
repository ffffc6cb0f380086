package gguf

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

const (
	maxDimensions  = 4  // ggml's limit
	minTensorBytes = 33 // of one info: name length and a letter, dimension count, one dimension, type, offset
)

// Tensor is one array of weights.
type Tensor struct {
	Name  string
	Shape []int64 // elements; [0] is the contiguous dimension, trailing ones are dropped
	Type  Type
	Data  []byte // a view of the file, to be read only

	offset uint64 // bytes from the start of the data section
	size   uint64 // bytes
}

// Columns returns the number of elements that lie side by side, Shape[0].
func (t *Tensor) Columns() int64 { return t.Shape[0] }

// Rows returns the product of all dimensions but the first.
func (t *Tensor) Rows() int64 {
	rows := int64(1)
	for _, d := range t.Shape[1:] {
		rows *= d
	}
	return rows
}

// Tensors returns all tensors in file order; the slice must not be changed.
func (f *File) Tensors() []*Tensor { return f.tensors }

// Tensor returns the tensor of that name.
func (f *File) Tensor(name string) (*Tensor, bool) {
	t, ok := f.byName[name]
	return t, ok
}

// readTensors reads the tensor infos, which say where data should lie; placeTensors checks that.
func (f *File) readTensors(c *cursor, count uint64) {
	c.section, c.object = "the tensor infos", ""
	if !c.bound(count, minTensorBytes, "tensors") {
		return
	}
	f.byName = make(map[string]*Tensor)
	for i := range count {
		t := readTensor(c, i+1, count)
		if c.err != nil {
			return
		}
		if f.byName[t.Name] != nil {
			c.failf("name given to two tensors")
			return
		}
		f.byName[t.Name] = t
		f.tensors = append(f.tensors, t)
	}
}

// readTensor reads the info of tensor i of count.
func readTensor(c *cursor, i, count uint64) *Tensor {
	c.object = fmt.Sprintf("tensor %d of %d", i, count)
	name := c.text()
	if c.err == nil && len(name) == 0 { // what padding looks like
		c.failf("no name; the file may hold fewer tensors than it claims")
	}
	if c.err == nil {
		c.object = "tensor " + quote(name)
	}
	dimensions := c.uint32()
	if c.err == nil && (dimensions == 0 || dimensions > maxDimensions) {
		c.failf("%d dimensions, want 1 to %d", dimensions, maxDimensions)
	}
	t := &Tensor{Name: string(name)}
	elements := uint64(1)
	for range dimensions {
		d := c.uint64()
		high, low := bits.Mul64(elements, d)
		switch {
		case c.err != nil:
			return nil
		case d == 0:
			c.failf("a dimension is 0, want at least 1")
		case d > math.MaxInt64 || high != 0 || low > math.MaxInt64:
			c.failf("dimensions %v times %d overflow the number of elements", t.Shape, d)
		}
		elements = low
		t.Shape = append(t.Shape, int64(d))
	}
	for len(t.Shape) > 1 && t.Shape[len(t.Shape)-1] == 1 {
		t.Shape = t.Shape[:len(t.Shape)-1]
	}
	t.Type = Type(c.uint32())
	t.offset = c.uint64()
	if c.err != nil {
		return nil
	}
	if !t.Type.known() {
		c.failf("weight type %v is unknown", t.Type)
		return nil
	}
	if block := t.Type.BlockSize(); t.Shape[0]%block != 0 {
		c.failf("%d columns of %v, want a multiple of %d", t.Shape[0], t.Type, block)
	}
	high, size := bits.Mul64(elements/uint64(t.Type.BlockSize()), uint64(t.Type.BlockBytes()))
	if high != 0 {
		c.failf("shape %v of %v overflows the number of bytes", t.Shape, t.Type)
	}
	t.size = size
	return t
}

// placeTensors points every tensor at its data. The data section begins at the first multiple of
// the alignment after the infos, which end at byte end. Gaps, any order and missing final padding
// are fine.
func (f *File) placeTensors(data []byte, end uint64) error {
	mask := uint64(f.Alignment) - 1
	start := min((end+mask)&^mask, uint64(len(data))) // the padding is missing where nothing follows
	section := data[start:]
	for _, t := range f.tensors {
		held := uint64(len(section))
		if t.offset&mask != 0 {
			return errorf("tensor %s: offset %d, want a multiple of the alignment %d", quote(t.Name), t.offset, f.Alignment)
		}
		if t.offset > held || t.size > held-t.offset {
			return errorf("truncated in the tensor data, tensor %s: wants %d bytes at offset %d, the section holds %d",
				quote(t.Name), t.size, t.offset, held)
		}
		t.Data = section[t.offset : t.offset+t.size : t.offset+t.size]
	}
	return f.checkOverlap()
}

// checkOverlap refuses two tensors that share bytes.
func (f *File) checkOverlap() error {
	order := slices.Clone(f.tensors)
	slices.SortFunc(order, func(a, b *Tensor) int { return cmp.Compare(a.offset, b.offset) })
	for i := 1; i < len(order); i++ {
		a, b := order[i-1], order[i]
		if a.offset+a.size > b.offset {
			return errorf("tensors %s and %s overlap: the first ends at offset %d, the second begins at %d",
				quote(a.Name), quote(b.Name), a.offset+a.size, b.offset)
		}
	}
	return nil
}
