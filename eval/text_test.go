package eval

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vkdecode/model/tokenizer"
)

// letters is a tokenizer with a token for each of some bytes, and one for "an".
func letters(t *testing.T) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.New(tokenizer.Vocabulary{Model: "gpt2", Pre: "gpt-2", Tokens: []string{"<s>", "a", "n", "Ġ", "Ã", "¤", "an"}, Types: []int32{3, 1, 1, 1, 1, 1, 1},
		Merges: []string{"a n"}, BOS: 0, EOS: -1, EOT: -1, UNK: -1, PAD: -1})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func textOf(t *testing.T, content string) *Text {
	t.Helper()
	path := filepath.Join(t.TempDir(), "book.txt")
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
	text, err := ReadText(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestSegmentsAreCutAtBytes(t *testing.T) {
	tok, bos := letters(t), int32(0)
	text := textOf(t, "an ä n <s>a")
	if text.Name != "book.txt" || len(text.Hash) != 64 {
		t.Errorf("%+v", text)
	}
	for _, c := range []struct {
		offset int
		extent Extent
		want   []int32
	}{
		{0, Extent{Tokens: 3}, []int32{6, 3, 4}},
		{3, Extent{Tokens: 3}, []int32{4, 5, 3}},
		{0, Extent{Tokens: 3, BOS: &bos}, []int32{0, 6, 3}},
		{6, Extent{Tokens: 100}, []int32{2, 3, 1}}, // <, s and > have no token here; together they would be BOS, which text is not
		{6, Extent{Tokens: 100, Least: 3}, []int32{2, 3, 1}},
	} {
		s, err := text.Segment(tok, c.offset, c.extent)
		if err != nil || !slices.Equal(s.Tokens, c.want) || s.BOS != (c.extent.BOS != nil) || s.Offset != c.offset {
			t.Errorf("%d tokens from %d: %+v, %v; want %v", c.extent.Tokens, c.offset, s, err, c.want)
		}
	}
}

func TestWrongSegmentsAreRefused(t *testing.T) {
	tok := letters(t)
	text := textOf(t, "an ä n\xe4\xa4")
	for _, c := range []struct {
		offset int
		extent Extent
		says   string
	}{
		{-1, Extent{Tokens: 2}, "want 0 to 8"},
		{9, Extent{Tokens: 2}, "offset 9 of book.txt, which has 9 bytes"},
		{1 << 40, Extent{Tokens: 2}, "want 0 to 8"},
		{4, Extent{Tokens: 2}, "offset 4 of book.txt is inside a character; the next one begins at 5"},
		{0, Extent{Tokens: 99, Least: 99}, "book.txt has 7 tokens from byte 0 on, want 99"},
		{8, Extent{Tokens: 99}, "book.txt has 1 tokens from byte 8 on, want 2"}, // and no half of a character
	} {
		if s, err := text.Segment(tok, c.offset, c.extent); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("offset %d: %+v, %v, want %q", c.offset, s, err, c.says)
		}
	}
	for path, says := range map[string]string{"missing.txt": "no such file", t.TempDir(): "is a directory"} {
		if _, err := ReadText(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", path, err, says)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadText(empty); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Error(err)
	}
}

// However little of a text is read, its first tokens are those of the whole.
func TestAPieceOfATextHasTheTokensOfTheWhole(t *testing.T) {
	tok := letters(t)
	content := strings.Repeat("an äan an  na", 3000)
	whole, text := tok.Encode(content, tokenizer.EncodeOptions{}), textOf(t, content)
	for _, n := range []int{2, 3, 64, 65, 1000, 4097, len(whole)} {
		s, err := text.Segment(tok, 0, Extent{Tokens: n, Least: n})
		if err != nil || !slices.Equal(s.Tokens, whole[:n]) {
			t.Errorf("%d tokens: not the whole text's; %v", n, err)
		}
	}
}
