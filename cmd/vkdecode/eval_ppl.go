package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"vkdecode/eval"
	"vkdecode/h2o"
)

// pplFlags are the flags of eval ppl beside those of every evaluation.
type pplFlags struct {
	evalFlags
	texts   []string
	offsets []int
	tokens  int
	bos, kl bool
}

// pplTokens is what is taken of a text unless told otherwise, or all of it where it is shorter.
const pplTokens = 2048

func newEvalPerplexity() *cobra.Command {
	f := &pplFlags{}
	cmd := &cobra.Command{
		Use:   "ppl MODEL --text FILE...",
		Short: "perplexity of texts by policy and budget",
		Long: `Tell how well a model foretells texts under each policy and budget: the perplexity,
exp of the mean negative log likelihood of each token given those before it.

A text is streamed from an empty cache, without a BOS token unless --bos asks for
one. Every --offset begins a segment of its own, in every text. A budget in percent
is of --tokens. --chunk 1 evicts after every token, as decoding does; larger chunks
are faster and evict after each chunk.

Without --kv, full is compared with the configured policy. --kl also streams the
text through a full cache beside each policy and tells how far the two foretellings
are apart. Ctrl-C prints what there is and exits with 130; with --resume the same
command goes on from there.`,
		Example: `  vkdecode eval ppl model.gguf --text book.txt
  vkdecode eval ppl model.gguf --text book.txt --offset 400000,1500000 --kv full,h2o,streaming,window --budget 10%,20%,30%
  vkdecode eval ppl model.gguf --text a.txt --text b.txt --tokens 8192 --kl --csv results.csv --resume results.jsonl
  vkdecode eval ppl builtin: --text book.txt --tokens 1024 --chunk 1 --json`,
		Args: cobra.MinimumNArgs(1),
	}
	f.bind(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.texts, "text", nil, "read the text from `FILE`, or those of a folder; more may follow MODEL or have a flag each")
	flags.IntSliceVar(&f.offsets, "offset", []int{0}, "bytes of the text before a segment; several separated by commas")
	flags.IntVar(&f.tokens, "tokens", pplTokens, "`TOKENS` of each segment; without the flag a shorter text will do")
	flags.BoolVar(&f.bos, "bos", false, "begin with the model's BOS token, which counts as one of the tokens")
	flags.BoolVar(&f.kl, "kl", false, "measure KL(full || policy) per token as well, at the cost of a full cache")
	cmd.MarkFlagsOneRequired("text")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.run(cmd, args[0], append(f.texts, args[1:]...))
	}
	return cmd
}

// perplexities is an evaluation of settings over segments.
type perplexities struct {
	*evaluation
	segments []*eval.Segment
	kl       bool

	groups [][]eval.Perplexity // results by segment, and last, if there are several, of all of them together
	done   int                 // tokens processed
}

// run is the command: read, load, evaluate, report; the report also when ctx ends before, or something fails.
func (f *pplFlags) run(cmd *cobra.Command, path string, paths []string) (err error) {
	c, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	if f.tokens < 2 {
		return usagef("eval: --tokens %d, want at least 2: the first one is given", f.tokens)
	}
	settings, err := c.compared(cmd)
	if err != nil {
		return err
	}
	var texts []*eval.Text
	hashes := map[string][]string{}
	for _, p := range paths {
		found, err := eval.ReadTexts(p)
		if err != nil {
			return err
		}
		texts = append(texts, found...)
		for _, t := range found {
			hashes[t.Name] = append(hashes[t.Name], t.Hash)
		}
	}
	e, err := f.open(cmd, c, path, hashes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	p := &perplexities{evaluation: e, kl: f.kl}
	if p.segments, err = f.cut(cmd, e, texts); err != nil {
		return err
	}
	if err := p.plan(settings); err != nil {
		return err
	}
	err = p.judge(cmd.Context(), settings)
	if lost := p.report(); err == nil {
		err = lost
	}
	return err
}

// cut takes the segments from the texts.
func (f *pplFlags) cut(cmd *cobra.Command, e *evaluation, texts []*eval.Text) (segments []*eval.Segment, err error) {
	if e.model.Tokenizer == nil {
		return nil, fmt.Errorf("%w; an evaluation of a text needs one", e.model.TokenizerErr)
	}
	extent := eval.Extent{Tokens: f.tokens}
	if cmd.Flags().Changed("tokens") {
		extent.Least = f.tokens
	}
	if f.bos {
		id, ok := e.model.Tokenizer.BOS()
		if !ok {
			return nil, usagef("eval: --bos, and the model has no BOS token")
		}
		extent.BOS = &id
	}
	longest := 0
	for _, t := range texts {
		for _, offset := range f.offsets {
			s, err := t.Segment(e.model.Tokenizer, offset, extent)
			if err != nil {
				return nil, usageError{err}
			}
			segments = append(segments, s)
			longest = max(longest, len(s.Tokens))
		}
	}
	e.noteLength(e.stderr, longest)
	return segments, nil
}

// plan refuses settings that cannot be met, before any of them is run, and counts the work.
func (p *perplexities) plan(settings []h2o.Settings) error {
	total := 0
	for _, kv := range settings {
		spared := false
		for _, seg := range p.segments {
			plan, err := eval.StreamPlan(p.model, kv, len(seg.Tokens))
			if err != nil {
				return usageError{err}
			}
			if _, found := p.finished(eval.SettingOf(plan), seg); !found {
				total += len(seg.Tokens) - 1
			}
			spared = spared || eval.Spared(plan)
		}
		if spared {
			fmt.Fprintf(p.stderr, "note: %s %s evicts nothing before the last token is foretold: its figures are those of full; lower --chunk\n", kv.Policy, kv.Budget)
		}
	}
	p.bar = newProgress(p.stderr, "eval", int64(total))
	p.groups = make([][]eval.Perplexity, len(p.segments), len(p.segments)+1)
	if len(p.segments) > 1 {
		p.groups = append(p.groups, nil)
	}
	return nil
}

// finished looks in the file of --resume for the result of a setting and a segment.
func (p *perplexities) finished(s eval.Setting, seg *eval.Segment) (found eval.Perplexity, ok bool) {
	if p.log == nil {
		return found, false
	}
	for _, r := range p.log.Perplexity {
		if r.Complete && r.Setting == s && r.Segments == 1 && r.TextHash == seg.Hash && r.Offset == seg.Offset && r.Tokens == len(seg.Tokens) &&
			r.BOS == seg.BOS && (r.KL != nil || !p.kl) {
			found, ok = r, true
		}
	}
	return found, ok
}

// judge evaluates one setting after the other. It stops quietly when ctx ends.
func (p *perplexities) judge(ctx context.Context, settings []h2o.Settings) error {
	defer p.bar.done()
	for i, kv := range settings {
		p.bar.describe(fmt.Sprintf("%s %s, %d of %d", kv.Policy, kv.Budget, i+1, len(settings)))
		if err := p.judgeOne(ctx, kv); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// judgeOne reads all segments under one setting.
func (p *perplexities) judgeOne(ctx context.Context, kv h2o.Settings) error {
	var results []eval.Perplexity
	for i, seg := range p.segments {
		plan, err := eval.StreamPlan(p.model, kv, len(seg.Tokens))
		if err != nil {
			return err
		}
		r, found := p.finished(eval.SettingOf(plan), seg)
		if !found {
			if ctx.Err() != nil {
				break
			}
			if r, err = p.read(ctx, kv, seg); err != nil && ctx.Err() == nil {
				return room(err, plan, p.device)
			}
			if r.Tokens == 0 { // interrupted before there was anything to tell
				break
			}
		}
		if err := p.emit(r, !found && r.Complete); err != nil {
			return err
		}
		results = append(results, r)
		p.groups[i] = append(p.groups[i], r)
	}
	if len(p.segments) == 1 || len(results) == 0 {
		return nil
	}
	all := eval.Combine(results, len(p.segments))
	last := len(p.groups) - 1
	p.groups[last] = append(p.groups[last], all)
	return p.emit(all, false)
}

// read streams a segment through a cache of its own.
func (p *perplexities) read(ctx context.Context, kv h2o.Settings, seg *eval.Segment) (eval.Perplexity, error) {
	s, err := eval.OpenStream(ctx, p.model, kv, len(seg.Tokens), p.kl)
	if err != nil {
		return eval.Perplexity{}, err
	}
	defer s.Close()
	before := p.done
	r, err := s.Read(ctx, seg, func(done int) {
		p.done = before + done
		p.bar.set(int64(p.done))
	})
	r.Model, r.ModelHash, r.Device = p.name, p.hash, p.device.Info.Name
	return r, err
}
