package tokenizer

import (
	"fmt"
	"strings"
)

// UnsupportedError says that the file wants a tokenizer that this package has not.
// A model can still run on token ids.
type UnsupportedError struct {
	What  string   // "model" or "pre-tokenizer"
	Name  string   // as the file calls it
	Known []string // names that would do
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("tokenizer: %s %q is not supported, want one of %s; the model can still run on token ids",
		e.What, e.Name, strings.Join(e.Known, ", "))
}

// kind is the type of a token.
func (v *Vocabulary) kind(id int) int32 {
	if len(v.Types) == 0 {
		return normal
	}
	return v.Types[id]
}

// check refuses what New could only misread.
func (v *Vocabulary) check() (preTokenizer, error) {
	if v.Model != "gpt2" {
		return preTokenizer{}, &UnsupportedError{What: "model", Name: v.Model, Known: []string{"gpt2"}}
	}
	pre, ok := preTokenizers[v.Pre]
	if !ok {
		return pre, &UnsupportedError{What: "pre-tokenizer", Name: v.Pre, Known: preTokenizerNames()}
	}
	if len(v.Tokens) == 0 {
		return pre, fmt.Errorf("tokenizer: no tokens, want at least one; the file has no tokenizer.ggml.tokens")
	}
	if len(v.Merges) == 0 {
		return pre, fmt.Errorf("tokenizer: model %q without merges, want tokenizer.ggml.merges; convert the model again", v.Model)
	}
	if len(v.Types) != 0 && len(v.Types) != len(v.Tokens) {
		return pre, fmt.Errorf("tokenizer: %d token types for %d tokens, want one each", len(v.Types), len(v.Tokens))
	}
	for id, kind := range v.Types {
		if kind < normal || kind > byteValue {
			return pre, fmt.Errorf("tokenizer: token %d %q: type %d, want 1 to 6", id, v.Tokens[id], kind)
		}
	}
	for _, role := range []struct {
		name string
		id   int32
	}{{"bos", v.BOS}, {"eos", v.EOS}, {"eot", v.EOT}, {"unknown", v.UNK}, {"padding", v.PAD}} {
		if role.id < -1 || int(role.id) >= len(v.Tokens) {
			return pre, fmt.Errorf("tokenizer: %s token id %d, want below %d, the number of tokens (or -1 for none)",
				role.name, role.id, len(v.Tokens))
		}
	}
	if v.AddBOS && v.BOS < 0 {
		return pre, fmt.Errorf("tokenizer: prompts shall begin with a bos token, but none is named; set tokenizer.ggml.bos_token_id")
	}
	if v.AddEOS && v.EOS < 0 {
		return pre, fmt.Errorf("tokenizer: texts shall end with an eos token, but none is named; set tokenizer.ggml.eos_token_id")
	}
	return pre, nil
}
