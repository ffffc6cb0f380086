package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"vkdecode/model"
	"vkdecode/model/tokenizer"
)

// promptFlags say where the prompt comes from and what is put around it.
type promptFlags struct {
	text, file, tokens string // one of them is given
	system             string
	raw                bool
}

func (f *promptFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.text, "prompt", "p", "", "the prompt `TEXT`")
	flags.StringVarP(&f.file, "file", "f", "", "read the prompt from `FILE`, - for standard input")
	flags.StringVar(&f.tokens, "prompt-tokens", "", "the prompt as token ids: `1,2,3` or @FILE")
	flags.StringVar(&f.system, "system", "", "system message `TEXT` for the chat template")
	flags.BoolVar(&f.raw, "raw", false, "no chat template: take the prompt as it is")
	cmd.MarkFlagsMutuallyExclusive("prompt", "file", "prompt-tokens")
	cmd.MarkFlagsMutuallyExclusive("system", "prompt-tokens")
	cmd.MarkFlagsMutuallyExclusive("system", "raw")
	cmd.MarkFlagsMutuallyExclusive("system", "load-session")
	cmd.MarkFlagsOneRequired("prompt", "file", "prompt-tokens", "load-session")
}

// prompt is what was given, before a model gives it a meaning.
type prompt struct {
	promptFlags
	given string // the text, or the ids
	ids   bool
}

// read fetches the prompt. The bytes of a file stay as they are. Without one, where a session is loaded, it is nil.
func (f *promptFlags) read(cmd *cobra.Command) (p *prompt, err error) {
	p = &prompt{promptFlags: *f, given: f.text}
	var bytes []byte
	switch flags := cmd.Flags(); {
	case !flags.Changed("prompt") && !flags.Changed("file") && !flags.Changed("prompt-tokens"):
		return nil, nil
	case flags.Changed("file") && f.file == "-":
		bytes, err = readAll(cmd.Context(), cmd.InOrStdin())
		p.given = string(bytes)
	case flags.Changed("file"):
		bytes, err = os.ReadFile(f.file)
		p.given = string(bytes)
	case flags.Changed("prompt-tokens"):
		p.given, p.ids = f.tokens, true
		if name, found := strings.CutPrefix(f.tokens, "@"); found {
			bytes, err = os.ReadFile(name)
			p.given = string(bytes)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("prompt: %w", err)
	}
	if p.given == "" {
		return nil, usagef("prompt: it is empty, want at least one token")
	}
	return p, nil
}

// readAll reads to the end, or until ctx ends: a terminal may never come to an end.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	var bytes []byte
	var err error
	done := make(chan struct{})
	go func() {
		bytes, err = io.ReadAll(r)
		close(done)
	}()
	select {
	case <-done:
		return bytes, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// encode turns the prompt into tokens of a model.
func (p *prompt) encode(m *model.Model) (e *encoded, err error) {
	if p.ids {
		e = &encoded{}
		e.tokens, err = parseTokens(p.given, m.Vocab)
		return e, err
	}
	if m.Tokenizer == nil {
		return nil, fmt.Errorf("%w; give the prompt as --prompt-tokens", m.TokenizerErr)
	}
	text := p.given
	if !p.raw && m.Template != "" {
		var messages []Message
		if p.system != "" {
			messages = append(messages, Message{"system", p.system})
		}
		if text, err = render(m.Template, append(messages, Message{"user", text}), m.BOS, m.EOS, true); err != nil {
			return nil, err
		}
	} else if p.system != "" {
		return nil, usagef("prompt: --system needs a chat template, and the model has none")
	}
	tokens := m.Tokenizer.Encode(text, tokenizer.EncodeOptions{ParseSpecial: true, BOS: true})
	if len(tokens) == 0 {
		return nil, usagef("prompt: the model has no token for any of it")
	}
	return &encoded{tokens, text}, nil
}

// next turns the prompt into tokens that go on after what a session holds. The token that the session left pending comes
// first. A chat template gives what stands between a reply and the next question, and around that.
func (p *prompt) next(m *model.Model, pending int32) (tokens []int32, err error) {
	switch {
	case p == nil: // the text goes on by itself
		return []int32{}, nil
	case p.ids:
		tokens, err = parseTokens(p.given, m.Vocab)
	case m.Tokenizer == nil:
		return nil, fmt.Errorf("%w; give the prompt as --prompt-tokens", m.TokenizerErr)
	default:
		text := p.given
		if !p.raw && m.Template != "" {
			text, err = renderNext(m.Template, text, m.BOS, m.EOS)
		}
		tokens = m.Tokenizer.Encode(text, tokenizer.EncodeOptions{ParseSpecial: true})
		if err == nil && len(tokens) == 0 {
			err = usagef("prompt: the model has no token for any of it")
		}
	}
	if err != nil || pending == model.NoToken {
		return tokens, err
	}
	if m.Tokenizer != nil && m.Tokenizer.IsEnd(pending) && tokens[0] == pending && !p.ids {
		return tokens, nil // the template ends the reply too
	}
	return append([]int32{pending}, tokens...), nil
}

// parseTokens reads ids separated by commas or white space.
func parseTokens(given string, vocab int) ([]int32, error) {
	var ids []int32
	for _, word := range strings.FieldsFunc(given, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		id, err := strconv.ParseInt(word, 10, 32)
		if err != nil || id < 0 || int(id) >= vocab {
			return nil, usagef("prompt: token id %q, want ids from 0 to %d separated by commas", word, vocab-1)
		}
		ids = append(ids, int32(id))
	}
	if len(ids) == 0 {
		return nil, usagef("prompt: no token ids in it")
	}
	return ids, nil
}
