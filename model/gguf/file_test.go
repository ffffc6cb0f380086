package gguf

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sample describes a small valid file with a value of every kind and tensors of several types.
func sample() *Writer {
	w := &Writer{}
	w.Set("general.architecture", "llama")
	w.Set("u8", uint8(200))
	w.Set("i8", int8(-3))
	w.Set("u16", uint16(60000))
	w.Set("i16", int16(-30000))
	w.Set("u32", uint32(4e9))
	w.Set("i32", int32(-2e9))
	w.Set("f32", float32(1e-5))
	w.Set("yes", true)
	w.Set("no", false)
	w.Set("empty", "")
	w.Set("u64", uint64(1<<63))
	w.Set("i64", int64(-1<<63))
	w.Set("f64", 2.5)
	w.Set("tokens", []string{"a", "", "\xff\x00", "längere"})
	w.Set("scores", []float32{-1, 0.5})
	w.Set("kinds", []int32{1, -1, 3})
	w.Set("flags", []bool{true, false})
	w.Set("none", []uint32{})
	w.Set("nested", []any{[]string{"x", "y"}, []uint16{1, 2, 3}, []any{[]int64{7}}, []any{}})
	w.Add("token_embd.weight", Q8_0, []int64{32, 3}, bytes.Repeat([]byte{1}, 102))
	w.Add("output_norm.weight", F32, []int64{5, 1, 1}, bytes.Repeat([]byte{2}, 20))
	w.Add("cube", F16, []int64{2, 3, 1, 2}, bytes.Repeat([]byte{3}, 24))
	return w
}

func parse(t *testing.T, w *Writer) *File {
	t.Helper()
	f, err := Parse(w.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestParseReturnsWhatTheWriterWrote(t *testing.T) {
	w := sample()
	f := parse(t, w)
	if f.Version != 3 || f.Alignment != 32 || f.Size != int64(len(w.Bytes())) {
		t.Errorf("version %d, alignment %d, size %d", f.Version, f.Alignment, f.Size)
	}
	for i, p := range w.pairs {
		if f.Keys()[i] != p.key {
			t.Errorf("key %d is %q, want %q", i, f.Keys()[i], p.key)
		}
		got, ok := f.Value(p.key)
		if diff := cmp.Diff(p.value, got); !ok || diff != "" {
			t.Errorf("%s: present %v, want- got+\n%s", p.key, ok, diff)
		}
	}
	if _, ok := f.Value("missing"); ok || len(f.Keys()) != len(w.pairs) {
		t.Errorf("%d keys, a missing one present: %v", len(f.Keys()), ok)
	}
	shapes := [][]int64{{32, 3}, {5}, {2, 3, 1, 2}}
	rows := []int64{3, 1, 6}
	for i, want := range w.tensors {
		got := f.Tensors()[i]
		if got.Name != want.name || got.Type != want.kind || !bytes.Equal(got.Data, want.data) {
			t.Errorf("tensor %d is %q of %v, %v; want %q of %v, %v", i, got.Name, got.Type, got.Data, want.name, want.kind, want.data)
		}
		if diff := cmp.Diff(shapes[i], got.Shape); diff != "" || got.Columns() != shapes[i][0] || got.Rows() != rows[i] {
			t.Errorf("%s: %d columns, %d rows, shape want- got+\n%s", want.name, got.Columns(), got.Rows(), diff)
		}
		if byName, ok := f.Tensor(want.name); !ok || byName != got {
			t.Errorf("%s: not found by name", want.name)
		}
	}
	if _, ok := f.Tensor("missing"); ok {
		t.Error("a missing tensor was found")
	}
}

// write puts data into a file and returns its path.
func write(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenEqualsParse(t *testing.T) {
	data := sample().Bytes()
	f, err := Open(write(t, data))
	if err != nil {
		t.Fatal(err)
	}
	parsed := parse(t, sample())
	for i, tensor := range f.Tensors() {
		if !bytes.Equal(tensor.Data, parsed.Tensors()[i].Data) {
			t.Errorf("%s: data differs", tensor.Name)
		}
	}
	if diff := cmp.Diff(parsed.Keys(), f.Keys()); diff != "" || f.Size != int64(len(data)) {
		t.Errorf("size %d, keys want- got+\n%s", f.Size, diff)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCloseEmptiesTheFileOnce(t *testing.T) {
	f, err := Open(write(t, sample().Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	tensor := f.Tensors()[0]
	tokens, _, _ := f.Strings("tokens")
	for range 2 {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := f.Value("u8"); ok || tensor.Data != nil || len(f.Tensors()) != 0 {
		t.Error("a closed file still refers to its mapping")
	}
	if tokens[3] != "längere" { // a copy, so it must outlive the mapping
		t.Errorf("token %q after Close", tokens[3])
	}
}

func TestOpenRefuses(t *testing.T) {
	folder := t.TempDir()
	for name, c := range map[string]struct{ path, want string }{
		"a missing file":  {filepath.Join(folder, "absent.gguf"), "absent.gguf: no such file"},
		"a folder":        {folder, "not a regular file"},
		"an empty file":   {write(t, nil), "gguf: empty file (in "},
		"something else":  {write(t, []byte("%PDF-1.7")), `magic "%PDF", want "GGUF": not a GGUF file (in `},
		"a cut-off model": {write(t, sample().Bytes()[:30]), "truncated in the metadata"},
	} {
		t.Run(name, func(t *testing.T) {
			if f, err := Open(c.path); err == nil || f != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// A vocabulary of 150,000 tokens, and as many merges.
func vocabulary() []byte {
	w := &Writer{}
	tokens := make([]string, 150_000)
	for i := range tokens {
		tokens[i] = strings.Repeat("t", i%17)
	}
	w.Set("tokenizer.ggml.tokens", tokens)
	w.Set("tokenizer.ggml.merges", tokens)
	return w.Bytes()
}

func TestVocabulariesAreNotCopiedStringByString(t *testing.T) {
	data := vocabulary()
	if n := testing.AllocsPerRun(3, func() { Parse(data) }); n > 50 {
		t.Errorf("Parse makes %.0f allocations, want a few", n)
	}
	f, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(3, func() { f.Strings("tokenizer.ggml.tokens") }); n > 3 {
		t.Errorf("Strings makes %.0f allocations, want one for the text and one for the slice", n)
	}
}

func BenchmarkParseVocabulary(b *testing.B) {
	data := vocabulary()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		Parse(data)
	}
}
