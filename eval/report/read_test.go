package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lines are results as `eval` prints them.
func lines(t testing.TB, r Results) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	write := func(row any) {
		if err := e.Encode(row); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range r.Perplexity {
		write(row)
	}
	for _, row := range r.Recall {
		write(row)
	}
	for _, row := range r.Accuracy {
		write(row)
	}
	return b.Bytes()
}

func TestReadGivesBackWhatWasPrinted(t *testing.T) {
	want := sample()
	path := filepath.Join(t.TempDir(), "results.jsonl")
	content := append([]byte("\n  \n"), bytes.ReplaceAll(lines(t, want), []byte("\n"), []byte("\r\n"))...)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	want.Title, want.Command, want.Version, want.When = "", "", "", got.When
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is read differs (-want +got):\n%s", diff)
	}
}

func TestWrongFilesAreRefusedWithTheirLine(t *testing.T) {
	ppl := func(fields string) string {
		return `{"kind":"ppl","policy":"h2o","ppl":20,"tokens":10` + fields + `}`
	}
	for _, c := range []struct{ name, content, want string }{
		{"no JSON", "hello", `line 1: not a result in JSON: invalid character 'h' looking for beginning of value`},
		{"a list", "[1]", `line 1: not a result in JSON: json: cannot unmarshal array`},
		{"null", "null", `line 1: no "kind", want "ppl", "needle" or "qa"`},
		{"no kind", "\n{}", `line 2: no "kind"`},
		{"a newer kind", `{"kind":"speed"}`, `line 1: kind "speed", want "ppl", "needle" or "qa"; was the file made by a newer version?`},
		{"cut off", ppl("") + "\n" + ppl("")[:20], `line 2: the JSON ends early, as if the program was stopped while it wrote; remove the line`},
		{"two on a line", ppl("") + ppl(""), `line 1: not a result in JSON: invalid character '{' after top-level value`},
		{"a number that is too large", ppl(`,"ppl":1e999`), `line 1: not a result in JSON: json: cannot unmarshal number 1e999`},
		{"text for a number", ppl(`,"tokens":"many"`), `line 1: not a result in JSON: json: cannot unmarshal string`},
		{"no policy", `{"kind":"ppl"}`, `line 1: no "policy", want a name`},
		{"negative perplexity", ppl(`,"ppl":-2`), `line 1: "ppl" is -2, want 0 or more`},
		{"negative bytes", ppl(`,"bytes_held":-1`), `line 1: "bytes_held" is -1, want 0 or more`},
		{"a bucket backwards", ppl(`,"buckets":[{"begin":0,"end":5,"ppl":3},{"begin":9,"end":5,"ppl":3}]`),
			`line 1: "buckets[1]" is 9 to 5, want a begin before its end`},
		{"more found than hidden", `{"kind":"needle","policy":"h2o","needles":3,"found":4}`, `line 1: "found" is 4, want 0 to needles, 3`},
		{"deeper than the text", `{"kind":"needle","policy":"h2o","depth":1.5}`, `line 1: "depth" is 1.5, want 0 to 1`},
		{"more correct than asked", `{"kind":"qa","policy":"h2o","questions":3,"correct":4}`, `line 1: "correct" is 4, want 0 to questions, 3`},
		{"an interval beside its value", `{"kind":"qa","policy":"h2o","accuracy":0.5,"low":0.6,"high":0.7}`,
			`line 1: "accuracy" is 0.5 within 0.6 to 0.7, want low, accuracy and high in this order, within 0 to 1`},
		{"a long line", ppl("") + "\n" + strings.Repeat(" ", maxLine+1), `line 2: longer than 1048576 bytes, want one result per line`},
		{"a long file", strings.Repeat(strings.Repeat(" ", maxLine-2)+"\n", 34), `more than 33554432 bytes; split the file`},
		{"many rows", strings.Repeat(ppl("")+"\n", maxRows+1), `line 5001: more than 5000 results; split the file`},
	} {
		r, err := parse(strings.NewReader(c.content))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error is %v\nwant %s", c.name, err, c.want)
		}
		if len(r.Perplexity)+len(r.Recall)+len(r.Accuracy) > 0 {
			t.Errorf("%s: results come with the error", c.name)
		}
	}
	if r, err := parse(strings.NewReader(ppl("") + "\n" + ppl(""))); err != nil || len(r.Perplexity) != 2 {
		t.Errorf("what the cases are made of is read as %d rows: %v", len(r.Perplexity), err)
	}
}

func TestReadNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "wrong.jsonl")
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{path: "report: " + path + `: line 1: no "kind"`, dir: "report: ", filepath.Join(dir, "none"): "report: open "} {
		if _, err := Read(name); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error is %v, want %s…", err, want)
		}
	}
}

// What Read takes must also make a page without flaws.
func FuzzRead(f *testing.F) {
	for _, line := range bytes.Split(lines(f, sample()), []byte("\n"))[:2] {
		f.Add(line)
	}
	f.Add(lines(f, Results{Recall: sampleRecall()[18:22]}))
	f.Add(lines(f, Results{Accuracy: sampleAccuracy()[:2]}))
	f.Add([]byte(`{"kind":"ppl","policy":"h2o","ppl":1e308,"tokens":1,"budget_slots":1,"bytes_held":1,"bytes_full":9223372036854775807}` + "\n" +
		`{"kind":"ppl","policy":"full","ppl":1e-308,"tokens":1,"bytes_held":1,"complete":true,"buckets":[{"begin":0,"end":9223372036854775807,"ppl":-1e308}]}`))
	f.Add([]byte("{\"kind\":\"needle\",\"policy\":\"<svg onload=alert(1)>\u202e\",\"needles\":9223372036854775807,\"found\":1,\"context\":9223372036854775807}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		r, err := parse(bytes.NewReader(content))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := pages.ExecuteTemplate(&b, "page.html", newPage(r)); err != nil {
			t.Fatal(err)
		}
		for _, svg := range picture.FindAllString(b.String(), -1) {
			for _, wrong := range flaws(svg) {
				if !strings.HasPrefix(wrong, "the page has") { // harmless as a text
					t.Error(wrong)
				}
			}
		}
		if strings.Contains(b.String(), "<script") {
			t.Error("the page has a script")
		}
	})
}
