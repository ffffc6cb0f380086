// Package tokenizer turns text into token ids and back, for the byte-level BPE
// vocabularies that GGUF files carry (tokenizer.ggml.model = "gpt2").
//
// Text passes four stations: added tokens are cut out (leftmost, then longest),
// the rest is put into Unicode NFC where the model wants it, a pre-tokenizer
// cuts it into words, and byte-pair encoding merges each word's bytes.
//
// The reference is Hugging Face's tokenizers library, with which the models were
// trained. Where llama.cpp differs, we follow the reference:
//   - qwen2 text is normalised to NFC; llama.cpp leaves it as it is.
//   - Of two added tokens that overlap in the text, the one that begins first
//     wins; llama.cpp takes the longest first.
//   - Bytes for which the vocabulary has no token are dropped before merging, so
//     their neighbours may merge; llama.cpp drops them afterwards.
//   - Of two equal merges the later counts; in llama.cpp the earlier.
//   - "'ſ" (long s) is a contraction wherever "'S" is.
//
// Invalid UTF-8, which the reference cannot be given, is kept byte by byte.
package tokenizer

import (
	"slices"
	"sync"
)

// Vocabulary is what a model file says about its tokens.
type Vocabulary struct {
	Model string // tokenizer.ggml.model, "gpt2" for byte-level BPE
	Pre   string // tokenizer.ggml.pre, the pre-tokenizer

	Tokens []string // text by id; normal tokens in the byte alphabet of GPT-2, others as they are
	Types  []int32  // by id, 1 to 6 as in GGUF; none at all means that every token is normal
	Merges []string // "left right", the most eager first

	BOS, EOS, EOT, UNK, PAD int32 // ids; -1 = absent

	AddBOS bool // a prompt begins with BOS; files that do not say so mean AddsBOS(Pre)
	AddEOS bool // a complete text ends with EOS
}

// The token types of GGUF.
const (
	normal      = 1
	unknown     = 2 // as good as control
	control     = 3 // has meaning for the model, never part of plain text
	userDefined = 4 // found in any text, before words are
	unused      = 5
	byteValue   = 6 // "<0x0A>"
)

// Tokenizer encodes and decodes. It may be used by several goroutines at once.
type Tokenizer struct {
	roles  roles
	pre    preTokenizer
	pieces pieces

	base   [256]int32       // id of the token that is this one byte, -1 = none
	merges map[pair]merge   // what two adjacent tokens become
	whole  map[string]int32 // words that are tokens as they stand; nil unless the pre-tokenizer looks
	always trie             // user-defined tokens
	parsed trie             // user-defined, control and unknown tokens
	coders sync.Pool        // of *encoder: scratch memory and the word cache
}

// roles holds the ids that mean something to the program.
type roles struct {
	bos, eos       int32
	addBOS, addEOS bool
	ends           []int32 // tokens after which generation stops
}

// endTexts are tokens that end a generation in the models we know, whatever
// role the file gives them.
var endTexts = []string{
	"<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>",
	"<|end|>", "<|return|>", "<|call|>", "<end_of_turn>", "<end_of_utterance>",
	"<eos>", "</s>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<｜end▁of▁sentence｜>",
}

// New checks the vocabulary and builds a tokenizer from it. Token texts may
// repeat, as they do in real files: the lowest id is the one that Encode gives.
// It fails with *UnsupportedError for a model kind or pre-tokenizer it does not know.
func New(v Vocabulary) (*Tokenizer, error) {
	pre, err := v.check()
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{
		roles:  roles{bos: v.BOS, eos: v.EOS, addBOS: v.AddBOS, addEOS: v.AddEOS},
		pre:    pre,
		pieces: newPieces(v),
	}
	ids := make(map[string]int32, len(v.Tokens))
	for id, text := range v.Tokens {
		if _, ok := ids[text]; !ok {
			ids[text] = int32(id)
		}
	}
	for b := range t.base {
		t.base[b] = -1
		if id, ok := ids[string(alphabet[b])]; ok {
			t.base[b] = id
		}
	}
	if t.merges, err = newMerges(v.Merges, ids); err != nil {
		return nil, err
	}
	if pre.whole {
		t.whole = make(map[string]int32, len(v.Tokens))
	}
	for id, text := range v.Tokens {
		t.add(int32(id), text, v.kind(id))
	}
	for _, id := range []int32{v.EOS, v.EOT} {
		if id >= 0 {
			t.roles.ends = append(t.roles.ends, id)
		}
	}
	t.coders.New = func() any { return newEncoder(t) }
	return t, nil
}

// add enters a token where Encode looks for it.
func (t *Tokenizer) add(id int32, text string, kind int32) {
	switch kind {
	case normal:
		if t.whole == nil {
			return
		}
		if word := string(t.Piece(id)); word != "" {
			if _, ok := t.whole[word]; !ok {
				t.whole[word] = id
			}
		}
		return
	case userDefined:
		t.always.add(text, id)
		t.parsed.add(text, id)
	case control, unknown:
		t.parsed.add(text, id)
	default:
		return
	}
	if slices.Contains(endTexts, text) {
		t.roles.ends = append(t.roles.ends, id)
	}
}

// Size is the number of tokens.
func (t *Tokenizer) Size() int { return len(t.pieces.ends) }

// IsEnd reports whether generation stops after this token: EOS, EOT, and control
// or user-defined tokens known by their text to end a turn.
func (t *Tokenizer) IsEnd(id int32) bool { return slices.Contains(t.roles.ends, id) }

// BOS is the token that begins a text, if the vocabulary has one, whether or not a prompt of the model begins with it.
func (t *Tokenizer) BOS() (id int32, ok bool) { return t.roles.bos, t.roles.bos >= 0 }
