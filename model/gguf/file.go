// Package gguf reads model files in the GGUF format, versions 2 and 3, little-endian.
//
// A file is mapped into memory and never trusted: every length, count and offset is checked before
// it is used, nothing is allocated on the word of a count alone, and what cannot be read for
// certain is refused with an error that names the section, key or tensor. The package knows the
// container; what keys and tensors a model needs is its reader's business.
package gguf

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	magic            = "GGUF"
	defaultAlignment = 32
	maxAlignment     = 1 << 24 // bytes; files use 32, a few a page or a huge page of 2 MiB
)

// File is a parsed model file. Its strings are copies; tensor data is a view of the file.
type File struct {
	Version   uint32
	Alignment int64 // bytes; tensor data starts at multiples of it
	Size      int64 // bytes of the whole file

	keys    []string // in file order
	values  map[string]value
	tensors []*Tensor // in file order
	byName  map[string]*Tensor
	head    []byte // header, metadata and tensor infos, a view of the file
	mapping []byte // what Close unmaps; nil for Parse
}

// Open maps the file at path read-only and parses it. Tensor data stays valid until Close, and
// only as long as nobody shortens the file on disk.
func Open(path string) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, errorf("%w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, errorf("%w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, errorf("%s: not a regular file", path)
	}
	if info.Size() == 0 { // cannot be mapped
		return nil, errorf("empty file (in %s)", path)
	}
	mapping, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, errorf("map %s (%d bytes): %w", path, info.Size(), err)
	}
	f, err := Parse(mapping)
	if err != nil {
		unix.Munmap(mapping)
		return nil, fmt.Errorf("%w (in %s)", err, path)
	}
	f.mapping = mapping
	return f, nil
}

// Close unmaps the file and empties f. Slices of tensor data taken before must not be used after.
func (f *File) Close() error {
	mapping := f.mapping
	for _, t := range f.tensors {
		t.Data = nil
	}
	f.keys, f.values, f.tensors, f.byName, f.head, f.mapping = nil, nil, nil, nil, nil, nil
	if mapping == nil {
		return nil
	}
	if err := unix.Munmap(mapping); err != nil {
		return errorf("unmap: %w", err)
	}
	return nil
}

// Parse reads a file held in memory. The result refers to data, which must not change.
func Parse(data []byte) (*File, error) {
	f, end, err := parseHead(data)
	if err != nil {
		return nil, err
	}
	if err := f.placeTensors(data, end); err != nil {
		return nil, err
	}
	return f, nil
}

// parseHead reads all but the tensors' data, which begins behind byte end.
func parseHead(data []byte) (f *File, end uint64, err error) {
	if len(data) == 0 {
		return nil, 0, errorf("empty file")
	}
	c := &cursor{data: data, section: "the header"}
	f = &File{Size: int64(len(data)), Alignment: defaultAlignment}
	tensors, pairs := f.readHeader(c)
	f.readMetadata(c, pairs)
	if c.err != nil {
		return nil, 0, c.err
	}
	if err := f.checkSplit(); err != nil {
		return nil, 0, err
	}
	if err := f.setAlignment(); err != nil {
		return nil, 0, err
	}
	f.readTensors(c, tensors)
	if c.err != nil {
		return nil, 0, c.err
	}
	f.head = data[:c.at:c.at]
	return f, c.at, nil
}

// readHeader returns the claimed numbers of tensors and of metadata pairs.
func (f *File) readHeader(c *cursor) (tensors, pairs uint64) {
	if got := c.take(uint64(len(magic))); c.err == nil && string(got) != magic {
		c.err = errorf("magic %q, want %q: not a GGUF file", got, magic)
	}
	f.Version = c.uint32()
	switch v := f.Version; {
	case c.err != nil:
	case v == 1:
		c.err = errorf("version 1 is not supported, want 2 or 3; convert the model again with current tools")
	case v != 0 && v&0xffff == 0: // the small number sits in the wrong end
		c.err = errorf("big-endian file (version %#08x), want little-endian; convert it with gguf_convert_endian.py", v)
	case v != 2 && v != 3:
		c.err = errorf("version %d is not supported, want 2 or 3", v)
	}
	return c.uint64(), c.uint64()
}

// checkSplit refuses one part of a model that is split over several files.
func (f *File) checkSplit() error {
	const key = "split.count"
	parts, _, err := f.Uint(key)
	if err == nil && parts > 1 {
		err = errorf("%s: one of %d parts, want the whole model; join them with llama-gguf-split --merge", key, parts)
	}
	return err
}

// setAlignment takes the alignment from the metadata, where given.
func (f *File) setAlignment() error {
	const key = "general.alignment"
	alignment, ok, err := f.Uint(key)
	if !ok {
		return err
	}
	if alignment == 0 || alignment > maxAlignment || alignment&(alignment-1) != 0 {
		return errorf("%s: %d, want a power of two up to %d", key, alignment, maxAlignment)
	}
	f.Alignment = int64(alignment)
	return nil
}
