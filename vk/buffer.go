package vk

import (
	"fmt"
	"strings"

	vulkan "github.com/vulkan-go/vulkan"
)

// Buffer is device memory with a name. What it holds at first is undefined.
type Buffer struct {
	Name string
	Size int64 // bytes

	device *Device
	handle uint64
	block  *block
	offset int64 // in the block
	bytes  int64 // that it takes there
	views  map[viewKey]uint64
}

// Range is a part of a buffer.
type Range struct {
	Buffer       *Buffer
	Offset, Size int64 // bytes
}

type viewKey struct {
	format       Format
	offset, size int64
}

// NewBuffer makes a buffer that shaders can bind in both forms and that can be filled and copied.
// The error is an *OutOfMemoryError when the device has no room.
func (d *Device) NewBuffer(name string, size int64, use Use) (*Buffer, error) {
	if size <= 0 {
		return nil, fmt.Errorf("vk: buffer %q: size %d, want at least 1 byte", name, size)
	}
	if most := d.Info.Limits.MaxAllocation; size > most {
		return nil, &OutOfMemoryError{name, size, most}
	}
	b := &Buffer{Name: name, Size: size, device: d, views: map[viewKey]uint64{}}
	if err := b.create(); err != nil {
		return nil, err
	}
	if err := b.place(use); err != nil {
		vulkan.DestroyBuffer(d.handle, as[vulkan.Buffer](b.handle), nil)
		return nil, err
	}
	d.name(vulkan.ObjectTypeBuffer, b.handle, name)
	d.mu.Lock()
	d.buffers[b] = struct{}{}
	d.mu.Unlock()
	return b, nil
}

func (b *Buffer) create() error {
	usage := vulkan.BufferUsageStorageBufferBit | vulkan.BufferUsageUniformTexelBufferBit |
		vulkan.BufferUsageTransferSrcBit | vulkan.BufferUsageTransferDstBit
	info := vulkan.BufferCreateInfo{
		SType:       vulkan.StructureTypeBufferCreateInfo,
		Size:        vulkan.DeviceSize(b.Size),
		Usage:       vulkan.BufferUsageFlags(usage),
		SharingMode: vulkan.SharingModeExclusive,
	}
	defer info.Free()
	var handle vulkan.Buffer
	err := check(vulkan.CreateBuffer(b.device.handle, &info, nil, &handle), "vkCreateBuffer", b.Name)
	b.handle = bits(handle)
	return err
}

// place finds memory for the buffer.
func (b *Buffer) place(use Use) error {
	d := b.device
	var needs vulkan.MemoryRequirements
	vulkan.GetBufferMemoryRequirements(d.handle, as[vulkan.Buffer](b.handle), &needs)
	needs.Deref()
	defer needs.Free()
	kind, ok := d.kindFor(use, needs.MemoryTypeBits)
	if !ok {
		return fmt.Errorf("vk: buffer %q: no memory type of %s serves it; this is a defect of the driver", b.Name, d.Info.Name)
	}
	var err error
	b.bytes = int64(needs.Size)
	if b.block, b.offset, err = d.allocate(b.Name, use, kind, b.bytes, int64(needs.Alignment)); err != nil {
		return err
	}
	result := vulkan.BindBufferMemory(d.handle, as[vulkan.Buffer](b.handle), as[vulkan.DeviceMemory](b.block.handle), vulkan.DeviceSize(b.offset))
	if err = check(result, "vkBindBufferMemory", b.Name); err != nil {
		d.release(b.block, b.offset, b.bytes)
	}
	return err
}

// Bytes is the buffer's memory, nil when the host cannot see it.
func (b *Buffer) Bytes() []byte {
	if b.block == nil || b.block.data == nil {
		return nil
	}
	return b.block.data[b.offset : b.offset+b.Size : b.offset+b.Size]
}

// All is the whole buffer.
func (b *Buffer) All() Range { return Range{b, 0, b.Size} }

// Free gives the memory back; nothing that runs or is recorded may use the buffer any more. Twice is once.
func (b *Buffer) Free() {
	d := b.device
	d.mu.Lock()
	_, live := d.buffers[b]
	delete(d.buffers, b)
	d.mu.Unlock()
	if !live {
		return
	}
	for _, view := range b.views {
		vulkan.DestroyBufferView(d.handle, as[vulkan.BufferView](view), nil)
	}
	vulkan.DestroyBuffer(d.handle, as[vulkan.Buffer](b.handle), nil)
	d.release(b.block, b.offset, b.bytes)
	b.handle, b.block, b.views = 0, nil, nil
}

// view gives the texel view of a range; it lives as long as the buffer.
func (b *Buffer) view(format Format, offset, size int64) (uint64, error) {
	d := b.device
	d.mu.Lock()
	defer d.mu.Unlock()
	key := viewKey{format, offset, size}
	if view, ok := b.views[key]; ok {
		return view, nil
	}
	info := vulkan.BufferViewCreateInfo{
		SType:  vulkan.StructureTypeBufferViewCreateInfo,
		Buffer: as[vulkan.Buffer](b.handle),
		Format: formats[format].vulkan,
		Offset: vulkan.DeviceSize(offset),
		Range:  vulkan.DeviceSize(size),
	}
	defer info.Free()
	var handle vulkan.BufferView
	if err := check(vulkan.CreateBufferView(d.handle, &info, nil, &handle), "vkCreateBufferView", b.Name); err != nil {
		return 0, err
	}
	b.views[key] = bits(handle)
	return bits(handle), nil
}

// Slice is size bytes from offset on. It panics when they are outside the range, as slicing does.
func (r Range) Slice(off, size int64) Range {
	if off < 0 || size < 0 || off > r.Size-size {
		panic(fmt.Sprintf("vk: slice [%d, +%d) of %d bytes of buffer %q", off, size, r.Size, r.Buffer.Name))
	}
	return Range{r.Buffer, r.Offset + off, size}
}

// Overlaps reports whether the ranges share a byte.
func (r Range) Overlaps(o Range) bool {
	return r.Buffer == o.Buffer && r.Offset < o.Offset+o.Size && o.Offset < r.Offset+r.Size
}

// check reports why the device cannot use the range, for an operation that does not bind it.
func (r Range) check(d *Device) error {
	switch {
	case r.Buffer == nil:
		return fmt.Errorf("no buffer")
	case r.Buffer.handle == 0:
		return fmt.Errorf("buffer %q was freed", r.Buffer.Name)
	case r.Buffer.device != d:
		return fmt.Errorf("buffer %q belongs to another device", r.Buffer.Name)
	case r.Offset < 0 || r.Size <= 0 || r.Offset > r.Buffer.Size-r.Size:
		return fmt.Errorf("buffer %q: bytes [%d, %d), want a part of [0, %d)", r.Buffer.Name, r.Offset, r.Offset+r.Size, r.Buffer.Size)
	}
	return nil
}

// Held is the bytes of live buffers.
func (d *Device) Held() int64 { return d.HeldBy("") }

// HeldBy is the bytes of live buffers whose name begins with prefix.
func (d *Device) HeldBy(prefix string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	sum := int64(0)
	for b := range d.buffers {
		if strings.HasPrefix(b.Name, prefix) {
			sum += b.Size
		}
	}
	return sum
}

// Reserved is the bytes got from the driver, live buffers and the room between them.
func (d *Device) Reserved() int64 {
	d.memory.Lock()
	defer d.memory.Unlock()
	sum := int64(0)
	for _, b := range d.memory.blocks {
		sum += b.size
	}
	return sum
}
