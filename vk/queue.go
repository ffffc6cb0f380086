package vk

// #include "shim.h"
import "C"

import (
	"fmt"
	"math"
	"sync"
	"time"

	vulkan "github.com/vulkan-go/vulkan"
)

// Forever is a timeout for Pending.Wait.
const Forever time.Duration = math.MaxInt64

// queue is the device's one queue with the fences that tell when its work is done.
type queue struct {
	sync.Mutex
	fences []uint64            // all
	free   []uint64            // those not in use
	batch  []C.VkCommandBuffer // scratch of Submit
}

// Pending is submitted work, or at first none. One goroutine waits for it.
type Pending struct {
	device *Device
	name   string // of the first recording
	fence  uint64 // 0 when done
}

// Submit starts the recordings in order, as one submission. Each Pending must be waited for: only that frees its fence.
func (d *Device) Submit(cmds ...*Commands) (*Pending, error) {
	p := &Pending{}
	if err := d.Start(p, cmds...); err != nil {
		return nil, err
	}
	return p, nil
}

// Start is Submit with a Pending that is done, so that work that repeats allocates nothing.
func (d *Device) Start(p *Pending, cmds ...*Commands) error {
	if p.fence != 0 {
		return fmt.Errorf("vk: submit: %q of this Pending was not waited for", p.name)
	}
	p.device, p.name = d, "nothing"
	if len(cmds) > 0 {
		p.name = cmds[0].Name
	}
	q := &d.queue
	q.Lock()
	defer q.Unlock()
	q.batch = q.batch[:0]
	for _, c := range cmds {
		if c.device != d || c.shim.buffer == nil {
			return fmt.Errorf("vk: submit %q: the recording was freed or belongs to another device", c.Name)
		}
		q.batch = append(q.batch, c.shim.buffer)
	}
	fence, err := q.fence(d)
	if err != nil {
		return err
	}
	var first *C.VkCommandBuffer
	if len(q.batch) > 0 {
		first = &q.batch[0]
	}
	if s := C.shim_submit(d.shim, first, C.uint32_t(len(q.batch)), C.uint64_t(fence)); s.result != 0 {
		q.free = append(q.free, fence)
		return failure(s, p.name)
	}
	p.fence = fence
	return nil
}

// fence takes a fence from the pool or makes one.
func (q *queue) fence(d *Device) (uint64, error) {
	if n := len(q.free); n > 0 {
		fence := q.free[n-1]
		q.free = q.free[:n-1]
		return fence, nil
	}
	info := vulkan.FenceCreateInfo{SType: vulkan.StructureTypeFenceCreateInfo}
	defer info.Free()
	var handle vulkan.Fence
	if err := check(vulkan.CreateFence(d.handle, &info, nil, &handle), "vkCreateFence", d.Info.Name); err != nil {
		return 0, err
	}
	q.fences = append(q.fences, bits(handle))
	return bits(handle), nil
}

// Wait waits until the work is done. After ErrTimeout it may be called again; once it succeeded it always does.
// A timeout of 0 or less only asks.
func (p *Pending) Wait(timeout time.Duration) error {
	if p.fence == 0 {
		return nil
	}
	s := C.shim_wait(p.device.shim, C.uint64_t(p.fence), C.uint64_t(max(0, timeout)))
	if s.result != 0 {
		return failure(s, p.name)
	}
	q := &p.device.queue
	q.Lock()
	q.free = append(q.free, p.fence)
	q.Unlock()
	p.fence = 0
	return nil
}

func (q *queue) close(d *Device) {
	for _, fence := range q.fences {
		vulkan.DestroyFence(d.handle, as[vulkan.Fence](fence), nil)
	}
}
