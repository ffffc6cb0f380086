package tokenizer

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// book is Opticks, 567 KB of English, from the Go toolchain.
func book(b *testing.B) string {
	b.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "src/testdata/Isaac.Newton-Opticks.txt"))
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

// BenchmarkEncode encodes a book with a vocabulary of 1,024 tokens.
func BenchmarkEncode(b *testing.B) {
	g, text := readGolden(b, opticks), book(b)
	for _, pre := range names {
		b.Run(pre, func(b *testing.B) { benchmark(b, build(b, g.vocabulary(pre)), text) })
	}
}

// benchmark measures one text from an empty word cache, as a new prompt finds it,
// and the merging alone, with no cache at all.
func benchmark(b *testing.B, tok *Tokenizer, text string) {
	b.Run("new", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		tokens := 0
		for b.Loop() {
			tokens += len(newEncoder(tok).words(nil, text))
		}
		b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
	})
	b.Run("uncached", func(b *testing.B) {
		e := newEncoder(tok)
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			var ids []int32
			for at := 0; at < len(text); {
				end := tok.pre.word(text, at)
				ids = e.merge(ids, text[at:end])
				at = end
			}
		}
	})
}
