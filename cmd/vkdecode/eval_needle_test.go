package main

import (
	"encoding/csv"
	"os"
	"slices"
	"strings"
	"testing"

	"vkdecode/eval"
)

// needleArgs are for the passage, of which little is left beside a needle and its question.
func needleArgs(contexts, depths, policies string, more ...string) []string {
	return append([]string{"eval", "needle", builtinName, "--text", "book.txt", "--needles", "2", "--chunk", "32", "--budget", "20%",
		"--contexts", contexts, "--depths", depths, "--kv", policies}, more...)
}

// recalls reads the lines of JSON of eval needle.
func recalls(t *testing.T, r result) (all []eval.Recall) {
	t.Helper()
	r.want(t, exitOK)
	for line := range strings.Lines(r.stdout) {
		var v eval.Recall
		result{stdout: line}.read(t, &v)
		all = append(all, v)
	}
	return all
}

func TestEvalNeedleHidesNeedlesInATextForEverySetting(t *testing.T) {
	text, _ := passage(t)
	onFirstDriver(t, map[string]string{"book.txt": text})
	got := recalls(t, vkdecode(t, needleArgs("160,200", "0,1", "full,window", "--json", "--csv", "r.csv")...))
	if len(got) != 8 {
		t.Fatalf("%d results, want 8", len(got))
	}
	for i, r := range got {
		if r.Kind != "needle" || r.Policy != []string{"full", "window"}[i/4] || r.Context != []int{160, 200}[i/2%2] || r.Depth != float64(i%2) || r.Needles != 2 || !r.Complete || r.Control ||
			r.Model != builtinName || r.Text != "book.txt" || len(r.TextHash) != 64 || len(r.ModelHash) != 64 || !(r.LogProb < 0) || r.Seed != 1 || r.Template == "" {
			t.Errorf("%+v", r)
		}
	}
	// A prompt, the answer's five bytes at most, and a chunk above the budget.
	if full, window := got[2], got[6]; full.BytesHeld != 205*slotBytes || window.BudgetSlots != 41 || window.BytesHeld != (41+32)*slotBytes {
		t.Errorf("full holds %d bytes, window %d for %d slots", full.BytesHeld, window.BytesHeld, window.BudgetSlots)
	}
	file, err := os.Open("r.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if rows, err := csv.NewReader(file).ReadAll(); err != nil || len(rows) != 9 || !slices.Contains(rows[0], "found") {
		t.Errorf("%d lines of CSV, %v", len(rows), err)
	}
}

func TestEvalNeedlePrintsATableAndGoesOnFromAFile(t *testing.T) {
	text, _ := passage(t)
	onFirstDriver(t, map[string]string{"book.txt": text})
	first := vkdecode(t, needleArgs("200", "0,1", "full,window", "--resume", "kept.jsonl")...)
	first.want(t, exitOK)
	for _, part := range []string{"book.txt", "What is the number of {subject}?", "policy  budget  slots  context  at 0  at 1  found   log p", "window  20%        41      200"} {
		if !strings.Contains(first.stdout, part) {
			t.Errorf("stdout does not say %q: %s", part, first.stdout)
		}
	}
	kept, err := os.ReadFile("kept.jsonl")
	if err != nil || strings.Count(string(kept), "\n") != 4 {
		t.Fatalf("%v: %s", err, kept)
	}
	// The figures of a line that is kept are believed; what is not there is run.
	write(t, "kept.jsonl", strings.Replace(string(kept), `"found":0`, `"found":2`, 1))
	again := recalls(t, vkdecode(t, needleArgs("200", "0,0.5,1", "full,window", "--resume", "kept.jsonl", "--json")...))
	if len(again) != 6 || again[0].Found != 2 || again[1].Depth != 0.5 || again[1].Found != 0 {
		t.Errorf("%+v", again)
	}
	if kept, err = os.ReadFile("kept.jsonl"); err != nil || strings.Count(string(kept), "\n") != 6 {
		t.Errorf("%v: %s", err, kept)
	}
	// Another seed, other needles.
	if other := recalls(t, vkdecode(t, needleArgs("200", "1", "window", "--resume", "kept.jsonl", "--json", "--seed", "2")...)); len(other) != 1 || other[0].Seed != 2 || other[0].LogProb == again[5].LogProb {
		t.Errorf("%+v", other)
	}
}

func TestEvalNeedleRefusesWhatItCannotMeasure(t *testing.T) {
	text, _ := passage(t)
	onFirstDriver(t, map[string]string{"book.txt": text, "short.txt": "too short", "empty.txt": ""})
	for line, want := range map[string]struct {
		code int
		part string
	}{
		"needle " + builtinName:                                         {exitUsage, "[text] is required"},
		"needle --text book.txt":                                        {exitUsage, "accepts 1 arg"},
		"needle builtin: --text missing.txt":                            {exitFailure, "no such file"},
		"needle builtin: --text empty.txt":                              {exitFailure, "empty.txt is empty"},
		"needle builtin: --text short.txt":                              {exitUsage, "want at least 256"},
		"needle builtin: --text book.txt --contexts 20":                 {exitUsage, "context of 20 tokens, want at least"},
		"needle builtin: --text book.txt --depths 2":                    {exitUsage, "depth 2, want 0 to 1"},
		"needle builtin: --text book.txt --needles 0":                   {exitUsage, "0 needles"},
		"needle builtin: --text book.txt --kv streaming --budget 2":     {exitUsage, "less than the 4 sinks"},
		"needle builtin: --text book.txt --contexts some":               {exitUsage, "invalid argument"},
		"needle builtin: --text book.txt --resume missing/recall.jsonl": {exitFailure, "no such file"},
	} {
		vkdecode(t, append([]string{"eval"}, strings.Fields(line)...)...).want(t, want.code, want.part)
	}
}
