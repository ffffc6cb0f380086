package eval

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"vkdecode/model/tokenizer"
)

// Text is a file to be foretold.
type Text struct {
	Name string // of the file, without its folder
	Hash string // SHA-256

	content string
}

// ReadText reads a file. Its bytes stay as they are.
func ReadText(path string) (*Text, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("eval: text: %w", err)
	}
	if len(content) == 0 {
		return nil, fmt.Errorf("eval: text %s is empty", path)
	}
	return newText(filepath.Base(path), string(content)), nil
}

func newText(name, content string) *Text {
	sum := sha256.Sum256([]byte(content))
	return &Text{Name: name, Hash: hex.EncodeToString(sum[:]), content: content}
}

// Segment is a piece of a text in tokens of a model.
type Segment struct {
	*Text
	Offset int  // bytes of the text before it
	BOS    bool // the first token is BOS
	Tokens []int32
}

// Extent says how much of a text to take.
type Extent struct {
	Tokens int    // at least 2, a BOS token included
	Least  int    // fewer tokens than Tokens will do, if the text has no more: at least so many
	BOS    *int32 // the token to begin with, nil for none
}

// Segment cuts a piece out of the text, from a number of bytes on. Special tokens in the text are plain text. A text that
// is too short, and an offset where no character begins, are errors.
func (t *Text) Segment(tok *tokenizer.Tokenizer, offset int, e Extent) (*Segment, error) {
	if offset < 0 || offset >= len(t.content) {
		return nil, fmt.Errorf("eval: offset %d of %s, which has %d bytes: want 0 to %d", offset, t.Name, len(t.content), len(t.content)-1)
	}
	if next := t.boundary(offset); next != offset {
		return nil, fmt.Errorf("eval: offset %d of %s is inside a character; the next one begins at %d", offset, t.Name, next)
	}
	s := &Segment{Text: t, Offset: offset}
	if e.BOS != nil {
		s.BOS, s.Tokens = true, append(s.Tokens, *e.BOS)
	}
	s.Tokens = append(s.Tokens, t.encode(tok, offset, e.Tokens)...)
	if len(s.Tokens) < max(2, e.Least) {
		return nil, fmt.Errorf("eval: %s has %d tokens from byte %d on, want %d", t.Name, len(s.Tokens), offset, max(2, e.Least))
	}
	s.Tokens = s.Tokens[:min(len(s.Tokens), e.Tokens)]
	return s, nil
}

// boundary is the first byte from offset on where a character begins. Bytes that are not UTF-8 are characters.
func (t *Text) boundary(offset int) int {
	for back := 1; back < utf8.UTFMax && back <= offset; back++ {
		if _, size := utf8.DecodeRuneInString(t.content[offset-back:]); size > back {
			return offset - back + size
		}
	}
	return offset
}

// encode gives the tokens from an offset on, at least n if there are so many. It reads no more of the text than it must:
// a cut can change the tokens of what stands just before it, hence some more than n.
func (t *Text) encode(tok *tokenizer.Tokenizer, offset, n int) []int32 {
	const (
		bytesPerToken = 8  // more than texts have
		margin        = 64 // tokens that a cut may change
	)
	for size := bytesPerToken * (n + margin); ; size *= 2 {
		if size >= len(t.content)-offset {
			return tok.Encode(t.content[offset:], tokenizer.EncodeOptions{})
		}
		ids := tok.Encode(t.content[offset:t.boundary(offset+size)], tokenizer.EncodeOptions{})
		if len(ids) >= n+margin {
			return slices.Clip(ids[:n])
		}
	}
}
