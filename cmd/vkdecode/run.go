package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/replay"
	"vkdecode/runtime"
)

// runFlags are the flags of run that are not settings.
type runFlags struct {
	prompt          promptFlags
	files           recordFlags
	session         sessionFlags
	ignoreEOS, anew bool
	pins            pinFlags
	stats           bool
	json            *bool
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

--save-session keeps the session for another run: --load-session goes on from it,
under the same settings, as if nothing had been in between.

The text goes to standard output as it comes, the figures to standard error.
Ctrl-C finishes the current step, reports what there is, in the files as well,
and exits with 130; a second one ends at once.`,
		Example: `  vkdecode run model.gguf -p "Why is the sky blue?"
  vkdecode run model.gguf -f article.txt --kv h2o --budget 20% -n 200
  vkdecode run model.gguf -f article.txt --budget 10% --stats
  vkdecode run model.gguf --system "Answer in one word." --pin-system -f questions.txt
  vkdecode run model.gguf --raw -p "Once upon a time" --temp 0 --json
  vkdecode run model.gguf --prompt-tokens 1,2,3 -n 8 --evict-log evictions.jsonl
  vkdecode run model.gguf -p "Who wrote War and Peace?" --ctx 4096 --save-session talk
  vkdecode run model.gguf -p "And when?" --load-session talk --save-session talk
  vkdecode run builtin: -p "Prince Andrew"`,
		Args: cobra.ExactArgs(1),
	}
	f.session.bind(cmd)
	f.prompt.bind(cmd)
	f.files.bind(cmd)
	bindSettings(cmd, "device", "kv", "generate")
	cmd.Flags().BoolVar(&f.ignoreEOS, "ignore-eos", false, "go on after the model's end tokens")
	f.pins.bind(cmd)
	cmd.Flags().BoolVar(&f.anew, "record-each-step", false, "record the commands anew for every step (slow; for checking replay)")
	cmd.Flags().BoolVar(&f.stats, "stats", false, "tell by layer what was kept and evicted, and where in the text the kept tokens stand")
	f.json = jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runModel(cmd, args[0], f) }
	return cmd
}

// runModel is the command: load, prompt, generate, report.
func runModel(cmd *cobra.Command, path string, f *runFlags) (err error) {
	c, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	from, err := f.session.open()
	if err != nil {
		return err
	}
	defer from.close()
	if from != nil {
		c.adopt(cmd, from)
	}
	if len(c.KV.Policies) != 1 {
		return usagef("run: %d policies, want one; give --kv a single name", len(c.KV.Policies))
	}
	if err := c.oneBudget("run"); err != nil {
		return err
	}
	if f.pins.first < 0 {
		return usagef("run: --pin-first %d, want 0 or more", f.pins.first)
	}
	if from != nil && f.pins.given() {
		return usagef("run: --pin-first, --pin-system or --pin-text with --load-session: what is pinned was said when the session began")
	}
	given, err := f.prompt.read(cmd)
	if err != nil {
		return err
	}
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	verbose, _ := cmd.Flags().GetCount("verbose")
	begin := time.Now()
	l, err := openModel(ctx, c, path, verbose, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	l.engine.Anew = f.anew
	tokens, pinned, err := f.begin(given, l.model, from)
	if err != nil {
		return err
	}
	s, err := l.newSession(ctx, c, f, from, len(tokens), pinned, stderr)
	if err != nil {
		return err
	}
	defer s.Close()
	l.savePipelineCache(verbose, stderr)
	if verbose > 0 {
		s.Memory().Print(stderr)
	}
	if l.engine.Debug >= 3 {
		s.PrintGraph(stderr)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if from != nil {
		if err := from.restore(s); err != nil {
			return err
		}
		if info := l.device.Info; from.Device != info.Name || from.Driver != info.Driver {
			fmt.Fprintf(stderr, "note: the session was saved on %s, %s: numbers may differ in the last digits here\n", from.Device, from.Driver)
		}
	}
	r := &runReport{Model: path, Device: l.device.Info.Name, Driver: l.device.Info.Driver, SessionTokens: len(s.Tokens), PromptTokens: tokens, Tokens: []int32{}, Seed: noSeed,
		OwnLayers: l.model.OwnLayers, HostBytes: l.model.Bytes() - l.model.OwnBytes(), plan: s.Plan()}
	r.Timing.LoadMS = milliseconds(time.Since(begin))
	return generate(cmd, c, f, l, s, r)
}

// begin gives the tokens of the prompt and which positions are pinned: in a session that is loaded, what it was opened with.
func (f *runFlags) begin(given *prompt, m *model.Model, from *loadedSession) ([]int32, []h2o.Span, error) {
	if from != nil {
		tokens, err := given.next(m, from.Pending)
		return tokens, from.KV.Pinned, err
	}
	e, err := given.encode(m)
	if err != nil {
		return nil, nil, err
	}
	pinned, err := f.pins.spans(given, m, e)
	return e.tokens, pinned, err
}

// newSession opens a session for a prompt of so many tokens and the new tokens of the configuration, after those of a
// session that is loaded, if one is.
func (l *loaded) newSession(ctx context.Context, c *configuration, f *runFlags, from *loadedSession, prompt int, pinned []h2o.Span, stderr io.Writer) (*model.Session, error) {
	kv := c.cache(c.KV.Policies[0], c.KV.Budget)
	kv.Pinned = pinned
	o := f.session.options(c, kv, from, prompt, c.Generate.MaxNewTokens)
	o.Ends = !f.ignoreEOS
	plan, err := l.model.PlanSession(o)
	if err != nil {
		return nil, usageError{err}
	}
	l.noteLength(stderr, o.Length)
	s, err := plan.Open(ctx)
	return s, room(err, plan.Plan, l.device)
}

// generate runs the prompt and the decoding, completes the files and reports, all of it also when ctx ends before.
func generate(cmd *cobra.Command, c *configuration, f *runFlags, l *loaded, s *model.Session, r *runReport) error {
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	sampling := c.sampling(r)
	if err := sampling.Check(l.model.Vocab); err != nil {
		return usageError{err}
	}
	records, err := f.files.create(s, l.model.Vocab, f.session.save, replay.HeaderOf(s, l.model, l.engine, r.Model, version(), r.PromptTokens))
	if err != nil {
		return err
	}
	defer records.discard()
	watch := records.observer()
	var stats *statsCollector
	if f.stats {
		stats = newStats(s)
		watch = stats.watch(watch)
	}
	out := newText(cmd.OutOrStdout(), l.model.Tokenizer, *f.json)

	bar := newProgress(stderr, "prompt", int64(len(r.PromptTokens)))
	begin := time.Now()
	if len(r.PromptTokens) > 0 {
		err = s.Prompt(ctx, r.PromptTokens, watch, func(done int) { bar.set(int64(done)) })
	}
	bar.done()
	prompted := len(s.Tokens) - r.SessionTokens
	r.Timing.prompt(prompted, time.Since(begin))
	switch {
	case errors.Is(err, context.Canceled):
		r.StopReason, records.cut = model.StopCancelled, true
	case err != nil:
		return err
	default:
		begin = time.Now()
		if r.StopReason, err = s.Generate(ctx, model.Generation{Tokens: c.Generate.MaxNewTokens, Sampling: sampling, Observer: watch, Continue: len(r.PromptTokens) == 0, Emit: func(token int32) error {
			r.Tokens = append(r.Tokens, token)
			if f.ignoreEOS || !slices.Contains(l.model.Ends(), token) {
				out.push(token)
			}
			return nil
		}}); err != nil {
			return err
		}
		r.Timing.decode(len(s.Tokens)-r.SessionTokens-prompted, time.Since(begin))
	}

	var lost error
	r.Text, lost = out.end()
	if err := r.read(s, stats); err != nil {
		return err
	}
	err = records.complete(r)
	if lost == nil {
		lost = r.write(cmd, *f.json)
	}
	if err == nil && lost == nil && l.engine.Debug >= 2 && len(r.Tokens) > 1 {
		err = printTimes(stderr, s)
	}
	return cmp.Or(err, lost) // not joined: a lost reader alone is no failure
}

// sampling is how tokens are chosen. The seed of a run that draws is reported.
func (c *configuration) sampling(r *runReport) runtime.Sampling {
	g := c.Generate
	if g.Seed < 0 {
		g.Seed = rand.Int64()
	}
	if g.Temperature > 0 {
		r.Seed = g.Seed
	}
	return runtime.Sampling{Temperature: g.Temperature, TopK: g.TopK, TopP: g.TopP, MinP: g.MinP, RepeatPenalty: g.RepeatPenalty, Presence: g.Presence, Frequency: g.Frequency,
		RepeatLast: g.RepeatLast, Bias: g.Bias, Seed: uint64(g.Seed)}
}
