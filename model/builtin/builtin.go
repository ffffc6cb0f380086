// Package builtin holds a small model inside the program: three layers trained on War and Peace, so that everything can
// be tried and tested without a download. tests/reference/train.py made it.
package builtin

import _ "embed"

// Model is the GGUF file.
//
//go:embed builtin.gguf
var Model []byte
