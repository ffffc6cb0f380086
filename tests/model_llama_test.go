package tests

import (
	"path/filepath"
	"strings"
	"testing"

	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// What the logits may differ from the reference's, by the type of K and V, and from those of another chunk.
const (
	errorF32   = 1e-9
	errorHalf  = 1e-5 // with products whose factors are f16
	errorInt8  = 1e-3 // with products of activations in int8
	errorF16   = 1e-5
	errorChunk = 1e-10
)

// The random models of tests/testdata/llama are in every corner of the format: groups of 1 to 16 query heads, head sizes
// of 32 to 128, biases, tied and untied heads, odd widths, scaled and partial rotations, values per layer, weight types.
func TestLogitsOfEveryCornerAgreeWithTheReference(t *testing.T) {
	paths, err := filepath.Glob("testdata/llama/*.gguf")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no models in testdata/llama: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".gguf"), func(t *testing.T) {
			var want struct {
				IDs    []int32
				Logits floats
			}
			readJSON(t, strings.TrimSuffix(path, "gguf")+"json", &want)
			drivers.Together(t, func(t *testing.T, d *vk.Device) {
				m := loadModel(t, d, path)
				var first []float32
				for _, chunk := range []int{1, 7, 64} {
					settings := fullKV(chunk)
					got := promptLogits(t, openSession(t, m, settings, len(want.IDs)), want.IDs)
					if e := nmse(got, want.Logits); !(e <= errorF32) {
						t.Errorf("chunk %d, f32: NMSE %.2e, want %.0e at most", chunk, e, errorF32)
					}
					if first == nil {
						first = got
					}
					if e := nmse(got, first); !(e <= errorChunk) {
						t.Errorf("chunk %d against chunk 1: NMSE %.2e, want %.0e at most", chunk, e, errorChunk)
					}
					if slow(d) && chunk != 7 {
						continue
					}
					settings.Type = "f16"
					got = promptLogits(t, openSession(t, m, settings, len(want.IDs)), want.IDs)
					if e := nmse(got, want.Logits); !(e <= errorF16) {
						t.Errorf("chunk %d, f16: NMSE %.2e, want %.0e at most", chunk, e, errorF16)
					}
				}
			})
		})
	}
}
