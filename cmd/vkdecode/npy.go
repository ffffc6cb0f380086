package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// npyWriter streams rows into a NumPy file, format version 1.0, (rows, columns)
// f32. The file appears under its name only when Close succeeds.
type npyWriter struct {
	file    *partialFile
	out     *bufio.Writer
	columns int
	rows    int
	bytes   []byte // one row, reused
}

// npyHeaderBytes is the whole header: numpy wants a multiple of 64, and 128
// holds every count of rows, so that Close can write the true one in place.
const npyHeaderBytes = 128

// createNPY starts the file at path. Columns are elements of a row, at least 1.
func createNPY(path string, columns int) (*npyWriter, error) {
	file, err := createPartial(path)
	if err != nil {
		return nil, fmt.Errorf("npy: %w", err)
	}
	n := &npyWriter{file: file, out: bufio.NewWriterSize(file, 1<<20), columns: columns}
	if _, err := n.out.Write(npyHeader(0, columns)); err != nil {
		n.Discard()
		return nil, fmt.Errorf("npy: %w", err)
	}
	return n, nil
}

// npyHeader is magic, version, length, and a Python dictionary padded with
// spaces up to a final newline.
func npyHeader(rows, columns int) []byte {
	head := []byte("\x93NUMPY\x01\x00")
	head = binary.LittleEndian.AppendUint16(head, npyHeaderBytes-10)
	head = fmt.Appendf(head, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", rows, columns)
	head = append(head, strings.Repeat(" ", npyHeaderBytes-1-len(head))...)
	return append(head, '\n')
}

// Write appends whole rows: len(values) is a multiple of the columns.
func (n *npyWriter) Write(values []float32) error {
	if len(values)%n.columns != 0 {
		return fmt.Errorf("npy: %s: %d values, want whole rows of %d", n.file.path, len(values), n.columns)
	}
	for len(values) > 0 {
		n.bytes = n.bytes[:0]
		for _, v := range values[:n.columns] {
			n.bytes = binary.LittleEndian.AppendUint32(n.bytes, math.Float32bits(v))
		}
		if _, err := n.out.Write(n.bytes); err != nil {
			return fmt.Errorf("npy: %s: row %d: %w", n.file.path, n.rows, err)
		}
		n.rows++
		values = values[n.columns:]
	}
	return nil
}

// Close writes the number of rows and gives the file its name. After an error
// nothing is left behind.
func (n *npyWriter) Close() error {
	err := n.out.Flush()
	if err == nil {
		_, err = n.file.WriteAt(npyHeader(n.rows, n.columns), 0)
	}
	if err == nil {
		err = n.file.Complete()
	}
	if err != nil {
		n.Discard()
		return fmt.Errorf("npy: %s: %w", n.file.path, err)
	}
	return nil
}

// Discard drops what was written. After Close it does nothing.
func (n *npyWriter) Discard() { n.file.Discard() }
