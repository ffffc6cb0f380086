package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// joiner is what package norm puts into a sequence of more than 30 combining
// marks, to be safe for streams.
const joiner = "\u034f" // COMBINING GRAPHEME JOINER

// nfc is Unicode's normalisation form C, without joiners of package norm's own.
func nfc(text string) string {
	normal := norm.NFC.String(text)
	if strings.Count(normal, joiner) == strings.Count(text, joiner) {
		return normal
	}
	var out []byte
	for text != "" {
		valid := len(text) // bytes before the first that is not UTF-8
		for i, r := range text {
			if r == utf8.RuneError {
				if _, n := utf8.DecodeRuneInString(text[i:]); n == 1 {
					valid = i
					break
				}
			}
		}
		out = append(out, string(compose(decompose(text[:valid])))...)
		if valid < len(text) {
			out = append(out, text[valid])
			valid++
		}
		text = text[valid:]
	}
	return string(out)
}

// mark is a rune and its canonical combining class; 0 = it begins a character.
type mark struct {
	r     rune
	class uint8
}

// decompose takes every rune apart and sorts the marks of each character.
func decompose(text string) []mark {
	var marks []mark
	for _, r := range text {
		for _, d := range norm.NFD.String(string(r)) {
			marks = append(marks, mark{d, norm.NFD.PropertiesString(string(d)).CCC()})
		}
	}
	for at := 0; at < len(marks); {
		end := at + 1
		for end < len(marks) && marks[end].class != 0 {
			end++
		}
		from := at
		if marks[at].class == 0 {
			from++
		}
		slices.SortStableFunc(marks[from:end], func(a, b mark) int { return int(a.class) - int(b.class) })
		at = end
	}
	return marks
}

// compose joins each character with those marks that nothing blocks from it
// (Unicode, 3.11, D117).
func compose(marks []mark) []rune {
	var out []rune
	base, last := -1, uint8(0) // index in out of the character; class of the mark before
	for _, m := range marks {
		adjacent := base == len(out)-1
		if base >= 0 && (adjacent || last != 0 && last < m.class) {
			if joined := []rune(norm.NFC.String(string([]rune{out[base], m.r}))); len(joined) == 1 {
				out[base] = joined[0]
				continue
			}
		}
		if m.class == 0 {
			base = len(out)
		}
		last = m.class
		out = append(out, m.r)
	}
	return out
}
