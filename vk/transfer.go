package vk

import (
	"errors"
	"fmt"
	"sync"
)

const stageBytes = 4 << 20 // of each staging buffer: large enough that the bus, not the submits, sets the speed

// staging is how bytes reach memory that the host cannot see: two buffers in turn, so that the host fills or empties one
// while the device copies the other.
type staging struct {
	sync.Mutex
	up, down [2]*Buffer
}

// Write copies bytes into a range of the same size. Nothing that runs may touch the range.
func (d *Device) Write(dst Range, src []byte) error {
	if err := checkTransfer(d, dst, len(src)); err != nil {
		return fmt.Errorf("vk: write: %w", err)
	}
	if data := dst.Buffer.Bytes(); data != nil {
		copy(data[dst.Offset:], src)
		return nil
	}
	d.staging.Lock()
	defer d.staging.Unlock()
	err := d.stages(&d.staging.up, "staging.up", Upload)
	copies := pipelined{device: d}
	for at := int64(0); at < dst.Size && err == nil; at += stageBytes {
		part := src[at:min(at+stageBytes, dst.Size)]
		stage := d.staging.up[copies.slot]
		if err = copies.wait(); err == nil { // for the slot's last copy
			n := int64(copy(stage.Bytes(), part))
			err = copies.start(dst.Slice(at, n), stage.All().Slice(0, n), nil)
		}
	}
	return errors.Join(err, copies.finish())
}

// Read copies a range into bytes of the same size. All work submitted before is seen; none that runs may write the range.
func (d *Device) Read(dst []byte, src Range) error {
	if err := checkTransfer(d, src, len(dst)); err != nil {
		return fmt.Errorf("vk: read: %w", err)
	}
	if data := src.Buffer.Bytes(); data != nil && d.readable(src.Buffer) {
		if err := d.Run(Op{Kind: Barrier}); err != nil {
			return err
		}
		copy(dst, data[src.Offset:])
		return nil
	}
	d.staging.Lock()
	defer d.staging.Unlock()
	err := d.stages(&d.staging.down, "staging.down", Readback)
	copies := pipelined{device: d}
	for at := int64(0); at < src.Size && err == nil; at += stageBytes {
		part := dst[at:min(at+stageBytes, src.Size)]
		stage := d.staging.down[copies.slot]
		if err = copies.wait(); err == nil {
			n := int64(len(part))
			err = copies.start(stage.All().Slice(0, n), src.Slice(at, n), func() { copy(part, stage.Bytes()) })
		}
	}
	return errors.Join(err, copies.finish())
}

// Peek copies a range of memory that the host sees, without waiting for anything: what is there by work that ended with a
// Barrier and was waited for.
func (d *Device) Peek(dst []byte, src Range) error {
	if err := checkTransfer(d, src, len(dst)); err != nil {
		return fmt.Errorf("vk: peek: %w", err)
	}
	data := src.Buffer.Bytes()
	if data == nil {
		return fmt.Errorf("vk: peek: buffer %q is not mapped, want one made for Readback", src.Buffer.Name)
	}
	copy(dst, data[src.Offset:])
	return nil
}

// Zero clears a range whose offset and size are multiples of 4. Nothing that runs may touch the range.
func (d *Device) Zero(r Range) error {
	op := Op{Kind: Fill, Dst: r}
	if err := op.check(d); err != nil {
		return fmt.Errorf("vk: zero: %w", err)
	}
	if data := r.Buffer.Bytes(); data != nil {
		clear(data[r.Offset : r.Offset+r.Size])
		return nil
	}
	return d.Run(Op{Kind: Barrier}, op, Op{Kind: Barrier})
}

func checkTransfer(d *Device, r Range, bytes int) error {
	if err := r.check(d); err != nil {
		return err
	}
	if int64(bytes) != r.Size {
		return fmt.Errorf("buffer %q: a range of %d bytes and %d bytes of host memory, want as many", r.Buffer.Name, r.Size, bytes)
	}
	return nil
}

// stages makes both staging buffers at the first use.
func (d *Device) stages(list *[2]*Buffer, name string, use Use) error {
	for i := range list {
		if list[i] != nil {
			continue
		}
		b, err := d.NewBuffer(name, stageBytes, use)
		if err != nil {
			return err
		}
		list[i] = b
	}
	return nil
}

// pipelined keeps two copies in flight, one per staging buffer.
type pipelined struct {
	device *Device
	slot   int // the next
	flight [2]struct {
		pending  *Pending
		commands *Commands
		then     func() // takes the copied bytes, may be nil
	}
}

func (p *pipelined) start(dst, src Range, then func()) error {
	c, err := p.device.Record("transfer "+dst.Buffer.Name, []Op{{Kind: Barrier}, {Kind: Copy, Dst: dst, Src: src}, {Kind: Barrier}})
	if err != nil {
		return err
	}
	pending, err := p.device.Submit(c)
	if err != nil {
		c.Free()
		return err
	}
	f := &p.flight[p.slot]
	f.pending, f.commands, f.then = pending, c, then
	p.slot = 1 - p.slot
	return nil
}

// wait ends the copy that the next slot last started.
func (p *pipelined) wait() error {
	f := &p.flight[p.slot]
	if f.pending == nil {
		return nil
	}
	err := f.pending.Wait(Forever)
	if err == nil && f.then != nil {
		f.then()
	}
	f.commands.Free()
	f.pending = nil
	return err
}

// finish ends both.
func (p *pipelined) finish() error {
	first := p.wait()
	p.slot = 1 - p.slot
	return errors.Join(first, p.wait())
}
