package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"vkdecode/eval"
)

// passage is the text of War and Peace that the built-in model's reference is of: 1,500 tokens, with the negative log
// likelihoods of all but the first.
func passage(t *testing.T) (text string, nll []float64) {
	t.Helper()
	var r struct {
		Passage struct {
			IDs []int32
			NLL []byte // f32 in base64
		}
	}
	b, err := os.ReadFile("../../tests/testdata/builtin.json")
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	for b := r.Passage.NLL; len(b) > 0; b = b[4:] {
		nll = append(nll, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
	}
	return strings.ReplaceAll(pieces(t, r.Passage.IDs), "Ãª", "ê"), nll
}

// evaluated runs eval ppl on the built-in model and reads the lines of JSON.
func evaluated(t *testing.T, args ...string) []eval.Perplexity {
	t.Helper()
	got := vkdecode(t, append([]string{"eval", "ppl", builtinName, "--json"}, args...)...)
	got.want(t, exitOK)
	return readLines(t, got.stdout)
}

// readLines decodes lines of JSON that have every field of a result and no other.
func readLines(t *testing.T, lines string) (all []eval.Perplexity) {
	t.Helper()
	for line := range strings.Lines(lines) {
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		var p eval.Perplexity
		if err := d.Decode(&p); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"kind", "policy", "budget", "budget_slots", "kv_type", "positions", "chunk", "recent_ratio", "sinks", "model_hash", "text_hash", "model", "device", "text",
			"offset", "segments", "bos", "tokens", "ppl", "ppl_after_budget", "ppl_last_half", "buckets", "bytes_held", "bytes_full", "tps", "complete"} {
			if _, ok := fields[name]; !ok {
				t.Errorf("no field %q in %s", name, line)
			}
		}
		all = append(all, p)
	}
	return all
}

func names(results []eval.Perplexity) (all []string) {
	for _, r := range results {
		all = append(all, r.Policy+" "+r.Budget)
	}
	return all
}

func TestEvalFindsThePerplexityOfTheReference(t *testing.T) {
	text, nll := passage(t)
	const tokens = 400
	sum := 0.0
	for _, v := range nll[:tokens-1] {
		sum += v
	}
	want := math.Exp(sum / (tokens - 1))
	eachDriver(t, func(t *testing.T) {
		write(t, "book.txt", text)
		got := evaluated(t, "--text", "book.txt", "--tokens", "400", "--kv", "full", "--kv-type", "f32")
		if len(got) != 1 || !(math.Abs(got[0].PPL/want-1) <= 1e-5) {
			t.Fatalf("%+v, want a perplexity of %g", got, want)
		}
		r := got[0]
		if r.Kind != "ppl" || r.Model != builtinName || r.Device == "" || r.Text != "book.txt" || r.Tokens != tokens || !r.Complete || r.BOS || r.Segments != 1 || len(r.Buckets) != 8 || len(r.ModelHash) != 64 ||
			r.Setting != (eval.Setting{Policy: "full", Budget: "100%", BudgetSlots: tokens, KVType: "f32", Positions: "original", Chunk: 256}) || r.BytesHeld != 2*slotBytes*tokens || r.KL != nil {
			t.Errorf("%+v", r)
		}
	})
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestEvalComparesEverySettingOnEverySegment(t *testing.T) {
	text, _ := passage(t)
	onFirstDriver(t, map[string]string{"book.txt": text})
	args := []string{"--text", "book.txt", "--offset", "0,1000", "--tokens", "200", "--kv", "full,window", "--budget", "10%,32", "--chunk", "16", "--kl", "--csv", "r.csv"}
	got := evaluated(t, args...)
	if want := []string{"full 100%", "full 100%", "full 100%", "window 10%", "window 10%", "window 10%", "window 32", "window 32", "window 32"}; !slices.Equal(names(got), want) {
		t.Fatalf("results of %q, want %q", names(got), want)
	}
	for i := 0; i < len(got); i += 3 {
		one, two, both := got[i], got[i+1], got[i+2]
		if one.Offset != 0 || two.Offset != 1000 || both.Segments != 2 || both.Tokens != 400 || !both.Complete || one.KL == nil {
			t.Errorf("%+v\n%+v\n%+v", one, two, both)
		}
		if want := math.Sqrt(one.PPL * two.PPL); !(math.Abs(both.PPL/want-1) <= 1e-12) {
			t.Errorf("%s %s: together %g, want the geometric mean %g", one.Policy, one.Budget, both.PPL, want)
		}
		if evicts := one.Policy != "full"; (one.PPLAfterBudget != nil) != evicts || (*one.KL > 0) != evicts || one.BytesHeld < one.BytesFull != evicts {
			t.Errorf("%+v", one)
		}
	}
	if window := got[3]; window.BudgetSlots != 20 || window.Chunk != 16 || window.BytesHeld != 36*slotBytes || window.BytesFull != 200*slotBytes {
		t.Errorf("%+v", window)
	}
	if *got[3].KL <= *got[6].KL {
		t.Errorf("KL %g with 20 slots, %g with 32", *got[3].KL, *got[6].KL)
	}
	file, err := os.Open("r.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil || len(rows) != 10 {
		t.Errorf("%d lines of CSV, %v", len(rows), err)
	}
	noneLeft(t)

	// More texts may follow MODEL; a segment alone is what it is among others.
	write(t, "other.txt", text[1000:])
	texts := evaluated(t, "--text", "book.txt", "other.txt", "--offset", "1000", "--tokens", "200", "--kv", "full", "--chunk", "16")
	if len(texts) != 3 || texts[0].PPL != got[1].PPL || texts[0].Text != "book.txt" || texts[1].Text != "other.txt" || texts[1].PPL == got[1].PPL || texts[2].Text != "book.txt, other.txt" || texts[2].TextHash != "" {
		t.Errorf("%+v\nwith\n%+v", texts, got[1])
	}
}

func TestEvalPrintsTables(t *testing.T) {
	text, _ := passage(t)
	onFirstDriver(t, map[string]string{"book.txt": text})
	args := []string{"eval", "ppl", builtinName, "--text", "book.txt", "--offset", "0,1000", "--tokens", "100", "--budget", "10%", "--chunk", "8"}
	got := vkdecode(t, args...)
	got.want(t, exitOK)
	for _, part := range []string{"builtin: on ", "K and V in f16, chunks of 8, no BOS", "book.txt from byte 0, 100 tokens", "book.txt from byte 1000, 100 tokens", "book.txt: 2 segments together, 200 tokens",
		"policy  budget  slots", "vs full", "\nfull    100%      100", "\nh2o     10%        10", "perplexity by position", "  87 to 99\n"} {
		if !strings.Contains(got.stdout, part) {
			t.Errorf("%q is missing in:\n%s", part, got.stdout)
		}
	}
	if got.stderr != "" {
		t.Errorf("stderr %q", got.stderr)
	}
	vkdecode(t, append(args, "--chunk", "256")...).want(t, exitOK, "note: h2o 10% evicts nothing before the last token is foretold")
	got = vkdecode(t, append(args, "--markdown", "--kl")...)
	got.want(t, exitOK)
	for _, part := range []string{"| policy | budget | slots |", "|:-------|:-------|------:|", "|     KL |", "| full   | 100%   |"} {
		if !strings.Contains(got.stdout, part) {
			t.Errorf("%q is missing in:\n%s", part, got.stdout)
		}
	}
}

func TestEvalTakesBOSOnlyWhenAsked(t *testing.T) {
	text, _ := passage(t)
	onFirstDriver(t, map[string]string{"book.txt": text, "no-bos.gguf": variant(t, without("tokenizer.ggml.bos_token_id"), nil)})
	with := evaluated(t, "--text", "book.txt", "--tokens", "50", "--kv", "full", "--bos")[0]
	plain := evaluated(t, "--text", "book.txt", "--tokens", "49", "--kv", "full")[0]
	if !with.BOS || plain.BOS || with.Tokens != 50 || with.PPL == plain.PPL {
		t.Errorf("%+v\n%+v", with, plain)
	}
	vkdecode(t, "eval", "ppl", "no-bos.gguf", "--text", "book.txt", "--bos").want(t, exitUsage, "the model has no BOS token")
}

func TestEvalResumes(t *testing.T) {
	text, _ := passage(t)
	onFirstDriver(t, map[string]string{"book.txt": text, "other.gguf": variant(t, with("general.name", "other"), nil)})
	args := []string{"--text", "book.txt", "--offset", "0,1000", "--tokens", "100", "--chunk", "8", "--resume", "r.jsonl"}
	first := evaluated(t, append(args, "--kv", "full,h2o", "--budget", "10%")...)
	lines := func() []eval.Perplexity {
		b, err := os.ReadFile("r.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		return readLines(t, string(b))
	}
	if kept := lines(); len(kept) != 4 || len(first) != 6 { // what is combined can be combined again
		t.Fatalf("%d results kept, %d printed", len(kept), len(first))
	}

	// More of the same: what was there comes back to the last digit of its speed, and nothing is kept twice.
	more := evaluated(t, append(args, "--kv", "full,h2o", "--budget", "10%,20%")...)
	for i, r := range first {
		if more[i].TPS != r.TPS || more[i].PPL != r.PPL || more[i].Complete != r.Complete {
			t.Errorf("%+v became %+v", r, more[i])
		}
	}
	if kept := lines(); len(kept) != 6 || len(more) != 9 {
		t.Errorf("%d results kept, %d printed", len(kept), len(more))
	}
	// Other settings and other segments are not the same.
	for n, extra := range [][]string{{"--kv-type", "f32"}, {"--chunk", "4"}, {"--recent-ratio", "0.25"}, {"--sinks", "2"}, {"--bos"}, {"--tokens", "90"}, {"--offset", "2000"}, {"--kl"}} {
		before := len(lines())
		evaluated(t, append(append(args, "--kv", "h2o", "--budget", "10%"), extra...)...)
		if after := len(lines()); after <= before {
			t.Errorf("%d: %q is taken for what was there", n, extra)
		}
	}
	evaluated(t, append(args, "--kv", "h2o", "--budget", "10%")...) // with KL will do for without
	before := len(lines())
	evaluated(t, append(args, "--kv", "h2o", "--budget", "10%", "--kl")...)
	if after := len(lines()); after != before {
		t.Errorf("%d results became %d", before, after)
	}

	write(t, "book.txt", text+" ")
	ppl := []string{"eval", "ppl", builtinName}
	vkdecode(t, append(ppl, args...)...).want(t, exitFailure, "r.jsonl has results of another book.txt, with SHA-256")
	write(t, "book.txt", text)
	vkdecode(t, append([]string{"eval", "ppl", "other.gguf"}, args...)...).want(t, exitFailure, "r.jsonl has results of the model builtin: with SHA-256")
	write(t, "r.jsonl", "not a result\n")
	vkdecode(t, append(ppl, args...)...).want(t, exitFailure, "r.jsonl:1 is no result")
}

// Token by token, settings are streamed side by side: what is printed is in order, and each is what it is alone.
func TestEvalStreamsSettingsSideBySide(t *testing.T) {
	text, _ := passage(t)
	onFirstDriver(t, map[string]string{"book.txt": text})
	args := []string{"--text", "book.txt", "--offset", "0,1000", "--tokens", "60", "--chunk", "1", "--kl", "--budget", "20%,40%"}
	got := evaluated(t, append(args, "--kv", "full,h2o,snapkv:window=4,window,streaming,tova", "--resume", "r.jsonl")...) // snapkv goes alone
	if want := slices.Repeat([]string{"full 100%", "h2o 20%", "h2o 40%"}, 3); !slices.Equal(names(got)[:9], want) {       // by segment, and combined
		t.Errorf("results of %q, want first %q", names(got), want)
	}
	by := map[string]eval.Perplexity{}
	for _, r := range got {
		by[fmt.Sprint(r.Policy, r.Budget, r.Offset, r.Segments)] = r
	}
	if len(by) != 11*3 || len(got) != 11*3 {
		t.Fatalf("%d results, %d of them different", len(got), len(by))
	}
	for _, policy := range []string{"full", "h2o", "snapkv:window=4", "window", "streaming", "tova"} {
		for _, r := range evaluated(t, append(args, "--kv", policy, "--budget", "20%")...) {
			other, ok := by[fmt.Sprint(r.Policy, r.Budget, r.Offset, r.Segments)]
			if !ok || !(math.Abs(other.PPL/r.PPL-1) <= 1e-5) || !(math.Abs(*other.KL-*r.KL) <= 1e-5) || other.Setting != r.Setting || other.BytesHeld != r.BytesHeld {
				t.Errorf("beside others %+v\nalone %+v", other, r)
			}
		}
	}
	// What is kept is not run again, also of a group.
	b, err := os.ReadFile("r.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(string(b)))
	if len(lines) != 22 {
		t.Fatalf("%d results kept", len(lines))
	}
	write(t, "r.jsonl", strings.Join(append(lines[:1:1], lines[3:]...), ""))
	again := evaluated(t, append(args, "--kv", "full,h2o,snapkv:window=4,window,streaming,tova", "--resume", "r.jsonl")...)
	anew := 0
	for _, r := range again {
		if was := by[fmt.Sprint(r.Policy, r.Budget, r.Offset, r.Segments)]; r.Segments == 1 && was.TPS != r.TPS {
			anew++
		}
	}
	if anew != 2 || len(again) != len(got) {
		t.Errorf("%d results, %d of them anew, want 2 of %d", len(again), anew, len(got))
	}
}

// endlessEval has one setting that takes long: token by token.
func endlessEval(text string) (files map[string]string, args []string) {
	return map[string]string{"book.txt": strings.Repeat(text, 100)},
		[]string{"eval", "ppl", builtinName, "--text", "book.txt", "--tokens", "100000", "--kv", "window", "--budget", "16", "--chunk", "1", "--csv", "r.csv", "--resume", "r.jsonl"}
}

func TestAnInterruptedEvalPrintsWhatThereIs(t *testing.T) {
	text, _ := passage(t)
	files, args := endlessEval(text)
	eachDriver(t, func(t *testing.T) {
		for name, content := range files {
			write(t, name, content)
		}
		// How long the program takes to begin is not known: wait longer until something has been processed.
		for wait := time.Second / 2; ; wait *= 2 {
			ctx, cancel := context.WithTimeout(inProcess(t), wait)
			var stdout, stderr bytes.Buffer
			code := run(ctx, append(args, "--json"), nil, &stdout, &stderr)
			cancel()
			if code != exitInterrupted && !strings.Contains(stderr.String(), context.DeadlineExceeded.Error()) {
				t.Fatalf("exit code %d, stderr %q", code, stderr.String())
			}
			if stdout.Len() == 0 && wait < time.Minute {
				continue
			}
			got := readLines(t, stdout.String())
			if code != exitInterrupted || len(got) != 1 || got[0].Complete || got[0].Tokens < 2 || got[0].Tokens >= 100000 || got[0].PPL < 2 {
				t.Fatalf("exit code %d, %+v", code, got)
			}
			break
		}
		if b, err := os.ReadFile("r.csv"); err != nil || bytes.Count(b, []byte("\n")) != 2 || !bytes.Contains(b, []byte(",false\n")) {
			t.Errorf("CSV %q, %v", b, err)
		}
		if b, err := os.ReadFile("r.jsonl"); err != nil || len(b) > 0 {
			t.Errorf("half a result was kept: %q, %v", b, err)
		}
		noneLeft(t)
	})
}

// Two settings are under way side by side, in the second segment.
func TestCtrlCEndsAnEvalWith130(t *testing.T) {
	text, _ := passage(t)
	files, args := endlessEval(text)
	onFirstDriver(t, files)
	cmd, stdout, stderr := program(t, slices.Concat(args, []string{"--kv", "full,window", "--offset", "0,1000", "--tokens", "1000", "--json"})...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for { // until the first segment is finished
		if b, err := os.ReadFile("r.jsonl"); err == nil && len(b) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	got := readLines(t, stdout.String())
	if len(got) != 4 && len(got) != 6 || !got[0].Complete || !got[1].Complete {
		t.Fatalf("%+v, want both settings of the first segment, perhaps of the second, and what they come to together", got)
	}
	for i, r := range got {
		if want := []string{"full", "window"}[i%2]; r.Policy != want || i > 1 && r.Complete || r.Tokens != got[i-i%2].Tokens {
			t.Errorf("result %d of %d: %+v", i, len(got), r)
		}
	}
}

func TestWrongEvaluationsAreRefused(t *testing.T) {
	onFirstDriver(t, map[string]string{"book.txt": "It was in July — the speaker was the well-known Anna Pavlovna", "empty.txt": "",
		"ids.gguf": variant(t, without("tokenizer"), nil)})
	for line, want := range map[string]struct {
		code int
		says string
	}{
		"ppl builtin:":                                               {exitUsage, "[text] is required"},
		"ppl --text book.txt":                                        {exitUsage, "at least 1 arg"},
		"ppl builtin: --text book.txt --tokens 1":                    {exitUsage, "--tokens 1, want at least 2"},
		"ppl builtin: --text book.txt --tokens 99":                   {exitUsage, "book.txt has 29 tokens from byte 0 on, want 99"},
		"ppl builtin: --text book.txt --offset -1":                   {exitUsage, "offset -1 of book.txt"},
		"ppl builtin: --text book.txt --offset 1000":                 {exitUsage, "which has 63 bytes"},
		"ppl builtin: --text book.txt --offset 0,16":                 {exitUsage, "offset 16 of book.txt is inside a character; the next one begins at 18"},
		"ppl builtin: --text book.txt --offset x":                    {exitUsage, `invalid argument "x" for "--offset"`},
		"ppl builtin: --text book.txt --kv ful":                      {exitUsage, `did you mean "full"?`},
		"ppl builtin: --text book.txt --budget 10%,":                 {exitUsage, "empty"},
		"ppl builtin: --text book.txt --kv streaming --budget 20%,2": {exitUsage, "less than the 4 sinks"},
		"ppl builtin: --text book.txt --budget 1kB":                  {exitUsage, "that a prompt adds take"},
		"ppl builtin: --text book.txt --chunk 1000":                  {exitUsage, "chunk of 1000 rows"},
		"ppl builtin: --text book.txt --json --markdown":             {exitUsage, "json markdown"},
		"ppl builtin: --text missing.txt":                            {exitFailure, "no such file"},
		"ppl builtin: --text empty.txt":                              {exitFailure, "empty.txt is empty"},
		"ppl missing.gguf --text book.txt":                           {exitFailure, "no such file"},
		"ppl ids.gguf --text book.txt":                               {exitFailure, "no vocabulary"},
		"ppl builtin: --text book.txt --csv missing/r.csv":           {exitFailure, "no such file"},
		"ppl builtin: --text book.txt --resume missing/r.jsonl":      {exitFailure, "no such file"},
		"pppl builtin:": {exitUsage, `unknown command "pppl"`},
	} {
		got := vkdecode(t, append([]string{"eval"}, strings.Fields(line)...)...)
		got.want(t, want.code, want.says)
		if got.stdout != "" {
			t.Errorf("%s: stdout %q", line, got.stdout)
		}
	}
	noneLeft(t)
	for _, line := range []string{"run builtin: -p x --budget 1,2", "plan builtin: --budget 1,2"} {
		vkdecode(t, strings.Fields(line)...).want(t, exitUsage, "2 budgets, want one")
	}
}

func TestEvalCompletesAndExplainsItself(t *testing.T) {
	inFolder(t, nil)
	for line, part := range map[string]string{
		"eval":                           "ppl",
		"eval ppl --help":                "--offset ",
		"__complete eval ppl m --kv ":    "streaming",
		"__complete eval ppl m --kv-t":   "--kv-type",
		"__complete eval p":              "ppl",
		"eval ppl --help --kv-type f16 ": "Examples:",
	} {
		args := strings.Fields(line)
		if strings.HasSuffix(line, " ") && args[0] == "__complete" {
			args = append(args, "")
		}
		if r := vkdecode(t, args...); r.code != exitOK || !strings.Contains(r.stdout, part) {
			t.Errorf("%q: exit code %d, stdout does not say %q: %s%s", line, r.code, part, r.stdout, r.stderr)
		}
	}
	for _, cmd := range newEval().Commands() {
		if cmd.Short == "" || cmd.Long == "" || cmd.Example == "" {
			t.Errorf("eval %s: help or example missing", cmd.Name())
		}
	}
}
