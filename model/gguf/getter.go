package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Every getter returns ok only with a usable value. A missing key is (zero, false, nil); a value
// of another type, or one that does not fit, is an error with the key, what it wants and what it got.

// Uint returns an integer that is not negative, whatever its width in the file.
func (f *File) Uint(key string) (uint64, bool, error) {
	return scalar(f, key, "an integer of at least 0", toUint)
}

// Float returns a floating-point number.
func (f *File) Float(key string) (float64, bool, error) {
	return scalar(f, key, "a float", toFloat)
}

// Bool returns a truth value.
func (f *File) Bool(key string) (bool, bool, error) {
	return scalar(f, key, "a bool", func(k kind, raw []byte) (bool, bool) {
		return k == kindBool && raw[0] == 1, k == kindBool
	})
}

// String returns a string, of any bytes.
func (f *File) String(key string) (string, bool, error) {
	return scalar(f, key, "a string", func(k kind, raw []byte) (string, bool) {
		if k != kindString {
			return "", false
		}
		return string(raw[8:]), true // after the length
	})
}

// Uints returns an array of integers that are not negative, whatever their width in the file.
func (f *File) Uints(key string) ([]uint64, bool, error) {
	return array(f, key, "an array of integers of at least 0", toUint)
}

// Ints returns an array of integers, whatever their width in the file.
func (f *File) Ints(key string) ([]int64, bool, error) {
	return array(f, key, "an array of integers up to 2^63 - 1", toInt)
}

// Floats returns an array of floating-point numbers.
func (f *File) Floats(key string) ([]float64, bool, error) {
	return array(f, key, "an array of floats", toFloat)
}

// Strings returns an array of strings. It makes two allocations however many strings there are, but
// makes them on each call: keep the result.
func (f *File) Strings(key string) ([]string, bool, error) {
	v, ok := f.values[key]
	if !ok {
		return nil, false, nil
	}
	if v.kind == kindArray {
		c := &cursor{data: v.raw}
		if k, n := c.kind(), int(c.uint64()); k == kindString {
			return decodeStrings(c, n), true, nil
		}
	}
	return nil, false, mismatch(key, v, "an array of strings")
}

// ByLayer returns one value per layer from a key that holds either one integer for all layers or
// an array with one for each.
func (f *File) ByLayer(key string, layers int) ([]uint64, bool, error) {
	const maxLayers = 1 << 16 // a bound on the result, as layers comes from a file too
	if layers < 0 || layers > maxLayers {
		return nil, false, errorf("key %s: %d layers, want 0 to %d", quote(key), layers, maxLayers)
	}
	if f.values[key].kind == kindArray {
		each, ok, err := f.Uints(key)
		if ok && len(each) != layers {
			return nil, false, errorf("key %s: %d values, want one for each of %d layers", quote(key), len(each), layers)
		}
		return each, ok, err
	}
	all, ok, err := f.Uint(key)
	if !ok {
		return nil, false, err
	}
	each := make([]uint64, layers)
	for i := range each {
		each[i] = all
	}
	return each, true, nil
}

// A conversion reads a scalar of kind k as a T and reports whether that is possible without loss.
type conversion[T any] func(k kind, raw []byte) (T, bool)

func scalar[T any](f *File, key, want string, to conversion[T]) (T, bool, error) {
	var none T
	v, ok := f.values[key]
	if !ok {
		return none, false, nil
	}
	out, ok := to(v.kind, v.raw)
	if !ok {
		return none, false, mismatch(key, v, want)
	}
	return out, true, nil
}

// array converts arrays of kinds with a fixed width.
func array[T any](f *File, key, want string, to conversion[T]) ([]T, bool, error) {
	v, ok := f.values[key]
	if !ok {
		return nil, false, nil
	}
	if v.kind != kindArray {
		return nil, false, mismatch(key, v, want)
	}
	c := &cursor{data: v.raw}
	k, n := c.kind(), c.uint64()
	width := kindBytes[k]
	if _, ok := to(k, make([]byte, 8)); !ok { // a zero converts unless the kind is wrong
		return nil, false, mismatch(key, v, want)
	}
	out := make([]T, n)
	for i := range out {
		raw := c.take(width)
		if out[i], ok = to(k, raw); !ok {
			return nil, false, errorf("key %s: element %d is %v, want %s", quote(key), i, decode(&cursor{data: raw}, k), want)
		}
	}
	return out, true, nil
}

func mismatch(key string, v value, want string) error {
	return errorf("key %s: %s, want %s", quote(key), v, want)
}

// String describes the value for an error.
func (v value) String() string {
	c := &cursor{data: v.raw}
	switch v.kind {
	case kindArray:
		k, n := c.kind(), c.uint64()
		return fmt.Sprintf("array of %d %v", n, k)
	case kindString:
		return "string " + quote(v.raw[8:])
	}
	return fmt.Sprintf("%v %v", v.kind, decode(c, v.kind))
}

// integer widens an integer of any kind to 64 bits of two's complement.
func integer(k kind, raw []byte) (wide uint64, negative, ok bool) {
	var signed int64
	switch k {
	case kindUint8:
		return uint64(raw[0]), false, true
	case kindUint16:
		return uint64(binary.LittleEndian.Uint16(raw)), false, true
	case kindUint32:
		return uint64(binary.LittleEndian.Uint32(raw)), false, true
	case kindUint64:
		return binary.LittleEndian.Uint64(raw), false, true
	case kindInt8:
		signed = int64(int8(raw[0]))
	case kindInt16:
		signed = int64(int16(binary.LittleEndian.Uint16(raw)))
	case kindInt32:
		signed = int64(int32(binary.LittleEndian.Uint32(raw)))
	case kindInt64:
		signed = int64(binary.LittleEndian.Uint64(raw))
	default:
		return 0, false, false
	}
	return uint64(signed), signed < 0, true
}

func toUint(k kind, raw []byte) (uint64, bool) {
	wide, negative, ok := integer(k, raw)
	return wide, ok && !negative
}

func toInt(k kind, raw []byte) (int64, bool) {
	wide, negative, ok := integer(k, raw)
	return int64(wide), ok && (negative || wide <= math.MaxInt64)
}

func toFloat(k kind, raw []byte) (float64, bool) {
	switch k {
	case kindFloat32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))), true
	case kindFloat64:
		return math.Float64frombits(binary.LittleEndian.Uint64(raw)), true
	}
	return 0, false
}
