package main

import (
	"bytes"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/model/tokenizer"
)

// pinFlags say which tokens of the prompt are never evicted.
type pinFlags struct {
	first  int
	system bool
	texts  []string
}

func (f *pinFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.first, "pin-first", 0, "never evict the first `N` tokens")
	flags.BoolVar(&f.system, "pin-system", false, "never evict the system message, with what the chat template puts around it")
	flags.StringArrayVar(&f.texts, "pin-text", nil, "never evict the tokens of `TEXT`, at its first place in the prompt; may be given twice")
}

// given tells whether anything is to be pinned.
func (f *pinFlags) given() bool { return f.first != 0 || f.system || f.texts != nil }

// spans are the positions of a prompt that are pinned, in order; those that meet are one.
func (f *pinFlags) spans(p *prompt, m *model.Model, e *encoded) (all []h2o.Span, err error) {
	if f.first > 0 {
		all = append(all, h2o.Span{End: f.first})
	}
	if f.system {
		span, err := f.systemSpan(p, m, e)
		if err != nil {
			return nil, err
		}
		all = append(all, span)
	}
	for _, text := range f.texts {
		span, found := e.find(m.Tokenizer, text)
		switch {
		case p.ids:
			return nil, usagef("prompt: --pin-text needs a prompt of text, not of tokens; try --pin-first")
		case !found:
			return nil, usagef("prompt: --pin-text: %q is not in the prompt", text)
		}
		all = append(all, span)
	}
	slices.SortFunc(all, func(a, b h2o.Span) int { return a.Begin - b.Begin })
	merged := all[:0]
	for _, s := range all {
		if n := len(merged); n > 0 && s.Begin <= merged[n-1].End {
			merged[n-1].End = max(merged[n-1].End, s.End)
			continue
		}
		merged = append(merged, s)
	}
	return merged, nil
}

// systemSpan is the system message's turn: what the template makes of it alone, if the prompt begins with that, else its
// words.
func (f *pinFlags) systemSpan(p *prompt, m *model.Model, e *encoded) (h2o.Span, error) {
	if p.system == "" {
		return h2o.Span{}, usagef("prompt: --pin-system: there is no system message; give --system, or --pin-text for the one that the template writes by itself")
	}
	turn, err := render(m.Template, []Message{{"system", p.system}}, m.BOS, m.EOS, false)
	if err == nil && turn != "" && strings.HasPrefix(e.text, turn) {
		span, found := e.find(m.Tokenizer, turn)
		span.Begin = 0 // with BOS
		if found {
			return span, nil
		}
	}
	span, found := e.find(m.Tokenizer, strings.TrimSpace(p.system))
	if !found {
		return span, usagef("prompt: --pin-system: the chat template leaves the system message out, or changes it; try --pin-text")
	}
	return span, nil
}

// encoded is a prompt in tokens.
type encoded struct {
	tokens []int32
	text   string // that they were made of; empty where ids were given
}

// find is where a text first stands in what the tokens spell: all tokens that have a part in it.
func (e *encoded) find(t *tokenizer.Tokenizer, text string) (span h2o.Span, found bool) {
	if t == nil {
		return span, false
	}
	spell := func(tokens []int32) (spelt []byte, ends []int) {
		for _, id := range tokens {
			spelt = append(spelt, t.Piece(id)...)
			ends = append(ends, len(spelt))
		}
		return spelt, ends
	}
	wanted, _ := spell(t.Encode(text, tokenizer.EncodeOptions{ParseSpecial: true})) // a tokenizer may write a text in another form
	spelt, ends := spell(e.tokens)
	begin := bytes.Index(spelt, wanted)
	if begin < 0 || len(wanted) == 0 {
		return span, false
	}
	end := begin + len(wanted)
	span.Begin = slices.IndexFunc(ends, func(at int) bool { return at > begin })
	span.End = slices.IndexFunc(ends, func(at int) bool { return at >= end }) + 1
	return span, true
}
