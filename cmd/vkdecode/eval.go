package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vkdecode/eval"
	"vkdecode/eval/report"
	"vkdecode/h2o"
	"vkdecode/model/builtin"
)

func newEval() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "judge KV policies side by side",
		Long: `Judge KV policies side by side on texts of your own.

Where a command takes several policies and budgets, it evaluates every policy with
every budget; a policy that evicts nothing is evaluated once.`,
		Example: `  vkdecode eval ppl model.gguf --text book.txt --kv full,h2o,streaming --budget 10%,20%
  vkdecode eval needle model.gguf --text book.txt --contexts 1024,4096
  vkdecode eval qa model.gguf --data sciq/test.json --context book.txt --context-tokens 2000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }, // without it a wrong name is no error
	}
	cmd.AddCommand(newEvalPerplexity(), newEvalNeedle(), newEvalQA())
	return cmd
}

// evalFlags are the flags of every evaluation that are not settings.
type evalFlags struct {
	json, markdown bool
	csv, resume    string
	page           string // folder of --report
}

// bind gives cmd these flags and the settings of the cache. The context is the evaluation's own business.
func (f *evalFlags) bind(cmd *cobra.Command) {
	bindSettings(cmd, "device", "kv.policy", "kv.prefill_policy", "kv.prefill", "kv.budget", "kv.recent_ratio", "kv.sinks", "kv.type", "kv.positions", "kv.chunk", "kv.layers")
	flags := cmd.Flags()
	flags.BoolVar(&f.json, "json", false, "print one JSON object per result, each on a line, as they come")
	flags.BoolVar(&f.markdown, "markdown", false, "print the tables as Markdown")
	flags.StringVar(&f.csv, "csv", "", "write the results to `FILE` as comma-separated values")
	flags.StringVar(&f.resume, "resume", "", "keep the results in `FILE`, one JSON object per line; what is finished there is not run again")
	flags.StringVar(&f.page, "report", "", "write a page of tables and plots to "+report.File+" in the folder `DIR`")
	cmd.MarkFlagsMutuallyExclusive("json", "markdown")
}

// compared are the cache settings to compare: full too, beside the configured policies, unless --kv says which.
func (c *configuration) compared(cmd *cobra.Command) ([]h2o.Settings, error) {
	policies := c.KV.Policies
	if !cmd.Flags().Changed("kv") {
		full, err := h2o.ParseSpec("full")
		if err != nil {
			return nil, err
		}
		policies = append([]h2o.Spec{full}, policies...)
	}
	base := c.cache(h2o.Spec{}, h2o.Budget{})
	all, err := eval.Settings(base, policies, c.KV.Budgets)
	if err != nil {
		return nil, usageError{err}
	}
	return all, nil
}

// evaluation is a model under judgement and where the results go.
type evaluation struct {
	*loaded
	evalFlags
	stdout, stderr io.Writer
	verbose        int

	name, hash string       // of the model's file, and its SHA-256
	csv        *partialFile // nil without
	log        *eval.Log    // of --resume, nil without
	bar        *progress
}

// open opens the files, the device and the model. texts are the hashes of the texts by name, for --resume.
func (f evalFlags) open(cmd *cobra.Command, c *configuration, path string, texts map[string][]string) (_ *evaluation, err error) {
	e := &evaluation{evalFlags: f, stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), name: filepath.Base(path), bar: &progress{}}
	e.verbose, _ = cmd.Flags().GetCount("verbose")
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	if e.hash, err = hashModel(cmd.Context(), path); err != nil {
		return nil, err
	}
	if f.csv != "" {
		if e.csv, err = createPartial(f.csv); err != nil {
			return nil, fmt.Errorf("eval: CSV: %w", err)
		}
	}
	if f.resume != "" {
		if e.log, err = eval.OpenLog(f.resume); err != nil {
			return nil, err
		}
		if err := e.log.Check(e.hash, texts); err != nil {
			return nil, err
		}
	}
	l, err := openModel(cmd.Context(), c, path, e.verbose, e.stderr)
	if err != nil {
		return nil, err
	}
	e.loaded = l
	return e, nil
}

// hashModel is the SHA-256 of a model's file.
func hashModel(ctx context.Context, path string) (string, error) {
	if path == builtinName {
		sum := sha256.Sum256(builtin.Model)
		return hex.EncodeToString(sum[:]), nil
	}
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("eval: %w", err)
	}
	defer file.Close()
	h := sha256.New()
	const piece = 64 << 20 // bytes between two looks at ctx
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if _, err := io.CopyN(h, file, piece); errors.Is(err, io.EOF) {
			return hex.EncodeToString(h.Sum(nil)), nil
		} else if err != nil {
			return "", fmt.Errorf("eval: %s: %w", path, err)
		}
	}
}

// emit takes a result that is ready: to the file of --resume, if it is new and whole, and out as JSON if that is wanted.
func (e *evaluation) emit(result any, keep bool) error {
	if keep && e.log != nil {
		if err := e.log.Append(result); err != nil {
			return err
		}
	}
	if !e.json {
		return nil
	}
	e.bar.clear()
	lines := json.NewEncoder(e.stdout)
	lines.SetEscapeHTML(false)
	return lines.Encode(result)
}

// writeCSV completes the file of --csv.
func writeCSV[T eval.Perplexity | eval.Recall | eval.Accuracy](e *evaluation, results []T) error {
	if e.csv == nil {
		return nil
	}
	if err := eval.WriteCSV(e.csv, results); err != nil {
		return err
	}
	if err := e.csv.Complete(); err != nil {
		return fmt.Errorf("eval: CSV: %w", err)
	}
	return nil
}

// writePage writes the page of --report, of what there is.
func (e *evaluation) writePage(r report.Results) error {
	if e.page == "" {
		return nil
	}
	r.Command, r.Version, r.When = strings.Join(append([]string{"vkdecode"}, os.Args[1:]...), " "), version(), time.Now()
	return report.Write(e.page, r)
}

// close frees everything. A file of --csv that is not complete does not appear.
func (e *evaluation) close() (err error) {
	if e.csv != nil {
		e.csv.Discard()
	}
	if e.log != nil {
		err = e.log.Close()
	}
	if e.loaded != nil {
		e.savePipelineCache(e.verbose, e.stderr)
		err = errors.Join(err, e.loaded.close())
	}
	return err
}
