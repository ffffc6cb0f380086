package eval

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// some are results of every kind.
func some() (p Perplexity, r Recall, a Accuracy) {
	p = Perplexity{Kind: "ppl", Setting: Setting{Policy: "h2o:score=guide", Budget: "20%", BudgetSlots: 7}, Origin: Origin{"m1", "t1"}, Model: "m", Text: "a.txt", PPL: 12.25, KL: figure(0.5), Buckets: []Bucket{{1, 2, 3.5}}, Complete: true}
	r = Recall{Kind: "needle", Setting: Setting{Policy: "full"}, Origin: Origin{"m1", "t1"}, Model: "m", Text: "a.txt", Needles: 3, Found: 2}
	a = Accuracy{Kind: "qa", Origin: Origin{"m1", "d1"}, Model: "m", Data: "q.jsonl", Questions: 4, Accuracy: 0.25}
	return p, r, a
}

func openLog(t *testing.T, path string) *Log {
	t.Helper()
	l, err := OpenLog(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.file.Close() })
	return l
}

func appended(t *testing.T, l *Log, results ...any) {
	t.Helper()
	for _, r := range results {
		if err := l.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestALogGivesBackWhatWasAppended(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	p, r, a := some()
	appended(t, openLog(t, path), p, r)
	l := openLog(t, path)
	appended(t, l, a)
	want := Results{[]Perplexity{p}, []Recall{r}, []Accuracy{a}}
	if diff := cmp.Diff(want, l.Results); diff != "" {
		t.Errorf("of the log that was added to: %s", diff)
	}
	if diff := cmp.Diff(want, openLog(t, path).Results); diff != "" {
		t.Errorf("read again: %s", diff)
	}
	if err := openLog(t, path).Append(3); err == nil || !strings.Contains(err.Error(), "type int") {
		t.Errorf("a number as a result: %v", err)
	}
}

// A program that was killed leaves half a line behind.
func TestALogDropsHalfALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	p, r, _ := some()
	appended(t, openLog(t, path), p)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, half := range []string{"{", `{"kind":"ppl","policy":`, strings.TrimSpace(string(whole))} {
		if err := os.WriteFile(path, append(whole, half...), 0o666); err != nil {
			t.Fatal(err)
		}
		l := openLog(t, path)
		appended(t, l, r)
		if diff := cmp.Diff(Results{[]Perplexity{p}, []Recall{r}, nil}, openLog(t, path).Results); diff != "" {
			t.Errorf("after %q: %s", half, diff)
		}
	}
}

func TestWhatIsNoResultIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	for content, says := range map[string]string{
		"no json\n":                               "r.jsonl:1 is no result: invalid character",
		"\n" + `{"kind":"speed"}` + "\n":          `r.jsonl:2 is no result: kind "speed", want "ppl", "needle" or "qa"`,
		`{"kind":"ppl","perplexity":3}` + "\n":    `unknown field "perplexity"`,
		`{"kind":"ppl","tokens":"many"}` + "\n{}": "cannot unmarshal",
		"[1]\n": "cannot unmarshal array",
	} {
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenLog(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", content, err, says)
		}
		if now, _ := os.ReadFile(path); string(now) != content {
			t.Errorf("%q became %q", content, now)
		}
	}
	if _, err := OpenLog(t.TempDir()); err == nil {
		t.Error("a folder passes as a file of results")
	}
}

func TestResultsOfAnotherModelOrTextAreRefused(t *testing.T) {
	p, r, a := some()
	for _, result := range []any{p, r, a} {
		l := openLog(t, filepath.Join(t.TempDir(), "r.jsonl"))
		if err := l.Append(result); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			model string
			texts map[string][]string
			says  string // empty: it passes
		}{
			{"m1", map[string][]string{"a.txt": {"t1"}, "q.jsonl": {"d1"}}, ""},
			{"m1", map[string][]string{"a.txt": {"t2", "t1"}, "q.jsonl": {"d2", "d1"}}, ""},
			{"m1", map[string][]string{"b.txt": {"t3"}}, ""}, // another text beside it
			{"m2", nil, "results of the model m with SHA-256 m1"},
			{"m1", map[string][]string{"a.txt": {"t3"}, "q.jsonl": {"d3"}}, "results of another"},
		} {
			err := l.Check(c.model, c.texts)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%T with model %s, texts %v: %v, want %q", result, c.model, c.texts, err, c.says)
			}
		}
	}
}
