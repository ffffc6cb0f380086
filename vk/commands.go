package vk

// #include "shim.h"
import "C"

import (
	"fmt"
	"math"
	"time"
	"unsafe"

	vulkan "github.com/vulkan-go/vulkan"
)

// Commands is a recorded list of operations. It may be submitted any number of times, also while it still runs.
type Commands struct {
	Name    string
	device  *Device
	shim    C.shim_commands
	queries uint32 // timestamps
}

// Record checks the operations and turns them into Commands. The ranges and pipelines must live as long.
// Nothing orders two operations but a Barrier between them, nor two recordings but one at the end or the beginning.
func (d *Device) Record(name string, ops []Op) (*Commands, error) {
	queries, err := d.checkOps(ops)
	if err != nil {
		return nil, fmt.Errorf("vk: record %q: %w", name, err)
	}
	flat, err := d.flatten(ops)
	if err != nil {
		return nil, fmt.Errorf("vk: record %q: %w", name, err)
	}
	c := &Commands{Name: name, device: d, queries: queries}
	s := C.shim_record(d.shim, unsafe.SliceData(flat.ops), C.uint32_t(len(flat.ops)), unsafe.SliceData(flat.bindings), C.uint32_t(len(flat.bindings)),
		unsafe.Pointer(unsafe.SliceData(flat.push)), C.uint32_t(queries), &c.shim)
	if s.result != 0 {
		return nil, failure(s, name)
	}
	d.name(vulkan.ObjectTypeCommandBuffer, bits(c.shim.buffer), name)
	d.mu.Lock()
	d.commands[c] = struct{}{}
	d.mu.Unlock()
	return c, nil
}

// checkOps checks each op and that the timestamps are numbered 0 to queries-1.
func (d *Device) checkOps(ops []Op) (queries uint32, err error) {
	used := map[uint32]bool{}
	for i := range ops {
		op := &ops[i]
		if err := op.check(d); err != nil {
			return 0, fmt.Errorf("%s: %w", op.label(i), err)
		}
		if op.Kind != Timestamp {
			continue
		}
		if used[op.Query] {
			return 0, fmt.Errorf("%s: query %d is used twice", op.label(i), op.Query)
		}
		used[op.Query] = true
	}
	for q := range uint32(len(used)) {
		if !used[q] {
			return 0, fmt.Errorf("%d timestamps, but none is query %d; number them from 0", len(used), q)
		}
	}
	return uint32(len(used)), nil
}

// recording is a list of ops in the shim's form.
type recording struct {
	ops      []C.shim_op
	bindings []C.shim_binding
	push     []byte
}

func (d *Device) flatten(ops []Op) (r recording, err error) {
	r.ops = make([]C.shim_op, len(ops))
	for i := range ops {
		op, out := &ops[i], &r.ops[i]
		out.kind = C.uint32_t(op.Kind)
		switch op.Kind {
		case Dispatch:
			out.x, out.y, out.z = C.uint32_t(op.X), C.uint32_t(op.Y), C.uint32_t(op.Z)
			for i, first := range op.First {
				out.first[i] = C.uint32_t(first)
			}
			out.pipeline = op.Pipeline.shim
			out.push_bytes = C.uint32_t(len(op.Push))
			r.push = append(r.push, op.Push...)
			out.binding_count = C.uint32_t(len(op.Bindings))
			for n, b := range op.Pipeline.Module.Bindings {
				binding, err := b.flatten(op.Bindings[n])
				if err != nil {
					return r, fmt.Errorf("%s: binding %d: %w", op.label(i), n, err)
				}
				r.bindings = append(r.bindings, binding)
			}
		case Copy:
			out.src, out.src_offset = C.uint64_t(op.Src.Buffer.handle), C.uint64_t(op.Src.Offset)
			fallthrough
		case Fill:
			out.dst, out.dst_offset = C.uint64_t(op.Dst.Buffer.handle), C.uint64_t(op.Dst.Offset)
			out.size, out.value = C.uint64_t(op.Dst.Size), C.uint32_t(op.Value)
		case Timestamp:
			out.query = C.uint32_t(op.Query)
		}
	}
	return r, nil
}

func (b Binding) flatten(r Range) (C.shim_binding, error) {
	out := C.shim_binding{_type: C.uint32_t(b.descriptor()), buffer: C.uint64_t(r.Buffer.handle), offset: C.uint64_t(r.Offset), size: C.uint64_t(r.Size)}
	if !b.Texel {
		return out, nil
	}
	view, err := r.Buffer.view(b.Format, r.Offset, r.Size)
	out.view = C.uint64_t(view)
	return out, err
}

// Free gives the recording up; it must not run any more. Twice is once.
func (c *Commands) Free() {
	d := c.device
	d.mu.Lock()
	_, live := d.commands[c]
	delete(d.commands, c)
	d.mu.Unlock()
	if live {
		C.shim_commands_free(d.shim, c.shim)
		c.shim = C.shim_commands{}
	}
}

// Times gives the timestamps of the last run by query number, counted from number 0.
// Wait for the run first; ErrNotReady otherwise.
func (c *Commands) Times() ([]time.Duration, error) {
	if c.queries == 0 {
		return nil, fmt.Errorf("vk: times of %q: the recording has no timestamps", c.Name)
	}
	ticks := make([]uint64, c.queries)
	s := C.shim_times(c.device.shim, c.shim.query_pool, C.uint32_t(c.queries), (*C.uint64_t)(&ticks[0]))
	if s.result != 0 {
		return nil, failure(s, c.Name)
	}
	mask := uint64(math.MaxUint64) >> (64 - uint(c.device.raw.timestamp_bits)) // the counter wraps at its width
	out := make([]time.Duration, len(ticks))
	for i, t := range ticks {
		out[i] = time.Duration(float64((t-ticks[0])&mask) * c.device.Info.Limits.TimestampPeriod)
	}
	return out, nil
}

// Run records the operations, runs them once and waits: for tests and uploads.
func (d *Device) Run(ops ...Op) error {
	c, err := d.Record("run", ops)
	if err != nil {
		return err
	}
	p, err := d.Submit(c)
	if err == nil {
		err = p.Wait(Forever)
	}
	c.Free()
	return err
}
