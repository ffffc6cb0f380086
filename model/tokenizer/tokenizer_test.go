package tokenizer

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
)

// small is a vocabulary to spoil: a, b, c, their merges, and added tokens.
func small() Vocabulary {
	return Vocabulary{
		Model: "gpt2", Pre: "gpt-2",
		Tokens: []string{"a", "b", "c", "ab", "bc", "<s>", "<|im_end|>", "<0x0A>", "Ġ", "[PAD]", "ĠÃ©☃"},
		Types:  []int32{1, 1, 1, 1, 1, 3, 3, 6, 1, 5, 1},
		Merges: []string{"a b", "b c"},
		BOS:    5, EOS: 2, EOT: -1, UNK: -1, PAD: -1,
	}
}

func TestNewRefusesByName(t *testing.T) {
	for want, spoil := range map[string]func(*Vocabulary){
		`model "llama" is not supported`:              func(v *Vocabulary) { v.Model = "llama" },
		`pre-tokenizer "tekken" is not supported`:     func(v *Vocabulary) { v.Pre = "tekken" },
		`pre-tokenizer "" is not supported`:           func(v *Vocabulary) { v.Pre = "" },
		`no tokens`:                                   func(v *Vocabulary) { v.Tokens, v.Types = nil, nil },
		`model "gpt2" without merges`:                 func(v *Vocabulary) { v.Merges = nil },
		`10 token types for 11 tokens`:                func(v *Vocabulary) { v.Types = v.Types[1:] },
		`token 1 "b": type 7, want 1 to 6`:            func(v *Vocabulary) { v.Types[1] = 7 },
		`token 0 "a": type 0, want 1 to 6`:            func(v *Vocabulary) { v.Types[0] = 0 },
		`bos token id 11, want below 11`:              func(v *Vocabulary) { v.BOS = 11 },
		`eos token id -2`:                             func(v *Vocabulary) { v.EOS = -2 },
		`padding token id 99`:                         func(v *Vocabulary) { v.PAD = 99 },
		`none is named; set tokenizer.ggml.bos_token`: func(v *Vocabulary) { v.AddBOS, v.BOS = true, -1 },
		`none is named; set tokenizer.ggml.eos_token`: func(v *Vocabulary) { v.AddEOS, v.EOS = true, -1 },
		`merge 1 "bc", want two tokens`:               func(v *Vocabulary) { v.Merges[1] = "bc" },
		`merge 0 "a b c", want two tokens`:            func(v *Vocabulary) { v.Merges[0] = "a b c" },
		`merge 0 " b", want two tokens`:               func(v *Vocabulary) { v.Merges[0] = " b" },
		`merge 0 "a z": "z" is not a token`:           func(v *Vocabulary) { v.Merges[0] = "a z" },
		`merge 1 "c a": "ca" is not a token`:          func(v *Vocabulary) { v.Merges[1] = "c a" },
	} {
		v := small()
		spoil(&v)
		tok, err := New(v)
		if err == nil || !strings.HasPrefix(err.Error(), "tokenizer: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		if tok != nil {
			t.Errorf("%q comes with a tokenizer", want)
		}
		var unsupported *UnsupportedError
		if is := errors.As(err, &unsupported); is != strings.Contains(want, "not supported") {
			t.Errorf("%v: is *UnsupportedError: %v", err, is)
		}
	}
	if _, err := New(small()); err != nil {
		t.Errorf("unspoilt: %v", err)
	}
}

func TestEncodeInOddVocabularies(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Vocabulary)
		text   string
		want   []int32
	}{
		"lowest rank first":               {func(v *Vocabulary) {}, "abc", []int32{3, 2}},
		"later of equal merges counts":    {func(v *Vocabulary) { v.Merges = []string{"a b", "b c", "a b"} }, "abc", []int32{0, 4}},
		"dropped bytes bring neighbours":  {func(v *Vocabulary) {}, "aéb", []int32{3}},
		"nothing is left":                 {func(v *Vocabulary) {}, "\x04\xff", nil},
		"lowest of equal tokens":          {func(v *Vocabulary) { v.Tokens[4], v.Merges[1] = "a", "a b" }, "aab", []int32{0, 3}},
		"types may be absent":             {func(v *Vocabulary) { v.Types = nil }, "ab<s>", []int32{3}},
		"empty tokens match nothing":      {func(v *Vocabulary) { v.Tokens[5] = "" }, "ab", []int32{3}},
		"unused tokens match nothing":     {func(v *Vocabulary) {}, "a[PAD]b", []int32{0, 1}},
		"unknown tokens are control":      {func(v *Vocabulary) { v.Types[5] = unknown }, "a<s>", []int32{0, 5}},
		"user-defined":                    {func(v *Vocabulary) { v.Types[5] = userDefined }, "<s>a", []int32{5, 0}},
		"longest of equal beginnings":     {func(v *Vocabulary) { v.Tokens[6] = "<s>b" }, "<s>bc", []int32{6, 2}},
		"a beginning that is not a token": {func(v *Vocabulary) {}, "<|im_en<s>", []int32{5}},
	} {
		v := small()
		c.change(&v)
		if got := build(t, v).Encode(c.text, EncodeOptions{ParseSpecial: true}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestBOSAndEOSAreAddedOnce(t *testing.T) {
	v := small()
	all := EncodeOptions{ParseSpecial: true, BOS: true, EOS: true}
	encode := func(text string, o EncodeOptions, want ...int32) {
		t.Helper()
		if got := build(t, v).Encode(text, o); !slices.Equal(got, want) {
			t.Errorf("%q, add BOS %v, EOS %v: %v, want %v", text, v.AddBOS, v.AddEOS, got, want)
		}
	}
	encode("a", all, 0)
	v.AddBOS, v.AddEOS = true, true
	encode("a", all, 5, 0, 2)
	encode("", all, 5, 2)
	encode("a", EncodeOptions{}, 0)
	encode("<s>ac", all, 5, 0, 2)
	encode("<s><s>", all, 5, 5, 2)
	encode("<s>", EncodeOptions{BOS: true}, 5)
	if !AddsBOS("llama-bpe") || AddsBOS("gpt-2") || AddsBOS("smollm") || AddsBOS("qwen2") || AddsBOS("none such") {
		t.Error("AddsBOS: of the four, only llama-bpe adds BOS by default")
	}
}

func TestIsEnd(t *testing.T) {
	v := small()
	v.EOT = 1
	tok := build(t, v)
	for id := range int32(tok.Size()) {
		want := id == v.EOS || id == v.EOT || v.Tokens[id] == "<|im_end|>"
		if got := tok.IsEnd(id); got != want {
			t.Errorf("IsEnd(%d %q) = %v", id, v.Tokens[id], got)
		}
	}
	v.Types[6], v.EOS, v.EOT = normal, -1, -1
	if tok := build(t, v); tok.IsEnd(6) || tok.IsEnd(-1) {
		t.Error("a normal token, or none, ends a generation")
	}
}

func TestPieces(t *testing.T) {
	tok := build(t, small())
	for id, want := range map[int32]string{0: "a", 3: "ab", 5: "<s>", 7: "\n", 8: " ", 10: "ĠÃ©☃", -1: "", 11: ""} {
		if got := string(tok.Piece(id)); got != want {
			t.Errorf("Piece(%d) = %q, want %q", id, got, want)
		}
	}
	if got := tok.Size(); got != 11 {
		t.Errorf("Size() = %d, want 11", got)
	}
	piece := tok.Piece(0)
	if _ = append(piece, 'x'); string(tok.Piece(1)) != "b" {
		t.Error("appending to a piece writes into the next")
	}
}

func TestStreamShowsWholeRunesOnly(t *testing.T) {
	tok := build(t, readGolden(t, opticks).vocabulary("gpt-2"))
	for text, want := range map[string][]string{
		"aé":           {"a", "", "é", ""},
		"😀":            {"", "", "", "😀", ""},
		"\xe2\x82A":    {"", "", "\ufffdA", ""},
		"\xe2\x82":     {"", "", "\ufffd"},
		"\xf0\x9f\xe2": {"", "", "\ufffd", "\ufffd"},
		"\x80\xc0":     {"\ufffd", "\ufffd", ""},
		"\xed\xa0\x80": {"", "\ufffd\ufffd", "\ufffd", ""},
		"\xef\xbf\xbd": {"", "", "\ufffd", ""},
	} {
		s := tok.Stream()
		var got []string
		for _, b := range []byte(text) {
			got = append(got, s.Push(tok.base[b]))
		}
		got = append(got, s.Flush())
		if !slices.Equal(got, want) {
			t.Errorf("%q comes as %q, want %q", text, got, want)
		}
	}
}

func TestManyGoroutinesMayEncode(t *testing.T) {
	g := readGolden(t, opticks)
	tok := build(t, g.vocabulary("qwen2"))
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			if texts := g.failures(t, tok, "qwen2"); len(texts) > 0 {
				t.Errorf("%d goldens fail, the first: %q", len(texts), texts[0])
			}
		})
	}
	wait.Wait()
}

// Merging and normalising stay near linear: quadratic time would show in minutes.
func TestLongWords(t *testing.T) {
	g := readGolden(t, opticks)
	for _, pre := range names {
		tok := build(t, g.vocabulary(pre))
		for _, piece := range []string{"ab", "1", " ", "\n", "\u0301", "e\u0301", "<|im_", "'", ":"} {
			text := strings.Repeat(piece, 200_000/len(piece))
			if got, want := tok.Decode(tok.Encode(text, EncodeOptions{})), normalised(tok, text); got != want {
				t.Errorf("%s: 200,000 bytes of %q do not come back", pre, piece)
			}
		}
	}
}

// normalised is the text that must come back.
func normalised(tok *Tokenizer, text string) string {
	if tok.pre.nfc {
		return nfc(text)
	}
	return text
}

func TestWordCacheIsBounded(t *testing.T) {
	tok := build(t, small())
	e := newEncoder(tok)
	word := func(n int) string { // n in a, b and c
		var text strings.Builder
		for ; n > 0; n /= 3 {
			text.WriteByte("abc"[n%3])
		}
		return text.String()
	}
	for n := range 2*cachedWords + 100 {
		if got, want := e.word(nil, word(n)), e.merge(nil, word(n)); !slices.Equal(got, want) {
			t.Fatalf("%q: %v with the cache, %v without", word(n), got, want)
		}
		if len(e.cache) > cachedWords {
			t.Fatalf("%d words in the cache, want at most %d", len(e.cache), cachedWords)
		}
	}
	if e.word(nil, strings.Repeat("a", cachedLength+1)); len(e.cache) == 0 || len(e.cache) > 101 {
		t.Errorf("%d words in the cache, want the last 100 and no long one", len(e.cache))
	}
}
