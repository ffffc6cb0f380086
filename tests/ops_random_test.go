package tests

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"vkdecode/ref"
	"vkdecode/shaders"
)

// randomCase is a stretch of random words in the middle of a buffer.
type randomCase struct {
	first, count int // elements
	seed         uint32
	mask, value  uint32
	forge        func(want []uint32)
}

func (c randomCase) String() string {
	return fmt.Sprintf("elements %d to %d, seed %d, mask %#x, value %#x", c.first, c.first+c.count, c.seed, c.mask, c.value)
}

func randomCases(l launch) []opCase {
	all := []opCase{
		randomCase{first: 0, count: 1, seed: 1, mask: 0xFFFFFFFF},
		randomCase{first: 5, count: 3*l.lanes + 1, seed: 1 << 31, mask: 0x83FF83FF, value: 0x38003800},
		randomCase{first: 0, count: 2 * l.lanes, mask: 0x807FFFFF, value: 0x3F000000},
	}
	for i, weight := range []string{"f32", "q5_1", "q8_0"} {
		all = append(all, planesCase{weight: weight, share: 1 << i, perLane: 4 + 4*i, rows: 4*l.lanes + 3, blocks: 5})
	}
	return all
}

func (c randomCase) run(b *bench, l launch) error {
	r := b.rig(l, nil)
	defer r.free()
	y := r.out("y", 4*(c.first+c.count+2))
	want := r.words(y)
	r.add(shaders.Random{Lanes: uint32(l.lanes), First: uint32(c.first), End: uint32(c.first + c.count), Seed: c.seed, Mask: c.mask, Value: c.value,
		PlaneLanes: 1, Run: 1, Stride: 1, Steps: 1, Blocks: 1, Y: y.Range}, "", "", ceil(c.count, l.lanes)+1, 1, 1)
	copy(want[4*c.first:], ref.Random(c.seed, c.mask, c.value, c.first, c.first+c.count))
	if c.forge != nil {
		c.forge(want)
	}
	if err := r.runOnce(); err != nil {
		return err
	}
	return compareWords("y", r.words(y), want)
}

// planesCase is the weight plane of a matrix, whose rows have fewer blocks than its lanes could take.
type planesCase struct {
	weight         string
	share, perLane int
	rows, blocks   int
	forge          func(c *planesCase)
}

func (c planesCase) String() string {
	return fmt.Sprintf("planes of %s (%d, %d), %d shared, %d rows each", c.weight, c.rows, 32*c.blocks, c.share, c.perLane)
}

// The blocks that become zero must be those in which the packed matrix has no weight, which a matrix of ones tells.
func (c planesCase) run(b *bench, l launch) error {
	const mask, value = 0x0FFF0FFF, 0x10001000 // never zero
	file := slices.Repeat([]byte{0xFF}, c.rows*c.blocks*ref.Blocks[c.weight].Bytes)
	packed, _ := ref.Planes(c.weight, c.rows, 32*c.blocks, file, l.lanes, c.share, c.perLane)
	r := b.rig(l, nil)
	defer r.free()
	y, elements := r.out("y", len(packed)), len(packed)/4
	stride := len(packed) / 4 / (ceil(c.rows, c.perLane*l.lanes/c.share) * ceil(c.blocks, c.share)) // of a group's block
	r.add(shaders.Random{Lanes: uint32(l.lanes), End: uint32(elements), Mask: mask, Value: value,
		PlaneLanes: uint32(l.lanes), Run: uint32(c.share), Stride: uint32(stride), Steps: uint32(ceil(c.blocks, c.share)), Blocks: uint32(c.blocks), Y: y.Range}, "", "", ceil(elements, l.lanes), 1, 1)
	if err := r.runOnce(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(&c)
	}
	want, got := ref.Random(0, mask, value, 0, elements), r.words(y)
	for i := range elements {
		if ref.PastColumns(i, l.lanes, c.share, stride, ceil(c.blocks, c.share), c.blocks) {
			clear(want[4*i:][:4])
		}
	}
	for i, word := range packed { // a weight of the matrix is never where nothing is made
		if word != 0 && got[i] == 0 {
			return fmt.Errorf("y: word %d is zero, and the matrix has a weight there", i)
		}
	}
	return compareWords("y", got, want)
}

// checksumCase is a read of elements that do not fill their last workgroup.
type checksumCase struct {
	elements int
	forge    func(x []uint32)
}

func (c checksumCase) String() string { return fmt.Sprintf("%d elements", c.elements) }

func checksumCases(l launch) []opCase {
	return []opCase{checksumCase{elements: 1}, checksumCase{elements: 9*l.lanes + 3}, checksumCase{elements: 16 * l.lanes}}
}

func (c checksumCase) run(b *bench, l launch) error {
	const depth = 8
	r := b.rig(l, nil)
	defer r.free()
	source := rand.New(rand.NewPCG(3, uint64(c.elements)))
	words := make([]uint32, 4*c.elements)
	for i := range words {
		words[i] = source.Uint32()
	}
	groups := ceil(c.elements, depth*l.lanes)
	x, y := in(r, "x", words), r.out("y", groups*l.lanes)
	r.add(shaders.Checksum{Lanes: uint32(l.lanes), Depth: depth, Count: uint32(c.elements), X: x.Range, Y: y.Range}, "", "", groups, 1, 1)
	if err := r.runOnce(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(words)
	}
	return compareWords("y", r.words(y), ref.Checksum(words, groups, l.lanes, depth))
}
