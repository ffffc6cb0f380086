// Package data reads what models are judged on: multiple-choice questions and long texts, in the forms in which they are
// published. Files are taken as hostile: sizes are bounded, and what cannot be read is named by its line.
package data

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Question is one multiple-choice question. The texts have no white space around them.
type Question struct {
	Line    int // of the file, from 1
	Passage string
	Text    string
	Options []string
	Right   []bool // by option; at least one, and not all
}

// Set is the questions of a file.
type Set struct {
	Name       string // file name
	Hash       string // SHA-256 of the file
	Format     string // a name of Formats
	Questions  []Question
	Examples   []Question // meant to be shown, not asked: HELM's split "train"
	RightFirst bool       // the data has the right option first, so the options must be shuffled
	Continues  bool       // the options go on with the text, which is no question: HellaSwag
	Left       int        // rows left out because they cannot be read
	Bad        []RowError // the first of them
}

// RowError says what is wrong with one row of a file.
type RowError struct {
	Line int
	Err  error
}

func (e RowError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e RowError) Unwrap() error { return e.Err }

const (
	maxFile    = 128 << 20 // bytes of a file of questions: HELM's states of long-passage scenarios come near
	maxRow     = 8 << 20   // bytes of a row
	maxRows    = 1 << 20
	maxOptions = 26 // letters
	maxNamed   = 10 // bad rows of which the error is kept
)

// Questions reads a file of multiple-choice questions. The form is told from the content: see Formats.
func Questions(path string) (*Set, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	defer f.Close()
	return ParseQuestions(filepath.Base(path), f)
}

// ParseQuestions is Questions for what a file called name holds. Rows that cannot be read are left out and told in the
// set; it is an error if no question is left, or fewer than half of the rows.
func ParseQuestions(name string, r io.Reader) (*Set, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", name, err)
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("data: %s: more than %d MiB; split the file", name, maxFile>>20)
	}
	rows, err := split(content)
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", name, err)
	}
	form, err := detect(rows)
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", name, err)
	}
	sum := sha256.Sum256(content)
	s := &Set{Name: name, Hash: hex.EncodeToString(sum[:]), Format: form.Name, RightFirst: form.rightFirst, Continues: form.continues}
	for _, row := range rows {
		s.add(form, row)
	}
	good := len(s.Questions) + len(s.Examples)
	if len(s.Questions) == 0 || good < s.Left {
		return nil, s.unusable(good)
	}
	return s, nil
}

// add reads a row.
func (s *Set) add(form *Format, row row) {
	q, kind, err := Question{}, asked, row.err
	if err == nil {
		q, kind, err = form.read(row.fields)
	}
	if err == nil && kind != skipped {
		err = q.check()
	}
	q.Line = row.line
	switch {
	case err != nil:
		s.Left++
		if len(s.Bad) < maxNamed {
			s.Bad = append(s.Bad, RowError{row.line, err})
		}
	case kind == asked:
		s.Questions = append(s.Questions, q)
	case kind == shown:
		s.Examples = append(s.Examples, q)
	}
}

// unusable is the error for a set without enough good rows.
func (s *Set) unusable(good int) error {
	if len(s.Bad) == 0 {
		return fmt.Errorf("data: %s: looks like %s, but none of its rows is a question to ask", s.Name, s.Format)
	}
	return fmt.Errorf("data: %s: looks like %s, but %d of %d rows cannot be read; %w", s.Name, s.Format, s.Left, s.Left+good, s.Bad[0])
}

// check completes a question: options that equal a right one are right.
func (q *Question) check() error {
	if q.Text == "" {
		return fmt.Errorf("the question is empty")
	}
	if n := len(q.Options); n < 2 || n > maxOptions {
		return fmt.Errorf("%d options, want 2 to %d", n, maxOptions)
	}
	for i, o := range q.Options {
		if o == "" {
			return fmt.Errorf("option %s is empty", Letter(i))
		}
	}
	right := 0
	for i, o := range q.Options {
		for j, other := range q.Options {
			if q.Right[j] && o == other {
				q.Right[i] = true
			}
		}
		if q.Right[i] {
			right++
		}
	}
	switch right {
	case 0:
		return fmt.Errorf("no option is right")
	case len(q.Options):
		return fmt.Errorf("all %d options are right", right)
	}
	return nil
}

// Letter names an option: A is the first.
func Letter(option int) string { return string(rune('A' + option)) }

// only marks one of n options as the right one.
func only(n, right int) []bool {
	marks := make([]bool, n)
	marks[right] = true
	return marks
}
