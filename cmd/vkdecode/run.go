package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/model/tokenizer"
	"vkdecode/runtime"
)

// runFlags are the flags of run that are not settings.
type runFlags struct {
	prompt, file, tokens      string
	system                    string
	raw, ignoreEOS, anew      bool
	pinFirst                  int
	evictLog, kvState, logits string
	json                      *bool
}

func newRun() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run MODEL",
		Short: "decode a continuation of a prompt",
		Long: `Decode a continuation of a prompt with a KV cache that stays inside the budget.

MODEL is a GGUF file, or builtin: for the small model inside the program. The
prompt is wrapped in the model's chat template where it has one; --raw takes it as
it is, with special tokens in the text understood.

The text goes to standard output as it comes, the figures to standard error.`,
		Example: `  vkdecode run model.gguf -p "Why is the sky blue?"
  vkdecode run model.gguf -f article.txt --kv h2o --budget 20% -n 200
  vkdecode run model.gguf --raw -p "Once upon a time" --temp 0 --json
  vkdecode run model.gguf --prompt-tokens 1,2,3 -n 8 --evict-log evictions.jsonl
  vkdecode run builtin: --raw -p "Prince Andrew"`,
		Args: cobra.ExactArgs(1),
	}
	bindSettings(cmd, "device", "kv", "generate")
	flags := cmd.Flags()
	flags.StringVarP(&f.prompt, "prompt", "p", "", "the prompt `TEXT`")
	flags.StringVarP(&f.file, "file", "f", "", "read the prompt from `FILE`, - for standard input")
	flags.StringVar(&f.tokens, "prompt-tokens", "", "the prompt as token ids: `1,2,3` or @FILE")
	flags.StringVar(&f.system, "system", "", "system message `TEXT` for the chat template")
	flags.BoolVar(&f.raw, "raw", false, "no chat template: take the prompt as it is")
	flags.BoolVar(&f.ignoreEOS, "ignore-eos", false, "go on after the model's end tokens")
	flags.IntVar(&f.pinFirst, "pin-first", 0, "never evict the first `N` tokens")
	flags.StringVar(&f.evictLog, "evict-log", "", "write every eviction to `FILE`, one JSON object per line")
	flags.StringVar(&f.kvState, "kv-state", "", "write the positions and scores of the live slots to `FILE` as JSON")
	flags.StringVar(&f.logits, "logits", "", "write the logits of every processed token to `FILE.npy`")
	flags.BoolVar(&f.anew, "record-each-step", false, "record the commands anew for every step (slow; for checking replay)")
	cmd.MarkFlagsMutuallyExclusive("prompt", "file", "prompt-tokens")
	cmd.MarkFlagsOneRequired("prompt", "file", "prompt-tokens")
	f.json = jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runModel(cmd, args[0], f) }
	return cmd
}

// runModel is the command: load, prompt, generate, report.
func runModel(cmd *cobra.Command, path string, f *runFlags) error {
	c, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	if len(c.KV.Policies) != 1 {
		return usagef("run takes one policy, got %d; give --kv one name", len(c.KV.Policies))
	}
	verbose, _ := cmd.Flags().GetCount("verbose")
	begin := time.Now()
	l, err := openModel(c, path, verbose, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer l.close()
	l.engine.Anew = f.anew
	m := l.model
	prompt, err := f.promptTokens(cmd, m)
	if err != nil {
		return err
	}
	n := c.Generate.MaxNewTokens
	settings := h2o.Settings{Policy: c.KV.Policies[0], Budget: c.KV.Budget, RecentRatio: c.KV.RecentRatio, Sinks: c.KV.Sinks, Type: c.KV.Type, Positions: c.KV.Positions, Chunk: c.KV.Chunk}
	if f.pinFirst < 0 {
		return usagef("--pin-first %d, want 0 or more", f.pinFirst)
	}
	if f.pinFirst > 0 {
		settings.Pinned = []h2o.Span{{Begin: 0, End: f.pinFirst}}
	}
	// The last new token is not processed, so that it needs no slot; at least the prompt does.
	length := len(prompt) + max(n-1, 0)
	if _, err := h2o.NewPlan(settings, m.Geometry(), c.KV.Context, length, len(prompt)); err != nil {
		return usagef("%w", err)
	}
	s, err := m.NewSession(model.SessionOptions{KV: settings, Length: length, Context: c.KV.Context, Prompt: len(prompt), Ends: !f.ignoreEOS})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := l.device.SavePipelineCache(); err != nil && verbose > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %v\n", err)
	}
	if verbose > 0 {
		s.Memory().Print(cmd.ErrOrStderr())
	}
	r := &runReport{Model: path, Device: l.device.Info.Name, Driver: l.device.Info.Driver, PromptTokens: prompt, Tokens: []int32{}, Seed: c.Generate.Seed}
	r.Timing.LoadMS = milliseconds(time.Since(begin))
	return generate(cmd, c, f, l, s, r)
}

// generate runs the prompt and the decoding and prints the report.
func generate(cmd *cobra.Command, c *configuration, f *runFlags, l *loaded, s *model.Session, r *runReport) (err error) {
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	records, err := f.records(s, l.model.Vocab)
	if err != nil {
		return err
	}
	defer func() {
		if e := records.close(err == nil); err == nil {
			err = e
		}
	}()
	bar := newProgress(stderr, "prompt", int64(len(r.PromptTokens)))
	begin := time.Now()
	err = s.Prompt(ctx, r.PromptTokens, records.observer(), func(done int) { bar.set(int64(done)) })
	bar.done()
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	r.Timing.prompt(len(s.Tokens), time.Since(begin))
	if err != nil {
		r.StopReason = model.StopCancelled
		return errors.Join(r.finish(cmd, s, f), err)
	}

	sampler, err := c.sampler(r)
	if err != nil {
		return err
	}
	out := newText(cmd.OutOrStdout(), l.model.Tokenizer, *f.json)
	begin = time.Now()
	r.StopReason, err = s.Generate(ctx, model.Generation{Tokens: c.Generate.MaxNewTokens, Sampler: sampler, Observer: records.observer(), Emit: func(token int32) error {
		r.Tokens = append(r.Tokens, token)
		return out.push(token)
	}})
	if err != nil {
		return err
	}
	r.Timing.decode(len(r.Tokens)-1, time.Since(begin))
	if r.Text, err = out.end(); err != nil {
		return err
	}
	if err := r.finish(cmd, s, f); err != nil {
		return err
	}
	if l.engine.Debug >= 2 {
		return printTimes(stderr, s)
	}
	return nil
}

// sampler makes the sampler of the configuration: nil is greedy on the device. A fresh seed is noted in the report.
func (c *configuration) sampler(r *runReport) (runtime.Sampler, error) {
	g := c.Generate
	if g.Temperature == 0 && (g.RepeatPenalty == 1 || g.RepeatPenalty == 0) {
		return nil, nil
	}
	if g.Seed < 0 {
		g.Seed = rand.Int64()
	}
	r.Seed = g.Seed
	s, err := runtime.NewSampler(runtime.Sampling{Temperature: g.Temperature, TopK: g.TopK, TopP: g.TopP, MinP: g.MinP, RepeatPenalty: g.RepeatPenalty, RepeatLast: repeatLast, Seed: uint64(g.Seed)})
	if err != nil {
		return nil, usagef("%w", err)
	}
	return s, nil
}

// repeatLast is how many of the last tokens the repeat penalty looks at.
const repeatLast = 64

// promptTokens reads the prompt in one of its forms and turns it into token ids.
func (f *runFlags) promptTokens(cmd *cobra.Command, m *model.Model) ([]int32, error) {
	if f.tokens != "" {
		return parseTokens(f.tokens, m.Vocab)
	}
	text := f.prompt
	if f.file != "" {
		b, err := readPrompt(cmd, f.file)
		if err != nil {
			return nil, err
		}
		text = string(b)
	}
	if m.Tokenizer == nil {
		return nil, fmt.Errorf("%w; give the prompt as --prompt-tokens", m.TokenizerErr)
	}
	if !f.raw && m.Template != "" {
		var messages []Message
		if f.system != "" {
			messages = append(messages, Message{"system", f.system})
		}
		wrapped, err := render(m.Template, append(messages, Message{"user", text}), m.BOS, m.EOS, true)
		if err != nil {
			return nil, err
		}
		text = wrapped
	} else if f.system != "" {
		return nil, usagef("--system needs the model's chat template: it has none, or --raw was given")
	}
	tokens := m.Tokenizer.Encode(text, tokenizer.EncodeOptions{ParseSpecial: true, BOS: true})
	if len(tokens) == 0 {
		return nil, usagef("the prompt is empty")
	}
	return tokens, nil
}

func readPrompt(cmd *cobra.Command, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(cmd.InOrStdin())
	}
	return os.ReadFile(file)
}

// parseTokens reads "1,2,3" or @FILE with ids separated by commas or white space.
func parseTokens(given string, vocab int) ([]int32, error) {
	if given[0] == '@' {
		b, err := os.ReadFile(given[1:])
		if err != nil {
			return nil, err
		}
		given = string(b)
	}
	var ids []int32
	for _, word := range splitIDs(given) {
		id, err := strconv.ParseInt(word, 10, 32)
		if err != nil || id < 0 || int(id) >= vocab {
			return nil, usagef("--prompt-tokens: %q, want ids from 0 to %d separated by commas", word, vocab-1)
		}
		ids = append(ids, int32(id))
	}
	if len(ids) == 0 {
		return nil, usagef("--prompt-tokens: no ids in it")
	}
	return ids, nil
}
