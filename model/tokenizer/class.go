package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// class is what the patterns can tell about a rune.
type class uint8

const (
	other  class = iota
	letter       // \p{L}
	number       // \p{N}
	space        // \s: White_Space
)

// ascii holds the classes of the runes that most text is made of.
var ascii = func() (table [utf8.RuneSelf]class) {
	for r := range table {
		table[r] = classOf(rune(r))
	}
	return table
}()

// classAt is the class and the length in bytes of the rune at text[at:]. A byte
// that is not UTF-8 counts as a rune of class other.
func classAt(text string, at int) (class, int) {
	if b := text[at]; b < utf8.RuneSelf {
		return ascii[b], 1
	}
	r, n := utf8.DecodeRuneInString(text[at:])
	return classOf(r), n
}

// run is the end of the runes of class c that begin at at.
func run(text string, at int, c class) int {
	for at < len(text) {
		is, n := classAt(text, at)
		if is != c {
			break
		}
		at += n
	}
	return at
}

func classOf(r rune) class {
	switch {
	case unicode.IsLetter(r) || unicode.Is(newLetters, r):
		return letter
	case unicode.IsNumber(r) || unicode.Is(newNumbers, r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return other
}

// The reference knows Unicode 16; these are the letters and numbers that package
// unicode, at 15.0, lacks. A later toolchain makes them superfluous, not wrong.
var (
	newLetters = &unicode.RangeTable{
		R16: []unicode.Range16{{0x1c89, 0x1c8a, 1}, {0xa7cb, 0xa7cd, 1}, {0xa7da, 0xa7dc, 1}},
		R32: []unicode.Range32{
			{0x105c0, 0x105f3, 1}, {0x10d4a, 0x10d65, 1}, {0x10d6f, 0x10d85, 1}, {0x10ec2, 0x10ec4, 1},
			{0x11380, 0x11389, 1}, {0x1138b, 0x1138e, 3}, {0x11390, 0x113b5, 1}, {0x113b7, 0x113d1, 26},
			{0x113d3, 0x113d3, 1}, {0x11bc0, 0x11be0, 1}, {0x13460, 0x143fa, 1}, {0x16100, 0x1611d, 1},
			{0x16d40, 0x16d6c, 1}, {0x18cff, 0x18cff, 1}, {0x1e5d0, 0x1e5ed, 1}, {0x1e5f0, 0x1e5f0, 1},
			{0x2ebf0, 0x2ee5d, 1},
		},
	}
	newNumbers = &unicode.RangeTable{
		R32: []unicode.Range32{
			{0x10d40, 0x10d49, 1}, {0x116d0, 0x116e3, 1}, {0x11bf0, 0x11bf9, 1}, {0x16130, 0x16139, 1},
			{0x16d70, 0x16d79, 1}, {0x1ccf0, 0x1ccf9, 1}, {0x1e5f1, 0x1e5fa, 1},
		},
	}
)
