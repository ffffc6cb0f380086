package vk

// #include "shim.h"
import "C"

import (
	"os"
	"sync"
	"unsafe"

	vulkan "github.com/vulkan-go/vulkan"
	"golang.org/x/sys/unix"
)

// Use says who touches a buffer, and so where it lives.
type Use int

const (
	Local    Use = iota // the device's own memory, mapped only where that costs nothing (integrated GPUs, resizable BAR, CPU drivers)
	Upload              // host memory that the host writes, and the device reads over the bus
	Readback            // host memory that the host reads, cached if possible
)

// Shared blocks: drivers allow few allocations (4,096 is common), so small buffers share one.
const (
	localBlock = 64 << 20 // bytes
	hostBlock  = 8 << 20  // bytes
	heapShare  = 16       // and never more than this part of the heap
)

// memory is a first-fit allocator over blocks got from the driver.
type memory struct {
	sync.Mutex
	blocks []*block
}

type block struct {
	kind   uint32 // memory type
	handle uint64
	size   int64  // bytes
	data   []byte // the mapped block, nil when the host cannot see it
	free   []span // by offset, never adjacent
}

type span struct{ offset, size int64 } // bytes

const mapped = vulkan.MemoryPropertyHostVisibleBit | vulkan.MemoryPropertyHostCoherentBit

// kindFor picks a memory type among the allowed ones.
func (d *Device) kindFor(use Use, allowed uint32) (kind uint32, ok bool) {
	best := int64(-1)
	for i := range uint32(d.raw.memory.memoryTypeCount) {
		t := &d.raw.memory.memoryTypes[i]
		score := score(use, vulkan.MemoryPropertyFlagBits(t.propertyFlags), int64(d.raw.memory.memoryHeaps[t.heapIndex].size))
		if allowed&(1<<i) != 0 && score > best {
			best, kind = score, i
		}
	}
	return kind, best >= 0
}

// score ranks a memory type for a use; below 0 it does not serve.
func score(use Use, flags vulkan.MemoryPropertyFlagBits, heap int64) int64 {
	const plain = vulkan.MemoryPropertyDeviceLocalBit | mapped | vulkan.MemoryPropertyHostCachedBit
	has := func(bits vulkan.MemoryPropertyFlagBits) int64 {
		if flags&bits == bits {
			return 1
		}
		return 0
	}
	local, visible, cached := has(vulkan.MemoryPropertyDeviceLocalBit), has(mapped), has(vulkan.MemoryPropertyHostCachedBit)
	switch {
	case flags&^plain != 0: // lazily allocated, protected and vendors' kinds
		return -1
	case use == Local && local == 1:
		return heap + visible // the largest heap; a 256 MiB window into it is for others
	case use == Upload && visible == 1:
		return 2*(1-local) + (1 - cached)
	case use == Readback && visible == 1:
		return 2*cached + (1 - local)
	}
	return -1
}

// allocate finds room for a buffer.
func (d *Device) allocate(name string, use Use, kind uint32, size, align int64) (*block, int64, error) {
	m := &d.memory
	m.Lock()
	defer m.Unlock()
	for _, b := range m.blocks {
		if b.kind != kind {
			continue
		}
		if offset, ok := b.take(size, align); ok {
			return b, offset, nil
		}
	}
	heap := int64(d.raw.memory.memoryHeaps[d.raw.memory.memoryTypes[kind].heapIndex].size)
	shared := int64(hostBlock)
	if use == Local {
		shared = localBlock
	}
	shared = min(shared, heap/heapShare, d.Info.Limits.MaxAllocation)
	b, err := d.newBlock(name, kind, size, shared)
	if err != nil {
		return nil, 0, err
	}
	offset, _ := b.take(size, align)
	m.blocks = append(m.blocks, b)
	return b, offset, nil
}

// newBlock gets memory from the driver: a shared block, or one of exactly size bytes if the buffer is large or memory short.
func (d *Device) newBlock(name string, kind uint32, size, shared int64) (*block, error) {
	free := d.freeBytes(kind)
	if size > free {
		return nil, &OutOfMemoryError{name, size, free}
	}
	bytes := size
	if size <= shared/2 && shared <= free {
		bytes = shared
	}
	handle, result := d.allocateMemory(kind, bytes)
	if result == vulkan.ErrorOutOfDeviceMemory && bytes > size {
		bytes = size
		handle, result = d.allocateMemory(kind, bytes)
	}
	switch result {
	case vulkan.Success:
	case vulkan.ErrorOutOfDeviceMemory, vulkan.ErrorOutOfHostMemory:
		return nil, &OutOfMemoryError{name, size, free}
	default:
		return nil, check(result, "vkAllocateMemory", name)
	}
	b := &block{kind: kind, handle: handle, size: bytes, free: []span{{0, bytes}}}
	if vulkan.MemoryPropertyFlagBits(d.raw.memory.memoryTypes[kind].propertyFlags)&mapped == mapped {
		var data unsafe.Pointer
		result = vulkan.MapMemory(d.handle, as[vulkan.DeviceMemory](handle), 0, vulkan.DeviceSize(bytes), 0, &data)
		if err := check(result, "vkMapMemory", name); err != nil {
			vulkan.FreeMemory(d.handle, as[vulkan.DeviceMemory](handle), nil)
			return nil, err
		}
		b.data = unsafe.Slice((*byte)(data), bytes)
		if d.Info.Kind == "cpu" {
			inLargePages(b.data)
		}
	}
	return b, nil
}

// inLargePages asks for pages of 2 MiB behind memory of the process, before it is first touched: a step reads all weights
// once, and a lookup for every 4 KiB of them took a tenth of its time. It is a hint, which a kernel may not know.
func inLargePages(b []byte) {
	page := uintptr(os.Getpagesize())
	skip := -uintptr(unsafe.Pointer(&b[0])) & (page - 1)
	if whole := (uintptr(len(b)) - min(skip, uintptr(len(b)))) &^ (page - 1); whole > 0 {
		_ = unix.Madvise(b[skip:skip+whole], unix.MADV_HUGEPAGE)
	}
}

func (d *Device) allocateMemory(kind uint32, bytes int64) (uint64, vulkan.Result) {
	info := vulkan.MemoryAllocateInfo{
		SType:           vulkan.StructureTypeMemoryAllocateInfo,
		AllocationSize:  vulkan.DeviceSize(bytes),
		MemoryTypeIndex: kind,
	}
	defer info.Free()
	var handle vulkan.DeviceMemory
	result := vulkan.AllocateMemory(d.handle, &info, nil, &handle)
	return bits(handle), result
}

// freeBytes is what one allocation of this memory type may ask for: by the heap, by the budget, by the driver's largest.
// The heap of a CPU driver is a number that it made up, 2 GiB on any machine, so there only the driver knows.
func (d *Device) freeBytes(kind uint32) int64 {
	index := d.raw.memory.memoryTypes[kind].heapIndex
	free := int64(d.raw.memory.memoryHeaps[index].size)
	for _, b := range d.memory.blocks {
		if d.Info.Kind != "cpu" && d.raw.memory.memoryTypes[b.kind].heapIndex == index {
			free -= b.size
		}
	}
	if d.Info.Features.MemoryBudget {
		now := d.in.describe(d.Info.Index)
		free = min(free, int64(now.budget[index])-int64(now.usage[index]))
	}
	return max(0, min(free, d.Info.Limits.MaxAllocation))
}

// release returns a buffer's bytes, and the block to the driver when it was the last.
func (d *Device) release(b *block, offset, size int64) {
	m := &d.memory
	m.Lock()
	defer m.Unlock()
	b.give(offset, size)
	if b.free[0].size < b.size {
		return
	}
	for i, other := range m.blocks {
		if other == b {
			m.blocks = append(m.blocks[:i], m.blocks[i+1:]...)
			break
		}
	}
	vulkan.FreeMemory(d.handle, as[vulkan.DeviceMemory](b.handle), nil)
}

// take cuts size bytes out of the first span that holds them.
func (b *block) take(size, align int64) (offset int64, ok bool) {
	for i, s := range b.free {
		offset = (s.offset + align - 1) / align * align
		end := s.offset + s.size
		if offset+size > end {
			continue
		}
		var rest []span
		if offset > s.offset {
			rest = append(rest, span{s.offset, offset - s.offset})
		}
		if offset+size < end {
			rest = append(rest, span{offset + size, end - offset - size})
		}
		b.free = append(b.free[:i], append(rest, b.free[i+1:]...)...)
		return offset, true
	}
	return 0, false
}

// give puts bytes back and joins them with their neighbours.
func (b *block) give(offset, size int64) {
	i := 0
	for i < len(b.free) && b.free[i].offset < offset {
		i++
	}
	b.free = append(b.free[:i], append([]span{{offset, size}}, b.free[i:]...)...)
	if i+1 < len(b.free) && offset+size == b.free[i+1].offset {
		b.free[i].size += b.free[i+1].size
		b.free = append(b.free[:i+1], b.free[i+2:]...)
	}
	if i > 0 && b.free[i-1].offset+b.free[i-1].size == offset {
		b.free[i-1].size += b.free[i].size
		b.free = append(b.free[:i], b.free[i+1:]...)
	}
}

// readable reports whether the host reads the buffer at full speed; other mapped memory is written well but read slowly.
func (d *Device) readable(b *Buffer) bool {
	flags := vulkan.MemoryPropertyFlagBits(d.raw.memory.memoryTypes[b.block.kind].propertyFlags)
	return flags&vulkan.MemoryPropertyHostCachedBit != 0 || d.Info.Kind == "cpu"
}
