package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
)

// A Writer builds a file in memory, valid or not: it checks nothing, so that tests can make the
// files a reader must refuse. The zero Writer makes an empty file of version 3.
type Writer struct {
	Version      uint32 // 0: 3
	Alignment    int64  // bytes; 0: 32. Other values are written to the metadata as well
	ExtraTensors uint64 // how many more tensors the header claims than there are
	ExtraPairs   uint64 // how many more metadata pairs the header claims than there are

	pairs   []pair
	tensors []planned
}

// Raw is a metadata value written as given: a type number and the bytes that follow it.
type Raw struct {
	Type  uint32
	Bytes []byte
}

type pair struct {
	key   string
	value any
}

type planned struct {
	name   string
	shape  []int64
	kind   Type
	data   []byte
	offset *uint64 // claimed, where it differs from the layout
}

// Set appends a metadata pair. Values are those File.Value returns (fixed-width numbers, bool,
// string, slices of them, []any of slices) or Raw; a key may be set more than once.
func (w *Writer) Set(key string, value any) { w.pairs = append(w.pairs, pair{key, value}) }

// Add appends a tensor whose data follows the tensors before it, aligned.
func (w *Writer) Add(name string, t Type, shape []int64, data []byte) {
	w.tensors = append(w.tensors, planned{name, shape, t, data, nil})
}

// AddAt appends a tensor like Add, but claims that its data lies at offset in the data section.
func (w *Writer) AddAt(name string, t Type, shape []int64, data []byte, offset uint64) {
	w.tensors = append(w.tensors, planned{name, shape, t, data, &offset})
}

// Bytes returns the file. It panics on a metadata value of a type that GGUF does not have.
func (w *Writer) Bytes() []byte {
	version, alignment, pairs := w.Version, int64(defaultAlignment), w.pairs
	if version == 0 {
		version = 3
	}
	if w.Alignment != 0 {
		alignment = w.Alignment
		pairs = append([]pair{{"general.alignment", uint32(alignment)}}, pairs...)
	}
	b := &encoder{}
	b.WriteString(magic)
	b.put(version)
	b.put(uint64(len(w.tensors)) + w.ExtraTensors)
	b.put(uint64(len(pairs)) + w.ExtraPairs)
	for _, p := range pairs {
		b.text(p.key)
		b.value(p.value)
	}
	var data encoder
	for _, t := range w.tensors {
		data.align(alignment)
		offset := uint64(data.Len())
		if t.offset != nil {
			offset = *t.offset
		}
		b.text(t.name)
		b.put(uint32(len(t.shape)))
		b.put(t.shape)
		b.put(uint32(t.kind))
		b.put(offset)
		data.Write(t.data)
	}
	data.align(alignment)
	b.align(alignment)
	b.Write(data.Bytes())
	return b.Bytes()
}

// An encoder appends little-endian values.
type encoder struct{ bytes.Buffer }

func (e *encoder) put(v any) {
	if err := binary.Write(e, binary.LittleEndian, v); err != nil {
		panic(fmt.Sprintf("gguf: writer: %v", err))
	}
}

func (e *encoder) text(s string) {
	e.put(uint64(len(s)))
	e.WriteString(s)
}

func (e *encoder) align(alignment int64) {
	for int64(e.Len())%alignment != 0 {
		e.WriteByte(0)
	}
}

// value writes the type number, then the value.
func (e *encoder) value(v any) {
	if raw, ok := v.(Raw); ok {
		e.put(raw.Type)
		e.Write(raw.Bytes)
		return
	}
	e.put(uint32(kindOf(reflect.TypeOf(v))))
	e.payload(reflect.ValueOf(v))
}

func (e *encoder) payload(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		e.text(v.String())
	case reflect.Slice:
		element := v.Type().Elem()
		if element.Kind() == reflect.Interface {
			e.put(uint32(kindArray))
		} else {
			e.put(uint32(kindOf(element)))
		}
		e.put(uint64(v.Len()))
		for i := range v.Len() {
			if x := v.Index(i); x.Kind() == reflect.Interface {
				e.payload(x.Elem())
			} else {
				e.payload(x)
			}
		}
	default:
		e.put(v.Interface())
	}
}

var writable = map[reflect.Kind]kind{
	reflect.Uint8: kindUint8, reflect.Int8: kindInt8, reflect.Uint16: kindUint16, reflect.Int16: kindInt16,
	reflect.Uint32: kindUint32, reflect.Int32: kindInt32, reflect.Uint64: kindUint64, reflect.Int64: kindInt64,
	reflect.Float32: kindFloat32, reflect.Float64: kindFloat64, reflect.Bool: kindBool,
	reflect.String: kindString, reflect.Slice: kindArray,
}

func kindOf(t reflect.Type) kind {
	k, ok := writable[t.Kind()]
	if !ok {
		panic(fmt.Sprintf("gguf: writer: metadata cannot hold a value of type %v", t))
	}
	return k
}
