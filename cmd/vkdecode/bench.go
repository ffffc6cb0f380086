package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vkdecode/bench"
	"vkdecode/eval"
	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/runtime"
)

// benchFlags are the flags of bench that are not settings.
type benchFlags struct {
	bench.Options
	json, markdown bool
	tune           bool // measure how products are best launched, and nothing else
	csv, compare   string
}

// mostDepth keeps positions and the table of rotations within what a session can be opened for.
const mostDepth = 1 << 24

func newBench() *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use:   "bench MODEL",
		Short: "measure speed by policy, depth and rows",
		Long: `Measure how fast a model runs on the device: prompts and decoding, under each policy
and budget, at each depth of the context.

MODEL is a GGUF file, builtin: or synthetic:SHAPE:TYPE, such as synthetic:llama-7b:q4_0:
a model of that shape with random weights, made on the device, so that a card can be
measured without a file. A cache at --depth is filled with made-up tokens, as if so
many had been seen under the policy: it takes no time to get there. A budget in
percent is of the depth and what is processed after it.

The device's memory is measured first. Every figure is the median of --repeat
measurements after a warm-up, in turns between the policies; ± is half the distance
from the slowest to the quickest. --rows R decodes R sequences beside each other, a
token of each in a step: they share the weights, and each has a cache of its own. The
share of scoring and eviction is measured by timestamps in steps of their own. Without
--kv, full is compared with the configured policy. Ctrl-C prints what there is and
exits with 130.

--tune measures something else: every way to launch this model's matrix products, in
every form of the kernels that the device can run and "vkdecode doctor" has seen
compute right. What wins is kept in the user's cache folder and used by later runs on
the device, for every model with matrices of the same type and shape. A way must be 5 %
quicker than the one that the program takes for the kind of device, and no slower in
prompts.`,
		Example: `  vkdecode bench model.gguf
  vkdecode bench model.gguf --depth 0,4096,32768 --kv full,h2o --budget 20%
  vkdecode bench model.gguf --rows 1,4,8,16 --prompt 0 -n 128
  vkdecode bench model.gguf --tune
  vkdecode bench synthetic:llama-7b:q4_0 --depth 32768 --json > card.json
  vkdecode bench synthetic:llama-7b:q4_0 --depth 32768 --compare card.json`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return benchModels(begun), cobra.ShellCompDirectiveDefault
		},
	}
	bindSettings(cmd, "device", "kv.policy", "kv.prefill_policy", "kv.prefill", "kv.budget", "kv.recent_ratio", "kv.sinks", "kv.type", "kv.positions", "kv.chunk", "kv.layers")
	flags := cmd.Flags()
	flags.IntSliceVar(&f.Depths, "depth", []int{0, 4096}, "`TOKENS` in the cache before; several separated by commas")
	flags.IntSliceVar(&f.Rows, "rows", []int{1}, "`ROWS` in a step of decoding, each of a sequence of its own; several separated by commas")
	flags.IntVar(&f.Prompt, "prompt", 512, "`TOKENS` of the prompt; 0 measures none")
	flags.IntVarP(&f.Tokens, "tokens", "n", 64, "`TOKENS` of each sequence to decode in a measurement; 0 measures none")
	flags.IntVar(&f.Repeats, "repeat", 5, "measurements of each figure")
	flags.BoolVar(&f.json, "json", false, "print one JSON object per result, each on a line, as they come")
	flags.BoolVar(&f.markdown, "markdown", false, "print the table as Markdown")
	flags.StringVar(&f.csv, "csv", "", "write the results to `FILE` as comma-separated values")
	flags.StringVar(&f.compare, "compare", "", "tell the ratios to the results in `FILE`, which --json of an earlier run has printed")
	flags.BoolVar(&f.tune, "tune", false, "measure how this model's products are best launched on the device, and keep that for later runs")
	cmd.MarkFlagsMutuallyExclusive("json", "markdown")
	for _, other := range []string{"depth", "rows", "prompt", "tokens", "repeat", "csv", "compare"} {
		cmd.MarkFlagsMutuallyExclusive("tune", other)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) }
	return cmd
}

// benchModels are the models without a file that begin so.
func benchModels(begun string) (words []string) {
	for _, w := range append([]string{builtinName}, syntheticNames()...) {
		if strings.HasPrefix(w, begun) {
			words = append(words, w)
		}
	}
	return words
}

// check refuses what cannot be meant.
func (f *benchFlags) check() error {
	each := func(flag string, values []int, least, most int) error {
		for i, v := range values {
			switch {
			case v < least || v > most:
				return usagef("bench: --%s %d, want %d to %d", flag, v, least, most)
			case slices.Contains(values[:i], v):
				return usagef("bench: --%s %d is given twice", flag, v)
			}
		}
		if len(values) == 0 {
			return usagef("bench: --%s is empty, want numbers separated by commas", flag)
		}
		return nil
	}
	return cmp.Or(each("depth", f.Depths, 0, mostDepth), each("rows", f.Rows, 1, runtime.StepSeqs), each("prompt", []int{f.Prompt}, 0, mostDepth),
		each("tokens", []int{f.Tokens}, 0, mostDepth), each("repeat", []int{f.Repeats}, 1, 1000), f.something())
}

func (f *benchFlags) something() error {
	if f.Prompt == 0 && f.Tokens == 0 {
		return usagef("bench: --prompt 0 and -n 0: nothing is left to measure")
	}
	return nil
}

// run is the command: load, measure, report; the report also when ctx ends before.
func (f *benchFlags) run(cmd *cobra.Command, path string) (err error) {
	c, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	if f.Settings, err = c.compared(cmd); err != nil {
		return err
	}
	if f.tune {
		return f.runTune(cmd, c, path)
	}
	r := &benchReport{benchFlags: f, stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr()}
	if f.compare != "" {
		if r.older, err = bench.ReadOlder(f.compare); err != nil {
			return err
		}
	}
	var file *partialFile
	if f.csv != "" {
		if file, err = createPartial(f.csv); err != nil {
			return fmt.Errorf("bench: CSV: %w", err)
		}
		defer file.Discard()
	}
	ctx, verbose := cmd.Context(), 0
	verbose, _ = cmd.Flags().GetCount("verbose")
	l, err := f.open(ctx, c, path, verbose, r.stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	defer l.savePipelineCache(verbose, r.stderr)
	err = f.measure(ctx, l, path, r)
	if errors.Is(err, context.Canceled) {
		err = nil // what there is stands
	}
	if lost := r.print(); err == nil {
		err = lost
	}
	if file != nil && err == nil {
		if err = eval.WriteCSV(file, r.results); err == nil {
			err = file.Complete()
		}
		if err != nil {
			err = fmt.Errorf("bench: CSV: %w", err)
		}
	}
	return err
}

// open opens the device and makes or loads the model, after a look at what there is room for.
func (f *benchFlags) open(ctx context.Context, c *configuration, path string, verbose int, stderr io.Writer) (_ *loaded, err error) {
	name, made := strings.CutPrefix(path, syntheticName)
	if !made {
		l, err := openModel(ctx, c, path, verbose, stderr)
		if err != nil {
			return nil, err
		}
		if err := f.fits(l, l.model.Geometry(), 0); err != nil {
			return nil, errors.Join(err, l.close())
		}
		return l, nil
	}
	shape, err := model.ParseShape(name)
	if err != nil {
		return nil, usageError{err}
	}
	l, err := openDevice(ctx, c, verbose, stderr)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	outline, err := shape.Outline()
	if err != nil {
		return nil, err
	}
	if err := l.tune(outline, verbose, stderr); err != nil {
		return nil, err
	}
	synthetic, err := model.NewSynthetic(l.engine, shape)
	if err != nil {
		return nil, err
	}
	if err := f.fits(l, synthetic.Geometry(), synthetic.OwnBytes()); err != nil {
		return nil, err
	}
	bar := newProgress(stderr, "make", 0)
	defer bar.done()
	l.model, err = synthetic.Build(func(done, total int64) error {
		bar.of(done, total)
		return ctx.Err()
	})
	if err == nil {
		bar.done()
		l.tell(stderr)
	}
	return l, err
}

// fits checks all plans, and that weights which are still to be made and the largest cache have room on the device.
func (f *benchFlags) fits(l *loaded, g h2o.Geometry, weights int64) error {
	if err := f.Check(g); err != nil {
		return usageError{err}
	}
	plan, bytes, err := f.Largest(g)
	if err != nil {
		return usageError{err}
	}
	free, told := l.engine.Free()
	if !told || weights+bytes <= free {
		return nil
	}
	advice := "choose another --device"
	if weights <= free {
		advice = "lower --depth, --budget or --rows, or " + advice
	} else {
		advice = "choose a smaller model or " + advice
	}
	return fmt.Errorf("bench: %s of weights to make and %s of K and V for --kv %s over %d tokens are %s, and %s has %s free: %s", binarySize(weights), binarySize(bytes), plan.Settings.Policy, plan.Length,
		binarySize(weights+bytes), l.device.Info.Name, binarySize(free), advice)
}

// measure measures the device's memory, then everything else.
func (f *benchFlags) measure(ctx context.Context, l *loaded, path string, r *benchReport) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	bandwidth, err := bench.MeasureBandwidth(ctx, l.engine)
	if err != nil {
		return err
	}
	r.begin(l.device.Info, filepath.Base(path), bandwidth)
	if strings.HasPrefix(path, syntheticName) {
		r.name = path
	}
	bar := newProgress(r.stderr, "bench", 0)
	defer bar.done()
	b := &bench.Bench{Options: f.Options, Name: r.name, Model: l.model, Engine: l.engine, Bandwidth: bandwidth, Meter: bench.NewMeter("/sys", l.device.Info),
		Emit: func(result bench.Result) error { return r.take(result, bar) },
		Progress: func(what string, done, all int) {
			bar.describe(what)
			bar.of(int64(done), int64(all))
		}}
	return b.Run(ctx)
}

// printLine prints a result as JSON.
func printLine(w io.Writer, v any) error {
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	return lines.Encode(v)
}
