package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"vkdecode/eval"
	"vkdecode/eval/data"
	"vkdecode/eval/report"
)

// qaFlags are the flags of eval qa beside those of every evaluation.
type qaFlags struct {
	evalFlags
	data, context        string
	tokens, shots, limit int
	mode                 string
	ahead                bool
	seed                 uint64

	results []eval.Accuracy
}

func newEvalQA() *cobra.Command {
	f := &qaFlags{}
	cmd := &cobra.Command{
		Use:   "qa MODEL --data FILE",
		Short: "accuracy at multiple-choice questions by policy and budget",
		Long: `Tell how many multiple-choice questions a model answers rightly under each policy and
budget. Its answer is the option of largest log-probability: by the sum over the
option's tokens, and by that sum per byte.

FILE holds questions as they are published: ` + formats() + `.
The form is told from the content. Rows that cannot be read are left out and named by
their line. Where the data has the right option first, --seed shuffles the options.

--context puts a text before each question, so that there is something to evict: its
first --context-tokens. It is read, with the examples of --shots, and the cache cut
down to its budget, before the question begins. --passage-first puts a question's own
passage before that text, so that it must be kept to be of use. --mode letter shows
the options with letters and judges the letters; --mode text shows none and judges
each option as the answer. A budget in percent is of the longest prompt.

Without --kv, full is compared with the configured policy. Ctrl-C prints what there is
and exits with 130; with --resume the same command goes on from there.`,
		Example: `  vkdecode eval qa model.gguf --data test.json
  vkdecode eval qa model.gguf --data test.jsonl --mode letter --shots 5 --limit 200
  vkdecode eval qa model.gguf --data sciq/test.json --context book.txt --context-tokens 2000 --passage-first --kv full,h2o,streaming,window
  vkdecode eval qa model.gguf --data instances.json --csv accuracy.csv --resume accuracy.jsonl`,
		Args: cobra.ExactArgs(1),
	}
	f.bind(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.data, "data", "", "ask the questions of `FILE`")
	flags.StringVar(&f.context, "context", "", "put the text of `FILE` before each question")
	flags.IntVar(&f.tokens, "context-tokens", 1024, "so many `TOKENS` of the context")
	flags.StringVar(&f.mode, "mode", string(eval.ByText), "what is judged of an option: text or letter")
	flags.BoolVar(&f.ahead, "passage-first", false, "put a question's passage before the context, not behind it")
	flags.IntVar(&f.shots, "shots", 0, "put `N` questions with their answers before each question")
	flags.IntVar(&f.limit, "limit", 0, "ask the first `N` questions; 0 asks all")
	flags.Uint64Var(&f.seed, "seed", 1, "`SEED` that shuffles options, where the right one comes first")
	cmd.MarkFlagsOneRequired("data")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) }
	return cmd
}

// formats lists the forms of questions, for the help.
func formats() string {
	text := ""
	for i, f := range data.Formats {
		if i > 0 && data.Formats[i-1].Name == f.Name {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += f.Name
	}
	return text
}

// run is the command: read, load, evaluate, report; the report also when ctx ends before, or something fails.
func (f *qaFlags) run(cmd *cobra.Command, path string) (err error) {
	c, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	settings, err := c.compared(cmd)
	if err != nil {
		return err
	}
	if f.tokens < 1 {
		return usagef("eval: --context-tokens %d, want at least 1", f.tokens)
	}
	set, err := data.Questions(f.data)
	if err != nil {
		return fmt.Errorf("eval: %w", err)
	}
	o := eval.QAOptions{Data: set, Settings: settings, Mode: eval.Mode(f.mode), PassageAhead: f.ahead, Shots: f.shots, Limit: f.limit, Seed: f.seed}
	if f.context != "" {
		if o.Context, err = eval.ReadWhole(f.context); err != nil {
			return err
		}
		o.ContextTokens = f.tokens
	}
	e, err := f.open(cmd, c, path, map[string][]string{set.Name: {set.Hash}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	s, err := e.subject()
	if err != nil {
		return err
	}
	o.Model, o.ModelHash, o.Device, o.Progress = e.name, e.hash, e.device.Info.Name, e.count
	var exam *eval.Exam
	o.Known = func(blank eval.Accuracy) (eval.Accuracy, bool) { return known(e, blank, exam.Questions()) }
	if exam, err = eval.NewExam(s, o); err != nil {
		return usageError{err}
	}
	f.announce(e, exam)
	e.bar = newProgress(e.stderr, "questions", 0)
	err = exam.Judge(cmd.Context(), func(r eval.Accuracy, known bool) error {
		f.results = append(f.results, r)
		return e.emit(r, !known && r.Complete)
	})
	e.bar.done()
	if lost := f.report(e); err == nil {
		err = lost
	}
	return err
}

// announce says what was made of the file and the flags.
func (f *qaFlags) announce(e *evaluation, exam *eval.Exam) {
	set := exam.Data
	fmt.Fprintf(e.stderr, "%s is read as %s, questions: %d, asked: %d", set.Name, set.Format, len(set.Questions), exam.Questions())
	if n := len(set.Examples); n > 0 {
		fmt.Fprintf(e.stderr, ", examples: %d", n)
	}
	fmt.Fprintln(e.stderr)
	for _, bad := range set.Bad {
		fmt.Fprintf(e.stderr, "note: left out: %v\n", bad)
	}
	if more := set.Left - len(set.Bad); more > 0 {
		fmt.Fprintf(e.stderr, "note: left out: %d more rows\n", more)
	}
	e.noteLength(e.stderr, exam.Tokens())
	for _, kv := range exam.Settings {
		if exam.Spared(kv) {
			fmt.Fprintf(e.stderr, "note: %s %s evicts nothing before an answer is judged: its figures are those of full; give a --context or lower --chunk\n", kv.Policy, kv.Budget)
		}
	}
}

// known looks in the file of --resume.
func known(e *evaluation, blank eval.Accuracy, questions int) (eval.Accuracy, bool) {
	if e.log == nil {
		return blank, false
	}
	for _, r := range e.log.Accuracy {
		same := r
		same.Device, same.Model, same.Data = blank.Device, blank.Model, blank.Data // the hashes tell
		same.Questions, same.Correct, same.CorrectNormalized, same.Accuracy, same.Low, same.High = 0, 0, 0, 0, 0, 0
		same.BytesHeld, same.Complete = 0, false
		if r.Complete && r.Questions == questions && same == blank {
			return r, true
		}
	}
	return blank, false
}

// report prints the table, unless JSON was printed as it came, and completes the files of --csv and --report.
func (f *qaFlags) report(e *evaluation) error {
	err := errors.Join(writeCSV(e, f.results), e.writePage(report.Results{Accuracy: f.results}))
	if len(f.results) == 0 || f.json {
		return err
	}
	r := f.results[0]
	fmt.Fprintf(e.stdout, "%s on %s; K and V in %s, chunks of %d%s\n%s read as %s, %d examples, %d tokens before a question", r.Model, r.Device, r.KVType, r.Chunk, inPrecision(r.Precision), r.Data, r.Format, r.Shots, r.Context)
	if r.ContextText != "" {
		fmt.Fprintf(e.stdout, ", of %s", r.ContextText)
	}
	fmt.Fprintf(e.stdout, ":\n%q\n\n", r.Template)
	if failed := accuracyTable(f.results).print(e.stdout, f.markdown); err == nil {
		err = failed
	}
	return err
}

// accuracyTable has a row for each setting.
func accuracyTable(results []eval.Accuracy) *table {
	t := &table{left: 2, header: []string{"policy", "budget", "slots", "questions", "right", "accuracy", "95% interval", "per byte", "K and V"}}
	percent := func(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }
	for _, r := range results {
		t.add(r.Policy, r.Budget, fmt.Sprint(r.BudgetSlots), fmt.Sprint(r.Questions), fmt.Sprint(r.Correct), percent(r.Accuracy), percent(r.Low)+" to "+percent(r.High),
			percent(float64(r.CorrectNormalized)/float64(r.Questions)), binarySize(r.BytesHeld))
		if !r.Complete {
			t.notes = append(t.notes, fmt.Sprintf("%s %s was interrupted: its figures are of the first %d questions.", r.Policy, r.Budget, r.Questions))
		}
	}
	return t
}
