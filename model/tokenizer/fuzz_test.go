package tokenizer

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzEncode: whatever the bytes, encoding does not panic, loses no byte, and
// streaming shows what decoding shows.
func FuzzEncode(f *testing.F) {
	g := readGolden(f, opticks)
	var tokenizers []*Tokenizer
	for _, pre := range names {
		tokenizers = append(tokenizers, build(f, g.vocabulary(pre)))
	}
	for i, c := range g.Cases {
		text, _ := g.read(f, i, names[0])
		f.Add(text, c.Special)
	}
	f.Add("\xff\xfe 'S \xe2\x82 12", false)
	f.Add("a\xcc\x81\xcc 1", true)
	f.Fuzz(func(t *testing.T, text string, special bool) {
		for i, tok := range tokenizers {
			ids := tok.Encode(text, EncodeOptions{ParseSpecial: special})
			var raw []byte
			var streamed strings.Builder
			s := tok.Stream()
			for _, id := range ids {
				raw = append(raw, tok.Piece(id)...)
				runes := s.Push(id)
				if !utf8.ValidString(runes) {
					t.Errorf("%s: Push(%d) = %q, want valid UTF-8", names[i], id, runes)
				}
				streamed.WriteString(runes)
			}
			streamed.WriteString(s.Flush())
			if want := normalisedParts(tok, text, special); string(raw) != want {
				t.Errorf("%s: %q comes back as %q, want %q", names[i], text, raw, want)
			}
			decoded := tok.Decode(ids)
			if streamed.String() != decoded {
				t.Errorf("%s: %q streams as %q, decodes as %q", names[i], text, streamed.String(), decoded)
			}
			if utf8.Valid(raw) && decoded != string(raw) {
				t.Errorf("%s: %q decodes as %q, its bytes are %q", names[i], text, decoded, raw)
			}
			if again := tok.Encode(text, EncodeOptions{ParseSpecial: special}); !slices.Equal(ids, again) {
				t.Errorf("%s: %q is %v, then %v from the cache", names[i], text, ids, again)
			}
		}
	})
}

// normalisedParts normalises what stands between added tokens, found here the slow way.
func normalisedParts(tok *Tokenizer, text string, special bool) string {
	if !tok.pre.nfc {
		return text
	}
	var out, part strings.Builder
	for text != "" {
		longest := ""
		for _, added := range []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "::", ":::", "x::", "::yz"} {
			if strings.HasPrefix(text, added) && len(added) > len(longest) && (special || !strings.HasPrefix(added, "<|")) {
				longest = added
			}
		}
		if longest == "" {
			part.WriteByte(text[0])
			text = text[1:]
			continue
		}
		out.WriteString(nfc(part.String()) + longest)
		part.Reset()
		text = text[len(longest):]
	}
	return out.String() + nfc(part.String())
}

// FuzzSplit: words follow one another without gaps, and none is empty.
func FuzzSplit(f *testing.F) {
	g := readGolden(f, opticks)
	for i := range g.Cases {
		text, _ := g.read(f, i, names[0])
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, pre := range names {
			for at := 0; at < len(text); {
				end := preTokenizers[pre].word(text, at)
				if end <= at || end > len(text) {
					t.Fatalf("%s: the word of %q at %d ends at %d", pre, text, at, end)
				}
				at = end
			}
		}
	})
}

// FuzzNew: no vocabulary makes New panic, and what New accepts encodes and decodes.
func FuzzNew(f *testing.F) {
	f.Add("a\nb\nab", "a b", []byte{1, 1, 1}, int32(-1), true)
	f.Add("a\n\n<0xZZ>\n<s>\na", "a ", []byte{1, 1, 6, 3, 4}, int32(3), false)
	f.Fuzz(func(t *testing.T, tokens, merges string, types []byte, bos int32, addBOS bool) {
		v := Vocabulary{Model: "gpt2", Pre: "llama-bpe", BOS: bos, EOS: -1, EOT: -1, UNK: -1, PAD: -1, AddBOS: addBOS}
		v.Tokens, v.Merges = strings.Split(tokens, "\n"), strings.Split(merges, "\n")
		for _, kind := range types {
			v.Types = append(v.Types, int32(kind))
		}
		tok, err := New(v)
		if err != nil {
			return
		}
		for _, id := range tok.Encode(tokens+merges, EncodeOptions{ParseSpecial: true, BOS: true}) {
			if id < 0 || int(id) >= tok.Size() {
				t.Errorf("id %d of %d tokens", id, tok.Size())
			}
		}
	})
}
