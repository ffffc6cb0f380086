package gguf

import (
	"slices"
	"strings"
	"testing"
)

func TestAnOutlineHasTheDataThatWasAdded(t *testing.T) {
	w := &Writer{}
	w.Set("general.architecture", "llama")
	w.Add("huge", Q4_0, []int64{1 << 20, 1 << 20}, nil)
	w.Add("small", F32, []int64{2}, []byte{0, 0, 128, 63, 0, 0, 0, 64})
	f, err := w.Outline()
	if err != nil {
		t.Fatal(err)
	}
	huge, ok := f.Tensor("huge")
	if !ok || huge.Data != nil || huge.Rows() != 1<<20 || huge.Type != Q4_0 {
		t.Errorf("%+v", huge)
	}
	small, ok := f.Tensor("small")
	values := make([]float32, 2)
	if err := Dequantize(small.Type, small.Data, values); !ok || err != nil || !slices.Equal(values, []float32{1, 2}) {
		t.Errorf("%+v: %v, %v", small, values, err)
	}
	if name, _, _ := f.String("general.architecture"); name != "llama" || len(f.Fingerprint()) != 32 {
		t.Errorf("architecture %q, fingerprint %q", name, f.Fingerprint())
	}
	if _, err := Parse(w.Bytes()); err == nil || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("%v: as a file it is cut short", err)
	}
}

func TestAnOutlineOfNonsenseIsRefused(t *testing.T) {
	w := &Writer{}
	w.Add("x", Q4_0, []int64{33, 1}, nil)
	if _, err := w.Outline(); err == nil || !strings.Contains(err.Error(), "33 columns") {
		t.Errorf("%v", err)
	}
}
