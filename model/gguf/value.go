package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// A kind is the number under which a file names the type of a metadata value.
type kind uint32

const (
	kindUint8 kind = iota
	kindInt8
	kindUint16
	kindInt16
	kindUint32
	kindInt32
	kindFloat32
	kindBool
	kindString
	kindArray
	kindUint64
	kindInt64
	kindFloat64
	kinds // their number
)

const (
	maxNesting       = 16 // arrays within arrays; real files have at most two
	arrayHeaderBytes = 12 // element kind and count
)

// Of each kind: the name, and the width in bytes, 0 where it varies.
var (
	kindNames = [kinds]string{"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string", "array", "uint64", "int64", "float64"}
	kindBytes = [kinds]uint64{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}
)

func (k kind) String() string { return kindNames[k] }

// A value is a metadata value as it lies in the file, checked but not decoded.
type value struct {
	kind kind
	raw  []byte // without the kind: of a string its length and bytes, of an array its header and elements
}

// Keys returns all metadata keys in file order; the slice must not be changed.
func (f *File) Keys() []string { return f.keys }

// Value decodes the value of a key: a Go number, bool or string of the width in the file, a slice
// of these, or []any where arrays hold arrays. The typed getters check the type as well.
func (f *File) Value(key string) (any, bool) {
	v, ok := f.values[key]
	if !ok {
		return nil, false
	}
	return decode(&cursor{data: v.raw}, v.kind), true
}

// readMetadata checks every value within bounds and decodes none.
func (f *File) readMetadata(c *cursor, count uint64) {
	const minPairBytes = 13 // key length, kind and one byte
	c.section, c.object = "the metadata", ""
	if !c.bound(count, minPairBytes, "pairs") {
		return
	}
	f.values = make(map[string]value)
	for i := range count {
		c.object = fmt.Sprintf("pair %d of %d", i+1, count)
		name := c.text()
		if c.err != nil {
			return
		}
		c.object = "key " + quote(name)
		k := c.kind()
		start := c.at
		c.skip(k, 0)
		if c.err != nil {
			return
		}
		key, v := string(name), value{k, c.data[start:c.at:c.at]}
		first, twice := f.values[key]
		if twice && (first.kind != v.kind || !bytes.Equal(first.raw, v.raw)) {
			c.failf("given twice, with different values")
			return
		}
		if !twice {
			f.keys = append(f.keys, key)
			f.values[key] = v
		}
	}
}

func (c *cursor) kind() kind {
	k := kind(c.uint32())
	if c.err == nil && k >= kinds {
		c.failf("value type %d, want 0 to %d", uint32(k), kinds-1)
	}
	return k
}

// skip passes over one value inside depth arrays, checking all of it.
func (c *cursor) skip(k kind, depth int) {
	if c.err != nil {
		return
	}
	switch k {
	case kindString:
		c.text()
	case kindBool:
		c.skipBools(1)
	case kindArray:
		if depth == maxNesting {
			c.failf("arrays nested more than %d deep", maxNesting)
			return
		}
		c.skipArray(depth + 1)
	default:
		c.take(kindBytes[k])
	}
}

func (c *cursor) skipArray(depth int) {
	k, count := c.kind(), c.uint64()
	if c.err != nil {
		return
	}
	size := kindBytes[k]
	switch k {
	case kindString:
		size = 8 // at least its length
	case kindArray:
		size = arrayHeaderBytes
	}
	if !c.bound(count, size, k.String()+" elements") {
		return
	}
	switch k {
	case kindBool:
		c.skipBools(count)
	case kindString, kindArray:
		for i := uint64(0); i < count && c.err == nil; i++ {
			c.skip(k, depth)
		}
	default:
		c.take(count * size)
	}
}

func (c *cursor) skipBools(count uint64) {
	for _, b := range c.take(count) {
		if b > 1 {
			c.failf("bool %d, want 0 or 1", b)
			return
		}
	}
}

// decode reads a value that skip has checked.
func decode(c *cursor, k kind) any {
	switch k {
	case kindUint8:
		return c.take(1)[0]
	case kindInt8:
		return int8(c.take(1)[0])
	case kindUint16:
		return binary.LittleEndian.Uint16(c.take(2))
	case kindInt16:
		return int16(binary.LittleEndian.Uint16(c.take(2)))
	case kindUint32:
		return c.uint32()
	case kindInt32:
		return int32(c.uint32())
	case kindFloat32:
		return math.Float32frombits(c.uint32())
	case kindBool:
		return c.take(1)[0] == 1
	case kindString:
		return string(c.text())
	case kindUint64:
		return c.uint64()
	case kindInt64:
		return int64(c.uint64())
	case kindFloat64:
		return math.Float64frombits(c.uint64())
	}
	return decodeArray(c)
}

func decodeArray(c *cursor) any {
	k, n := c.kind(), int(c.uint64())
	switch k {
	case kindUint8:
		return numbers[uint8](c, n)
	case kindInt8:
		return numbers[int8](c, n)
	case kindUint16:
		return numbers[uint16](c, n)
	case kindInt16:
		return numbers[int16](c, n)
	case kindUint32:
		return numbers[uint32](c, n)
	case kindInt32:
		return numbers[int32](c, n)
	case kindFloat32:
		return numbers[float32](c, n)
	case kindBool:
		return numbers[bool](c, n)
	case kindString:
		return decodeStrings(c, n)
	case kindUint64:
		return numbers[uint64](c, n)
	case kindInt64:
		return numbers[int64](c, n)
	case kindFloat64:
		return numbers[float64](c, n)
	}
	arrays := make([]any, n)
	for i := range arrays {
		arrays[i] = decodeArray(c)
	}
	return arrays
}

// numbers decodes n values of fixed width.
func numbers[T any](c *cursor, n int) []T {
	out := make([]T, n)
	raw := c.take(uint64(binary.Size(out)))
	if _, err := binary.Decode(raw, binary.LittleEndian, out); err != nil {
		panic(err) // skip has checked the bounds
	}
	return out
}

// decodeStrings decodes n strings with one copy of their bytes, which all of them share.
func decodeStrings(c *cursor, n int) []string {
	out := make([]string, n)
	start := c.at
	for range out {
		c.text()
	}
	all := string(c.data[start:c.at])
	c.at = start
	for i := range out {
		length := c.uint64()
		from := c.at - start
		out[i] = all[from : from+length]
		c.at += length
	}
	return out
}
