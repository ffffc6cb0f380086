//go:build vocabularies

// The full comparison, with real vocabularies. They are large and not ours to
// give away: tests/reference/vocabularies.sh fetches them.

package tokenizer

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const vocabularies = "../../models/vocab/"

// fetched is a real vocabulary, under the pre-tokenizer it is named after.
func fetched(t testing.TB, name string) Vocabulary {
	t.Helper()
	path := vocabularies + name + ".json"
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v; run tests/reference/vocabularies.sh", err)
	}
	return readGolden(t, path).vocabulary(name)
}

var makers = []string{"gpt-2", "llama-bpe", "qwen2"}

func TestRealVocabulariesAgreeWithTheReference(t *testing.T) {
	for _, name := range makers {
		tok := build(t, fetched(t, name))
		g := readGolden(t, "testdata/"+name+".json")
		for i, c := range g.Cases {
			text, want := g.read(t, i, name)
			got := tok.Encode(text, EncodeOptions{ParseSpecial: c.Special})
			if !slices.Equal(got, want) {
				t.Errorf("%s: %.200q (special %v)\n got %.400q\nwant %.400q", name, text, c.Special, show(tok, got), show(tok, want))
			}
			if decoded, want := tok.Decode(got), normalised(tok, text); decoded != want {
				t.Errorf("%s: %.200q decodes as %.200q", name, want, decoded)
			}
		}
	}
}

// llama.cpp's vectors: texts, each before a line of its own, and a line of ids for each.
func TestRealVocabulariesAgreeWithLlamaCpp(t *testing.T) {
	for _, name := range makers {
		tok := build(t, fetched(t, name))
		input, err := os.ReadFile(vocabularies + "llama.cpp/" + name + ".inp")
		if err != nil {
			t.Fatal(err)
		}
		output, err := os.ReadFile(vocabularies + "llama.cpp/" + name + ".out")
		if err != nil {
			t.Fatal(err)
		}
		const after = "\n__ggml_vocab_test__\n"
		texts := strings.Split(strings.TrimSuffix(string(input), after), after)
		lines := strings.Split(strings.TrimSuffix(string(output), "\n"), "\n")
		if len(texts) != len(lines) || len(texts) < 40 {
			t.Fatalf("%s: %d texts and %d lines of ids, want as many, and at least 40", name, len(texts), len(lines))
		}
		for i, text := range texts {
			var want []int32
			for _, field := range strings.Fields(lines[i]) {
				id, err := strconv.ParseInt(field, 10, 32)
				if err != nil {
					t.Fatalf("%s: line %d: %v", name, i+1, err)
				}
				want = append(want, int32(id))
			}
			if got := tok.Encode(text, EncodeOptions{}); !slices.Equal(got, want) {
				t.Errorf("%s: %q\n got %v\nwant %v", name, text, got, want)
			}
		}
	}
}

func BenchmarkEncodeReal(b *testing.B) {
	text := book(b)
	for _, name := range makers {
		b.Run(name, func(b *testing.B) { benchmark(b, build(b, fetched(b, name)), text) })
	}
}
