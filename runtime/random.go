package runtime

import (
	"context"
	"fmt"

	"vkdecode/shaders"
	"vkdecode/vk"
)

// Noise is what random 32-bit words look like.
type Noise struct {
	Mask  uint32 // bits that are random
	Value uint32 // the others
}

// Random is a stretch of random words on the device.
type Random struct {
	Noise
	Seed       uint32
	Range      vk.Range // what is bound
	First, End int64    // elements of it that are written, of four words each

	Planes Planes // of a matrix; the zero value is anything else
}

// Planes says which blocks of a matrix's planes hold columns, for the others become zero: shaders/include/planes.glsl.
type Planes struct {
	Lanes, Run int // of a workgroup, and those that share a row
	Stride     int // elements from one block of a lane to its next
	Steps      int // blocks per lane
	Blocks     int // blocks per row that hold columns
}

// Randomize writes random words and waits until they are there.
func (e *Engine) Randomize(all ...Random) error {
	const most = 1 << 15 // workgroups of a dispatch: every device takes as many
	p := e.NewProgram("random")
	defer p.Free()
	lanes := int64(e.Tuning.Lanes)
	for _, r := range all {
		if elements := r.Range.Size / 16; r.First < 0 || r.End > elements || r.End > 1<<32-1 {
			return fmt.Errorf("runtime: random words: elements %d to %d of %d", r.First, r.End, elements)
		}
		if r.Planes == (Planes{}) {
			r.Planes = Planes{1, 1, 1, 1, 1}
		}
		for first := r.First; first < r.End; first += most * lanes {
			n := min(most*lanes, r.End-first)
			p.Dispatch(shaders.Random{Lanes: uint32(lanes), First: uint32(first), End: uint32(r.End), Seed: r.Seed, Mask: r.Mask, Value: r.Value,
				PlaneLanes: uint32(r.Planes.Lanes), Run: uint32(r.Planes.Run), Stride: uint32(r.Planes.Stride), Steps: uint32(r.Planes.Steps), Blocks: uint32(r.Planes.Blocks), Y: r.Range},
				e.Variant("", ""), int((n+lanes-1)/lanes), 1, 1)
			p.Cut()
		}
	}
	return e.RunOnce(p)
}

// RunOnce records a program, runs it once and waits for it.
func (e *Engine) RunOnce(p *Program) error {
	if err := p.Record(context.Background()); err != nil {
		return err
	}
	return e.Run(Idle, p)
}
