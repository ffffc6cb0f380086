package doctor

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"

	"vkdecode/ref"
	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/vk"
)

// transferBytes is more than two staging buffers of vk hold, and ends in the middle of one.
const transferBytes = 9<<20 + 4100

// staging writes bytes to the device's own memory and reads them back: all, then a part over them.
func (p *patient) staging() (finding, error) {
	f := finding{what: "wrong bytes"}
	b, err := p.device.NewBuffer("doctor.staging", transferBytes, vk.Local)
	if err != nil {
		return f, err
	}
	defer b.Free()
	want := noise(1, transferBytes)
	if err := p.device.Write(b.All(), want); err != nil {
		return f, err
	}
	const begin, size = 4<<20 - 20, 4<<20 + 40 // over two borders of staging buffers
	part := noise(2, size)
	copy(want[begin:], part)
	if err := p.device.Write(b.All().Slice(begin, size), part); err != nil {
		return f, err
	}
	got := make([]byte, transferBytes)
	if err := p.device.Read(got, b.All()); err != nil {
		return f, err
	}
	f.error = float64(different(got, want))
	return f, nil
}

// copies has the device copy: host memory to its own, there to another place, and back; and clears a part.
func (p *patient) copies() (finding, error) {
	f := finding{what: "wrong bytes"}
	var all []*vk.Buffer
	defer func() {
		for _, b := range all {
			b.Free()
		}
	}()
	for _, use := range []vk.Use{vk.Upload, vk.Local, vk.Local, vk.Readback} {
		b, err := p.device.NewBuffer("doctor.copy", transferBytes, use)
		if err != nil {
			return f, err
		}
		all = append(all, b)
	}
	want := noise(3, transferBytes)
	if err := p.device.Write(all[0].All(), want); err != nil {
		return f, err
	}
	const begin, size = 1 << 20, 1<<20 + 4
	clear(want[begin : begin+size])
	ops := []vk.Op{{Kind: vk.Barrier}}
	for i := range all[1:] {
		ops = append(ops, vk.Op{Kind: vk.Copy, Dst: all[i+1].All(), Src: all[i].All()}, vk.Op{Kind: vk.Barrier})
		if i == 0 {
			ops = append(ops, vk.Op{Kind: vk.Fill, Dst: all[1].All().Slice(begin, size)}, vk.Op{Kind: vk.Barrier})
		}
	}
	if err := p.device.Run(ops...); err != nil {
		return f, err
	}
	got := make([]byte, transferBytes)
	if err := p.device.Read(got, all[3].All()); err != nil {
		return f, err
	}
	f.error = float64(different(got, want))
	return f, nil
}

// manyDispatches is more than any step of a model has: 80 layers have about a thousand.
const manyDispatches = 4000

// dispatches submits many dispatches at once. Each writes random words over half of what the one before it wrote, so that
// those that the CPU makes of the same seeds are there only if every one ran, and in this order.
func (p *patient) dispatches(ctx context.Context) (finding, error) {
	return p.overwrite(ctx, func(i int) uint32 { return uint32(i) })
}

// overwrite is dispatches for a CPU that takes the given seed for that of the i-th, which is i.
func (p *patient) overwrite(ctx context.Context, seed func(i int) uint32) (finding, error) {
	f := finding{what: "wrong words"}
	const piece = 16 // elements that a dispatch leaves
	lanes, elements := p.engine.Tuning.Lanes, piece*(manyDispatches+1)
	arena := new(runtime.Arena)
	y := arena.Tensor("doctor.words", int64(16*elements))
	if err := arena.Allocate(ctx, p.device); err != nil {
		return f, err
	}
	defer arena.Free()
	program := p.engine.NewProgram("many")
	defer program.Free()
	var want []uint32
	for i := range manyDispatches {
		first, end := piece*i, piece*(i+2)
		program.Dispatch(shaders.Random{Lanes: uint32(lanes), First: uint32(first), End: uint32(end), Seed: uint32(i), Mask: 1<<32 - 1,
			PlaneLanes: 1, Run: 1, Stride: 1, Steps: 1, Blocks: 1, Y: y.Range}, p.engine.Variant("", ""), (end-first+lanes-1)/lanes, 1, 1)
		want = append(want[:4*first], ref.Random(seed(i), 1<<32-1, 0, first, end)...)
	}
	if err := program.Record(ctx); err != nil {
		return f, err
	}
	commands, err := program.Commands()
	if err != nil {
		return f, err
	}
	pending, err := p.device.Submit(commands...)
	if err != nil {
		return f, err
	}
	if err := pending.Wait(runtime.Patience); err != nil {
		return f, err
	}
	got := make([]byte, 16*elements)
	if err := p.device.Read(got, y.Slice(0, int64(len(got)))); err != nil {
		return f, err
	}
	for i, w := range want {
		if binary.LittleEndian.Uint32(got[4*i:]) != w {
			f.error++
		}
	}
	return f, nil
}

// noise is bytes that no device would leave by chance.
func noise(seed uint64, size int) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	b := make([]byte, size)
	rand.NewChaCha8(key).Read(b) // never fails
	return b
}

func different(a, b []byte) (n int) {
	if bytes.Equal(a, b) {
		return 0
	}
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}
