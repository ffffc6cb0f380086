package vk

// What the tests look into.
var (
	Choose = choose
	Reject = reject
)

// NewBlock is a block of the allocator without memory behind it.
func NewBlock(size int64) *block { return &block{size: size, free: []span{{0, size}}} }

func (b *block) Take(size, align int64) (int64, bool) { return b.take(size, align) }
func (b *block) Give(offset, size int64)              { b.give(offset, size) }

// Whole reports whether all of the block is one free span.
func (b *block) Whole() bool { return len(b.free) == 1 && b.free[0] == span{0, b.size} }

// Unmap hides a buffer's memory from the host. The buffer must have a block of its own.
func (b *Buffer) Unmap() { b.block.data = nil }

func (d *Device) CacheBody(file []byte) []byte { return d.cacheBody(file) }

// Compiled is how many pipelines the driver has.
func (d *Device) Compiled() int { return len(d.compiled) }
