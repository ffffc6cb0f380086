package tokenizer

import (
	"maps"
	"slices"
	"strings"
)

// preTokenizer cuts text into the words that merges never cross.
type preTokenizer struct {
	word   func(text string, at int) int // end of the word that begins at byte at < len(text)
	nfc    bool                          // text is put into Unicode NFC first
	whole  bool                          // a word that is a token needs no merges to become it
	addBOS bool                          // the default of tokenizer.ggml.add_bos_token
}

// preTokenizers by their name in tokenizer.ggml.pre. The patterns are those of
// the models' tokenizer.json files.
var preTokenizers = map[string]preTokenizer{
	"gpt-2":     {word: gpt2},
	"smollm":    {word: smollm},
	"llama-bpe": {word: llama, whole: true, addBOS: true},
	"llama3":    {word: llama, whole: true, addBOS: true}, // older names
	"llama-v3":  {word: llama, whole: true, addBOS: true},
	"qwen2":     {word: qwen2, nfc: true},
}

// AddsBOS is what a file without tokenizer.ggml.add_bos_token means, by its pre-tokenizer.
func AddsBOS(pre string) bool { return preTokenizers[pre].addBOS }

func preTokenizerNames() []string { return slices.Sorted(maps.Keys(preTokenizers)) }

// gpt2 is
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func gpt2(text string, at int) int {
	if n := contraction(text[at:], false); n > 0 {
		return at + n
	}
	from := afterSpace(text, at)
	if c, _ := classAt(text, from); c != space {
		return run(text, from, c)
	}
	return spaces(text, at)
}

// smollm first sets every \p{N} apart, then is gpt2 on each piece between them.
func smollm(text string, at int) int {
	switch c, n := classAt(text, at); c {
	case number:
		return at + n
	case space: // before a number its piece ends, and no space is left over for the next word
		if end := run(text, at, space); end < len(text) {
			if c, _ := classAt(text, end); c == number {
				return end
			}
		}
	}
	return gpt2(text, at)
}

// llama is
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
//	 ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func llama(text string, at int) int { return clWord(text, at, 3) }

// qwen2 is llama with \p{N} in place of \p{N}{1,3}.
func qwen2(text string, at int) int { return clWord(text, at, 1) }

// clWord is the pattern family of OpenAI's cl100k, with up to digits numbers in a word.
func clWord(text string, at, digits int) int {
	if n := contraction(text[at:], true); n > 0 {
		return at + n
	}
	c, n := classAt(text, at)
	switch c {
	case letter:
		return run(text, at, letter)
	case number:
		end := at
		for ; digits > 0 && end < len(text) && c == number; digits-- {
			if c, n = classAt(text, end); c == number {
				end += n
			}
		}
		return end
	}
	if first := text[at]; first != '\r' && first != '\n' && at+n < len(text) {
		if c, _ := classAt(text, at+n); c == letter { // one rune of any other class joins the letters
			return run(text, at+n, letter)
		}
	}
	from := afterSpace(text, at)
	if c, _ := classAt(text, from); c == other {
		end := run(text, from, other)
		return end + len(text[end:]) - len(strings.TrimLeft(text[end:], "\r\n"))
	}
	if end := run(text, at, space); strings.ContainsAny(text[at:end], "\r\n") {
		return at + strings.LastIndexAny(text[at:end], "\r\n") + 1
	}
	return spaces(text, at)
}

// contraction is the length of 's, 't, 're, 've, 'm, 'll or 'd at the head of
// text, 0 = none. fold ignores case, for which ſ is an s.
func contraction(text string, fold bool) int {
	if len(text) < 2 || text[0] != '\'' {
		return 0
	}
	lower := func(b byte) byte {
		if fold && 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		return b
	}
	first := lower(text[1])
	switch first {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(text) < 3 {
		return 0
	}
	switch second := lower(text[2]); {
	case first == 'l' && second == 'l', (first == 'r' || first == 'v') && second == 'e':
		return 3
	case fold && strings.HasPrefix(text[1:], "ſ"):
		return 1 + len("ſ")
	}
	return 0
}

// afterSpace steps over one blank at at, unless the text ends with it.
func afterSpace(text string, at int) int {
	if text[at] == ' ' && at+1 < len(text) {
		return at + 1
	}
	return at
}

// spaces is \s+(?!\S)|\s+: white space, but its last rune stays with the word
// that follows, unless that would leave nothing.
func spaces(text string, at int) int {
	end, last := at, at
	for end < len(text) {
		c, n := classAt(text, end)
		if c != space {
			break
		}
		last, end = end, end+n
	}
	if end == len(text) || last == at {
		return end
	}
	return last
}
