package tests

import (
	"fmt"
	"math/rand/v2"

	"vkdecode/ref"
	"vkdecode/runtime"
	"vkdecode/shaders"
)

// carryCase copies rows between a step and the places that they have in a prompt.
type carryCase struct {
	quads  int
	places []int
	back   bool
	forge  func(places []int)
}

func (c carryCase) String() string {
	return fmt.Sprintf("%d vec4 a row, places %v, back %t", c.quads, c.places, c.back)
}

func carryCases(l launch) []opCase {
	return []opCase{carryCase{quads: 1, places: []int{0}}, carryCase{quads: 2*l.lanes + 1, places: []int{4, 5, 6}}, carryCase{quads: 3, places: []int{2, 0, 7}, back: true},
		carryCase{quads: 2*l.lanes + 1, places: []int{4, 5, 6}, back: true}}
}

func (c carryCase) run(b *bench, l launch) error {
	const most = 8 // rows of the prompt
	var rows []runtime.Row
	for i, place := range c.places {
		rows = append(rows, runtime.Row{Token: 1, Pos: int32(30 + i), Place: int32(place)})
	}
	r := b.rig(l, rows)
	defer r.free()
	width := 4 * c.quads
	x, y := in(r, "x", randomFloats(rand.New(rand.NewPCG(9, uint64(width))), most*width)), r.out("y", most*width)
	r.add(shaders.Carry{Lanes: uint32(l.lanes), Back: word(c.back), Quads: uint32(c.quads), Step: r.step.Range, X: x.Range, Y: y.Range}, "", "", ceil(c.quads, l.lanes)+1, len(rows)+1, 1)
	want := r.words(y)
	if err := r.run(); err != nil {
		return err
	}
	places := append([]int{}, c.places...)
	if c.forge != nil {
		c.forge(places)
	}
	carry := ref.Carry[uint32]
	if c.back {
		carry = ref.CarryBack[uint32]
	}
	carry(want, r.words(x), width, places)
	return compareWords("y", r.words(y), want)
}
