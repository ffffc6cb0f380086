package bench

import (
	"context"
	"fmt"
	"time"

	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/vk"
)

// Bandwidth is what the device's memory does at best, in GB (10^9 bytes) a second: the measure of decoding, which reads every
// weight for each step.
type Bandwidth struct {
	Read float64 // by a kernel that reads as the model's kernels do and does nothing else
	Copy float64 // by a copy, bytes read and bytes written together
}

const (
	mostProbe   = 512 << 20 // bytes of a buffer: more than any cache holds
	cpuProbe    = 128 << 20
	probeDepth  = 32 // elements of four words that an invocation reads
	probeTimes  = 5  // measurements, of which the best counts
	probeInARow = 4  // in one submission, so that its cost does not count
)

// MeasureBandwidth measures it, with buffers of its own that are gone afterwards.
func MeasureBandwidth(ctx context.Context, e *runtime.Engine) (b Bandwidth, err error) {
	size := probeBytes(e)
	a := &runtime.Arena{}
	x, y := a.Tensor("bench.x", size), a.Tensor("bench.y", size)
	if err := a.Allocate(ctx, e.Device); err != nil {
		return b, fmt.Errorf("bench: bandwidth: %w", err)
	}
	defer a.Free()
	const odd = 0x9E3779B9 // pages of zeros may be one page
	if err := e.Randomize(runtime.Random{Noise: runtime.Noise{Mask: 1<<32 - 1}, Seed: odd, Range: x.Range, End: size / 16}); err != nil {
		return b, fmt.Errorf("bench: bandwidth: %w", err)
	}
	read := e.NewProgram("bandwidth")
	defer read.Free()
	lanes := e.Tuning.Lanes
	for range probeInARow {
		read.Dispatch(shaders.Checksum{Lanes: uint32(lanes), Depth: probeDepth, Count: uint32(size / 16), X: x.Range, Y: y.Range}, e.Variant("", ""), int(size/16)/(probeDepth*lanes), 1, 1)
	}
	if err := read.Record(ctx); err != nil {
		return b, err
	}
	kernels, err := read.Commands()
	if err != nil {
		return b, err
	}
	var ops []vk.Op
	for range probeInARow {
		ops = append(ops, vk.Op{Kind: vk.Barrier}, vk.Op{Kind: vk.Copy, Src: x.Range, Dst: y.Range})
	}
	copies, err := e.Device.Record("bandwidth", append(ops, vk.Op{Kind: vk.Barrier}))
	if err != nil {
		return b, err
	}
	defer copies.Free()
	bytes := float64(probeInARow * size)
	if b.Read, err = fastest(e.Device, bytes, kernels...); err != nil {
		return b, err
	}
	b.Copy, err = fastest(e.Device, 2*bytes, copies)
	return b, err
}

// probeBytes is the size of a buffer: of what can be bound, an eighth of the memory at most, in whole workgroups.
func probeBytes(e *runtime.Engine) int64 {
	info := e.Device.Info
	size := int64(mostProbe)
	if info.Kind == "cpu" {
		size = cpuProbe
	}
	size = min(size, e.Bindable(), info.Limits.MaxAllocation/2)
	if free, told := e.Free(); told {
		size = min(size, free/8)
	}
	whole := int64(16 * probeDepth * e.Tuning.Lanes)
	size = min(size, whole*int64(info.Limits.MaxGroups[0]))
	return max(size/whole, 1) * whole
}

// fastest runs recordings several times, after once to warm up, and gives the best rate in GB a second.
func fastest(d *vk.Device, bytes float64, commands ...*vk.Commands) (best float64, err error) {
	for n := range probeTimes + 1 {
		begin := time.Now()
		p, err := d.Submit(commands...)
		if err == nil {
			err = p.Wait(runtime.Patience)
		}
		if err != nil {
			return 0, fmt.Errorf("bench: bandwidth: %w", err)
		}
		if n > 0 {
			best = max(best, bytes/time.Since(begin).Seconds()/1e9)
		}
	}
	return best, nil
}
