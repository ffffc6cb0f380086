package gguf

import (
	"crypto/sha256"
	"encoding/hex"
)

// Fingerprint tells models apart without reading all of a file: 32 hexadecimal digits of the SHA-256 of the header, the
// metadata, the tensor infos and the first bytes of each tensor. A model that was trained further has the same infos, but
// not the same weights.
func (f *File) Fingerprint() string {
	const (
		sample = 4096 // bytes of a tensor: a page, which a load reads anyway
		length = 16   // bytes of the result
	)
	h := sha256.New()
	h.Write(f.head)
	for _, t := range f.tensors {
		h.Write(t.Data[:min(sample, len(t.Data))])
	}
	return hex.EncodeToString(h.Sum(nil)[:length])
}
