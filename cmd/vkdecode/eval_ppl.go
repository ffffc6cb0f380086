package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"vkdecode/eval"
	"vkdecode/h2o"
	"vkdecode/vk"
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
is of --tokens. --chunk 1 evicts after every token, as decoding does; settings are then
streamed side by side, up to eight at once, each through its own cache. Larger chunks
are faster and evict after each chunk.

Without --kv, full is compared with the configured policy. --kl also streams the
text through a full cache beside the policies and tells how far the foretellings
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
			if _, found := p.finished(eval.SettingOf(plan, p.model.Precision), seg); !found {
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

// mostTogether are the rows of steps that are taken together, at most: matrix products take that many well, and all their
// caches are held at once.
const mostTogether = 8

// judge evaluates the settings in their order, those that can go together side by side. It stops quietly when ctx ends.
func (p *perplexities) judge(ctx context.Context, settings []h2o.Settings) error {
	defer p.bar.done()
	most := mostTogether
	if p.kl {
		most-- // the full cache has a row, too
	}
	for first := 0; first < len(settings); {
		n := 1
		for together := p.together(settings[first]); together && n < most && first+n < len(settings) && p.together(settings[first+n]); {
			n++
		}
		p.describe(settings[first:first+n], first, len(settings))
		if err := p.judgeGroup(ctx, settings[first:first+n]); err != nil || ctx.Err() != nil {
			return err
		}
		first += n
	}
	return nil
}

// together tells whether a setting can be streamed beside others, whatever the segment.
func (p *perplexities) together(kv h2o.Settings) bool {
	return !slices.ContainsFunc(p.segments, func(seg *eval.Segment) bool {
		plan, err := eval.StreamPlan(p.model, kv, len(seg.Tokens))
		return err != nil || !plan.Stepwise()
	})
}

// describe says on the bar which settings are under way.
func (p *perplexities) describe(group []h2o.Settings, first, of int) {
	what := fmt.Sprintf("%s %s, %d", group[0].Policy, group[0].Budget, first+1)
	if last := len(group) - 1; last > 0 {
		what = fmt.Sprintf("%s %s to %s %s, %d to %d", group[0].Policy, group[0].Budget, group[last].Policy, group[last].Budget, first+1, first+1+last)
	}
	p.bar.describe(fmt.Sprintf("%s of %d", what, of))
}

// judgeGroup reads all segments under settings that go together.
func (p *perplexities) judgeGroup(ctx context.Context, group []h2o.Settings) error {
	results := make([][]eval.Perplexity, len(group)) // by setting
	for i, seg := range p.segments {
		all, kept, err := p.judgeSegment(ctx, group, seg)
		if err != nil {
			return err
		}
		for n, r := range all {
			if r.Tokens == 0 { // interrupted before there was anything to tell
				continue
			}
			if err := p.emit(r, !kept[n] && r.Complete); err != nil {
				return err
			}
			results[n] = append(results[n], r)
			p.groups[i] = append(p.groups[i], r)
		}
	}
	if len(p.segments) == 1 {
		return nil
	}
	last := len(p.groups) - 1
	for _, of := range results {
		if len(of) == 0 {
			continue
		}
		all := eval.Combine(of, len(p.segments))
		p.groups[last] = append(p.groups[last], all)
		if err := p.emit(all, false); err != nil {
			return err
		}
	}
	return nil
}

// judgeSegment reads a segment under settings that go together, but for those whose results were kept.
func (p *perplexities) judgeSegment(ctx context.Context, group []h2o.Settings, seg *eval.Segment) (all []eval.Perplexity, kept []bool, err error) {
	all, kept = make([]eval.Perplexity, len(group)), make([]bool, len(group))
	var open []h2o.Settings
	var places []int // of those in the group
	for n, kv := range group {
		plan, err := eval.StreamPlan(p.model, kv, len(seg.Tokens))
		if err != nil {
			return nil, nil, err
		}
		if all[n], kept[n] = p.finished(eval.SettingOf(plan, p.model.Precision), seg); !kept[n] {
			open, places = append(open, kv), append(places, n)
		}
	}
	if len(open) == 0 || ctx.Err() != nil {
		return all, kept, nil
	}
	read, err := p.read(ctx, open, seg)
	if err != nil && ctx.Err() == nil {
		return nil, nil, err
	}
	for i, r := range read {
		all[places[i]] = r
	}
	return all, kept, nil
}

// read streams a segment through caches of its own, side by side where there is room for all of them.
func (p *perplexities) read(ctx context.Context, settings []h2o.Settings, seg *eval.Segment) ([]eval.Perplexity, error) {
	s, err := eval.OpenStreams(ctx, p.model, settings, len(seg.Tokens), p.kl)
	var full *vk.OutOfMemoryError
	if half := len(settings) / 2; half > 0 && errors.As(err, &full) {
		first, err := p.read(ctx, settings[:half], seg)
		if err != nil {
			return first, err
		}
		rest, err := p.read(ctx, settings[half:], seg)
		return append(first, rest...), err
	}
	if err != nil {
		plan, failed := eval.StreamPlan(p.model, settings[0], len(seg.Tokens))
		if failed != nil {
			return nil, failed
		}
		return nil, room(err, plan, p.device)
	}
	defer s.Close()
	before := p.done
	read, err := s.Read(ctx, seg, func(done int) {
		p.done = before + done
		p.bar.set(int64(p.done))
	})
	for i := range read {
		read[i].Model, read[i].ModelHash, read[i].Device = p.name, p.hash, p.device.Info.Name
	}
	return read, err
}
