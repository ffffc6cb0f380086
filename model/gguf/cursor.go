package gguf

import (
	"encoding/binary"
	"fmt"
)

// A cursor reads little-endian values from untrusted bytes. It keeps the first error; after that
// every read yields zero, so callers check err once per loop rather than once per value.
type cursor struct {
	data    []byte
	at      uint64 // bytes read, at most len(data)
	section string // part of the file being read, such as "the metadata"
	object  string // thing within the section being read, such as a key; may be empty
	err     error
}

// failf records an error about the current object, or the section where there is none.
func (c *cursor) failf(format string, args ...any) {
	if c.err != nil {
		return
	}
	subject := c.object
	if subject == "" {
		subject = c.section
	}
	c.err = errorf("%s: %s", subject, fmt.Sprintf(format, args...))
}

// truncated records that the file ends within the current section.
func (c *cursor) truncated(format string, args ...any) {
	place := c.section
	if c.object != "" {
		place += ", " + c.object
	}
	c.err = errorf("truncated in %s: %s", place, fmt.Sprintf(format, args...))
}

// left returns the number of bytes not yet read.
func (c *cursor) left() uint64 { return uint64(len(c.data)) - c.at }

// take returns the next n bytes, or nil and an error that names the section cut short.
func (c *cursor) take(n uint64) []byte {
	if c.err != nil {
		return nil
	}
	if n > c.left() {
		c.truncated("wants %d bytes at offset %d, the file has %d more", n, c.at, c.left())
		return nil
	}
	from := c.at
	c.at += n
	return c.data[from:c.at:c.at]
}

// bound refuses a count whose items, of at least size bytes each, cannot fit in what is left.
// No loop or allocation may rest on a count that has not passed here.
func (c *cursor) bound(count, size uint64, items string) bool {
	if c.err == nil && count > c.left()/size {
		c.truncated("claims %d %s, the remaining %d bytes hold at most %d", count, items, c.left(), c.left()/size)
	}
	return c.err == nil
}

func (c *cursor) uint32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) uint64() uint64 {
	if b := c.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// text reads a string: its length in bytes, then the bytes, which may be any.
func (c *cursor) text() []byte { return c.take(c.uint64()) }

// quote shows a name from the file in an error: escaped, and cut where it is absurdly long.
func quote[S ~string | ~[]byte](name S) string {
	const longest = 80 // bytes; real names are shorter
	if len(name) > longest {
		return fmt.Sprintf("%q… (%d bytes)", string(name[:longest]), len(name))
	}
	return fmt.Sprintf("%q", string(name))
}

func errorf(format string, args ...any) error { return fmt.Errorf("gguf: "+format, args...) }
