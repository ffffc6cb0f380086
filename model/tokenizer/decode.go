package tokenizer

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// alphabet is GPT-2's name for every byte: a printable rune, so that vocabularies
// can be text. Printable bytes of Latin-1 stand for themselves, the others, in
// order, for U+0100 and up.
var alphabet = func() (names [256]rune) {
	next := rune(256)
	for b := range names {
		r := rune(b)
		if '!' <= r && r <= '~' || '¡' <= r && r <= '¬' || '®' <= r && r <= 'ÿ' {
			names[b] = r
			continue
		}
		names[b] = next
		next++
	}
	return names
}()

// byteOf is the inverse of alphabet.
var byteOf = func() map[rune]byte {
	bytes := make(map[rune]byte, len(alphabet))
	for b, r := range alphabet {
		bytes[r] = byte(b)
	}
	return bytes
}()

// pieces holds the bytes of every token, end to end.
type pieces struct {
	bytes []byte
	ends  []int // by id
}

func newPieces(v Vocabulary) pieces {
	p := pieces{ends: make([]int, len(v.Tokens))}
	for id, text := range v.Tokens {
		switch v.kind(id) {
		case normal:
			p.bytes = appendBytes(p.bytes, text)
		case byteValue:
			p.bytes = appendByteValue(p.bytes, text)
		default:
			p.bytes = append(p.bytes, text...)
		}
		p.ends[id] = len(p.bytes)
	}
	return p
}

// appendBytes translates a token from the alphabet. One with a foreign rune is
// taken as it is, all of it.
func appendBytes(bytes []byte, text string) []byte {
	from := len(bytes)
	for _, r := range text {
		b, ok := byteOf[r]
		if !ok {
			return append(bytes[:from], text...)
		}
		bytes = append(bytes, b)
	}
	return bytes
}

// appendByteValue reads "<0x0A>".
func appendByteValue(bytes []byte, text string) []byte {
	hex, ok := strings.CutPrefix(strings.TrimSuffix(text, ">"), "<0x")
	if b, err := strconv.ParseUint(hex, 16, 8); ok && err == nil {
		return append(bytes, byte(b))
	}
	return append(bytes, text...)
}

// Piece is the bytes of one token, for reading only. Part of a rune is possible;
// nil for an id that is not in the vocabulary.
func (t *Tokenizer) Piece(id int32) []byte {
	if id < 0 || int(id) >= t.Size() {
		return nil
	}
	start, end := 0, t.pieces.ends[id]
	if id > 0 {
		start = t.pieces.ends[id-1]
	}
	return t.pieces.bytes[start:end:end]
}

// Decode is the text of the tokens, control tokens included. Bytes that are not
// UTF-8 come out as U+FFFD, one for each longest beginning of a rune.
func (t *Tokenizer) Decode(ids []int32) string {
	s := t.Stream()
	for _, id := range ids {
		s.rest = append(s.rest, t.Piece(id)...)
	}
	return s.Flush()
}

// Stream decodes token by token and never shows half a rune. What it returns,
// put together, is what Decode returns.
type Stream struct {
	t    *Tokenizer
	rest []byte // not yet returned
}

// Stream begins a new text.
func (t *Tokenizer) Stream() *Stream { return &Stream{t: t} }

// Push adds a token and returns the runes that are now complete, and U+FFFD for
// bytes that can no longer become one.
func (s *Stream) Push(id int32) string {
	s.rest = append(s.rest, s.t.Piece(id)...)
	return s.take(false)
}

// Flush ends the text: what is left of it, with U+FFFD for half a rune.
func (s *Stream) Flush() string { return s.take(true) }

func (s *Stream) take(all bool) string {
	if utf8.Valid(s.rest) {
		text := string(s.rest)
		s.rest = s.rest[:0]
		return text
	}
	var text strings.Builder
	b := s.rest
	for len(b) > 0 && (all || utf8.FullRune(b)) {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			n = beginning(b)
		}
		text.WriteRune(r)
		b = b[n:]
	}
	s.rest = append(s.rest[:0], b...)
	return text.String()
}

// beginning is the length of the longest beginning of a rune, at least one byte,
// at the head of bytes that are not a rune.
func beginning(b []byte) int {
	n := 1
	for n < len(b) && !utf8.FullRune(b[:n]) && !utf8.FullRune(b[:n+1]) {
		n++
	}
	return n
}
