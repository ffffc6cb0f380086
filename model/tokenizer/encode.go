package tokenizer

import (
	"slices"
	"strings"
)

// EncodeOptions says what else to make of a text than plain words.
type EncodeOptions struct {
	ParseSpecial bool // control tokens written in the text become those tokens; user-defined ones always do
	BOS          bool // begin with BOS, if the model wants it and it is not there already
	EOS          bool // end with EOS, if the model wants it and it is not there already
}

// Encode gives the tokens of a text. It never fails: bytes that are not UTF-8
// are encoded as bytes, and bytes without a token are dropped.
func (t *Tokenizer) Encode(text string, o EncodeOptions) []int32 {
	e := t.coders.Get().(*encoder)
	defer t.coders.Put(e)
	added := &t.always
	if o.ParseSpecial {
		added = &t.parsed
	}
	var ids []int32
	for text != "" {
		start, end, id := added.find(text)
		ids = e.words(ids, text[:start])
		if id >= 0 {
			ids = append(ids, id)
		}
		text = text[end:]
	}
	v := t.roles
	if o.BOS && v.addBOS && (len(ids) == 0 || ids[0] != v.bos) {
		ids = slices.Insert(ids, 0, v.bos)
	}
	if o.EOS && v.addEOS && (len(ids) == 0 || ids[len(ids)-1] != v.eos) {
		ids = append(ids, v.eos)
	}
	return ids
}

// The word cache saves most of the merging, since most words come again.
const (
	cachedWords  = 8192 // then it starts anew
	cachedLength = 48   // bytes; longer words seldom come again
)

// encoder is what one Encode needs to itself.
type encoder struct {
	*Tokenizer
	symbols []symbol
	queue   queue
	cache   map[string][]int32
}

func newEncoder(t *Tokenizer) *encoder {
	return &encoder{Tokenizer: t, cache: make(map[string][]int32)}
}

// words appends the tokens of a text without added tokens.
func (e *encoder) words(ids []int32, text string) []int32 {
	if e.pre.nfc {
		text = nfc(text)
	}
	for at := 0; at < len(text); {
		end := e.pre.word(text, at)
		ids = e.word(ids, text[at:end])
		at = end
	}
	return ids
}

// word appends the tokens of one word.
func (e *encoder) word(ids []int32, word string) []int32 {
	if id, ok := e.whole[word]; ok {
		return append(ids, id)
	}
	if len(word) > cachedLength {
		return e.merge(ids, word)
	}
	if known, ok := e.cache[word]; ok {
		return append(ids, known...)
	}
	from := len(ids)
	ids = e.merge(ids, word)
	if len(e.cache) >= cachedWords {
		clear(e.cache)
	}
	e.cache[strings.Clone(word)] = slices.Clone(ids[from:])
	return ids
}
