package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"vkdecode/eval"
	"vkdecode/eval/report"
)

// needleFlags are the flags of eval needle beside those of every evaluation.
type needleFlags struct {
	evalFlags
	text     string
	contexts []int
	depths   []float64
	needles  int
	seed     uint64
	control  bool

	results []eval.Recall
}

func newEvalNeedle() *cobra.Command {
	f := &needleFlags{}
	cmd := &cobra.Command{
		Use:   "needle MODEL --text FILE",
		Short: "recall of sentences hidden in a text, by policy and budget",
		Long: `Tell how many sentences hidden in a text a model finds again under each policy and
budget.

A needle tells the number of a thing. It is hidden between two sentences of the text,
at a depth from 0, before everything, to 1, just before the question. When the text
has been read and the cache cut down to its budget, the question is put. A needle is
found if greedy decoding would give its number. Every policy gets the same prompts,
and --seed gives others.

--contexts are the tokens of text, needle and question; a budget in percent is of
them and the answer. FILE is a text, a WikiText file or a folder of *.txt files.
Without --kv, full is compared with the configured policy: what it does not find, the
model cannot find. --control leaves the needles out. Ctrl-C prints what there is and
exits with 130; with --resume the same command goes on from there.`,
		Example: `  vkdecode eval needle model.gguf --text book.txt
  vkdecode eval needle model.gguf --text book.txt --contexts 1024,4096 --kv full,h2o,streaming,window --budget 10%,20%
  vkdecode eval needle model.gguf --text book.txt --depths 0,0.5,1 --needles 20 --csv recall.csv --resume recall.jsonl
  vkdecode eval needle model.gguf --text book.txt --control`,
		Args: cobra.ExactArgs(1),
	}
	f.bind(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.text, "text", "", "hide the needles in the text of `FILE`")
	flags.IntSliceVar(&f.contexts, "contexts", []int{512, 1024, 2048}, "tokens of a prompt; several separated by commas")
	flags.Float64SliceVar(&f.depths, "depths", []float64{0, 0.25, 0.5, 0.75, 1}, "where the needle is, from 0 to 1; several separated by commas")
	flags.IntVar(&f.needles, "needles", 5, "hide `N` needles, one at a time, at each depth")
	flags.Uint64Var(&f.seed, "seed", 1, "`SEED` that draws the needles and what of the text is taken")
	flags.BoolVar(&f.control, "control", false, "leave the needles out: what is found then is found by chance")
	cmd.MarkFlagsOneRequired("text")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) }
	return cmd
}

// run is the command: read, load, evaluate, report; the report also when ctx ends before, or something fails.
func (f *needleFlags) run(cmd *cobra.Command, path string) (err error) {
	c, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	settings, err := c.compared(cmd)
	if err != nil {
		return err
	}
	text, err := eval.ReadWhole(f.text)
	if err != nil {
		return err
	}
	e, err := f.open(cmd, c, path, map[string][]string{text.Name: {text.Hash}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	s, err := e.subject()
	if err != nil {
		return err
	}
	search, err := eval.NewSearch(s, eval.NeedleOptions{Model: e.name, ModelHash: e.hash, Device: e.device.Info.Name, Text: text,
		Settings: settings, Contexts: f.contexts, Depths: f.depths, Needles: f.needles, Seed: f.seed, Control: f.control,
		Known: func(blank eval.Recall) (eval.Recall, bool) { return f.known(e, blank) }, Progress: e.count})
	if err != nil {
		return usageError{err}
	}
	e.noteLength(e.stderr, slices.Max(f.contexts))
	e.bar = newProgress(e.stderr, "needles", 0)
	err = search.Judge(cmd.Context(), func(r eval.Recall, known bool) error {
		f.results = append(f.results, r)
		return e.emit(r, !known && r.Complete)
	})
	e.bar.done()
	if lost := f.report(e); err == nil {
		err = lost
	}
	return err
}

// known looks in the file of --resume.
func (f *needleFlags) known(e *evaluation, blank eval.Recall) (eval.Recall, bool) {
	if e.log == nil {
		return blank, false
	}
	for _, r := range e.log.Recall {
		same := r
		same.Device, same.Model, same.Text = blank.Device, blank.Model, blank.Text // the hashes tell
		same.Needles, same.Found, same.LogProb, same.BytesHeld, same.Complete = 0, 0, 0, 0, false
		if r.Complete && r.Needles == f.needles && same == blank {
			return r, true
		}
	}
	return blank, false
}

// report prints the table, unless JSON was printed as it came, and completes the files of --csv and --report.
func (f *needleFlags) report(e *evaluation) error {
	err := errors.Join(writeCSV(e, f.results), e.writePage(report.Results{Recall: f.results}))
	if len(f.results) == 0 || f.json {
		return err
	}
	r := f.results[0]
	what := "needles"
	if r.Control {
		what = "needles that are not there"
	}
	fmt.Fprintf(e.stdout, "%s on %s; K and V in %s, chunks of %d%s\n%d %s for each depth, seed %d, hidden in %s:\n%q\n\n", r.Model, r.Device, r.KVType, r.Chunk, inPrecision(r.Precision), f.needles, what, r.Seed, r.Text, r.Template)
	if failed := recallTable(f.results).print(e.stdout, f.markdown); err == nil {
		err = failed
	}
	return err
}

// recallTable has a row for each setting and context and a column for each depth.
func recallTable(results []eval.Recall) *table {
	t := &table{left: 2, header: []string{"policy", "budget", "slots", "context"}}
	var depths []float64
	for _, r := range results {
		if !slices.Contains(depths, r.Depth) {
			depths = append(depths, r.Depth)
			t.header = append(t.header, fmt.Sprintf("at %g", r.Depth))
		}
	}
	t.header = append(t.header, "found", "log p", "K and V")
	for len(results) > 0 {
		first := results[0]
		n := slices.IndexFunc(results, func(r eval.Recall) bool { return r.Setting != first.Setting || r.Context != first.Context })
		if n < 0 {
			n = len(results)
		}
		row := []string{first.Policy, first.Budget, fmt.Sprint(first.BudgetSlots), fmt.Sprint(first.Context)}
		var found, needles int
		logProb := 0.0
		for _, r := range results[:n] {
			row = append(row, fmt.Sprintf("%d/%d", r.Found, r.Needles))
			found, needles = found+r.Found, needles+r.Needles
			logProb += r.LogProb * float64(r.Needles)
			if !r.Complete {
				t.notes = append(t.notes, fmt.Sprintf("%s %s was interrupted at context %d, depth %g, after %d needles.", r.Policy, r.Budget, r.Context, r.Depth, r.Needles))
			}
		}
		for range len(depths) - n { // interrupted before
			row = append(row, "-")
		}
		t.add(append(row, fmt.Sprintf("%.0f%%", 100*float64(found)/float64(needles)), fmt.Sprintf("%.2f", logProb/float64(needles)), binarySize(first.BytesHeld))...)
		results = results[n:]
	}
	return t
}
