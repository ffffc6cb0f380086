package tokenizer

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// golden is a file of testdata: texts, and the ids that Hugging Face's tokenizers
// library 0.23.3 gives for them. tests/reference/tokenizer.py writes them.
//
// opticks.json brings its own vocabulary of 1,024 tokens, and ids for every
// pre-tokenizer. The other files are for the real vocabularies they are named after.
type golden struct {
	Tokens []string `json:"tokens"`
	Types  []int32  `json:"types"`
	Merges []string `json:"merges"`
	Cases  []struct {
		Text    string          `json:"text"`
		Repeat  int             `json:"repeat"`  // the text is written so many times; 0 = once
		Special bool            `json:"special"` // EncodeOptions.ParseSpecial
		IDs     json.RawMessage `json:"ids"`     // ids; in opticks.json {"names of pre-tokenizers": ids}
	} `json:"cases"`
	Decode []struct {
		IDs  []int32 `json:"ids"`
		Text string  `json:"text"`
	} `json:"decode"`
}

func readGolden(t testing.TB, path string) golden {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(file, &g); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return g
}

// vocabulary is that of the golden file, under one of the pre-tokenizers.
func (g golden) vocabulary(pre string) Vocabulary {
	v := Vocabulary{Model: "gpt2", Pre: pre, Tokens: g.Tokens, Types: g.Types, Merges: g.Merges}
	v.BOS, v.EOS, v.EOT, v.UNK, v.PAD = -1, -1, -1, -1, -1
	return v
}

func build(t testing.TB, v Vocabulary) *Tokenizer {
	t.Helper()
	tok, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// read gives the text of one case, and its ids under a pre-tokenizer.
func (g golden) read(t testing.TB, i int, pre string) (string, []int32) {
	t.Helper()
	c := g.Cases[i]
	var ids []int32
	if err := json.Unmarshal(c.IDs, &ids); err != nil {
		var groups map[string][]int32
		if err := json.Unmarshal(c.IDs, &groups); err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
		for names, group := range groups {
			if slices.Contains(strings.Fields(names), pre) {
				ids = group
			}
		}
		if ids == nil {
			t.Fatalf("case %d has no ids for %s", i, pre)
		}
	}
	return strings.Repeat(c.Text, max(c.Repeat, 1)), ids
}

// failures are the texts that the tokenizer encodes otherwise than the goldens of a pre-tokenizer.
func (g golden) failures(t testing.TB, tok *Tokenizer, pre string) (texts []string) {
	t.Helper()
	for i, c := range g.Cases {
		text, want := g.read(t, i, pre)
		if got := tok.Encode(text, EncodeOptions{ParseSpecial: c.Special}); !slices.Equal(got, want) {
			texts = append(texts, text)
		}
	}
	return texts
}

const opticks = "testdata/opticks.json"

var names = []string{"gpt-2", "smollm", "llama-bpe", "qwen2"}

func TestEncodeAgreesWithTheReference(t *testing.T) {
	g := readGolden(t, opticks)
	if len(g.Cases) < 400 {
		t.Fatalf("%d cases, want at least 400", len(g.Cases))
	}
	for _, pre := range names {
		tok := build(t, g.vocabulary(pre))
		for range 2 { // the second time from the cache
			for i, c := range g.Cases {
				text, want := g.read(t, i, pre)
				got := tok.Encode(text, EncodeOptions{ParseSpecial: c.Special})
				if !slices.Equal(got, want) {
					t.Errorf("%s: %.200q (special %v)\n got %.400q\nwant %.400q", pre, text, c.Special, show(tok, got), show(tok, want))
				}
			}
		}
	}
}

// show is the text of the tokens, one by one.
func show(tok *Tokenizer, ids []int32) []string {
	var texts []string
	for _, id := range ids {
		texts = append(texts, string(tok.Piece(id)))
	}
	return texts
}

func TestDecodeAgreesWithTheReference(t *testing.T) {
	g := readGolden(t, opticks)
	tok := build(t, g.vocabulary("gpt-2"))
	for _, c := range g.Decode {
		if got := tok.Decode(c.IDs); got != c.Text {
			t.Errorf("%v: %q, want %q", c.IDs, got, c.Text)
		}
	}
}

// The goldens can tell any pre-tokenizer from any other, ...
func TestGoldensSeeAWrongPreTokenizer(t *testing.T) {
	g := readGolden(t, opticks)
	for _, right := range names {
		for _, wrong := range names {
			n := len(g.failures(t, build(t, g.vocabulary(wrong)), right))
			if (n == 0) != (right == wrong) {
				t.Errorf("%s in place of %s fails %d goldens", wrong, right, n)
			}
		}
	}
}

// ... and each of its properties, ...
func TestGoldensSeeAWrongProperty(t *testing.T) {
	g := readGolden(t, opticks)
	for name, spoil := range map[string]struct {
		pre   string
		spoil func(*Tokenizer)
	}{
		"no normalisation":       {"qwen2", func(tok *Tokenizer) { tok.pre.nfc = false }},
		"normalisation":          {"llama-bpe", func(tok *Tokenizer) { tok.pre.nfc = true }},
		"whole words merged":     {"llama-bpe", func(tok *Tokenizer) { tok.whole = nil }},
		"no user-defined tokens": {"gpt-2", func(tok *Tokenizer) { tok.always = trie{} }},
		"no control tokens":      {"gpt-2", func(tok *Tokenizer) { tok.parsed = tok.always }},
		"control tokens in text": {"gpt-2", func(tok *Tokenizer) { tok.always = tok.parsed }},
	} {
		tok := build(t, g.vocabulary(spoil.pre))
		spoil.spoil(tok)
		if len(g.failures(t, tok, spoil.pre)) == 0 {
			t.Errorf("%s: no golden fails", name)
		}
	}
}

// ... and one merge that has another rank.
func TestGoldensSeeAChangedMergeRank(t *testing.T) {
	const moved = "i n"
	g := readGolden(t, opticks)
	at := slices.Index(g.Merges, moved)
	if at < 0 || at > 100 {
		t.Fatalf("merge %q has rank %d, want one of the first 100", moved, at)
	}
	g.Merges = append(slices.Delete(slices.Clone(g.Merges), at, at+1), moved)
	for _, pre := range names {
		if len(g.failures(t, build(t, g.vocabulary(pre)), pre)) == 0 {
			t.Errorf("%s: merge %q comes last, and no golden fails", pre, moved)
		}
	}
}
