package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"vkdecode/eval"
)

// Limits of a file of results. They are far above what an evaluation makes, and keep a wrong file from filling memory.
const (
	maxFile = 32 << 20 // bytes
	maxLine = 1 << 20  // bytes; a row with 10,000 buckets takes about 500 kB
	maxRows = 5000
)

// Read reads a file of JSON lines. The "kind" of each line says what it is: "ppl", "needle" or "qa". Empty lines are
// skipped; anything else that is not a result is an error that names the line.
func Read(path string) (Results, error) {
	f, err := os.Open(path)
	if err != nil {
		return Results{}, fmt.Errorf("report: %w", err)
	}
	defer f.Close()
	r, err := parse(f)
	if err != nil {
		return Results{}, fmt.Errorf("report: %s: %w", path, err)
	}
	return r, nil
}

// parse reads results up to the end of in.
func parse(in io.Reader) (r Results, err error) {
	limited := &io.LimitedReader{R: in, N: maxFile + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxLine)
	n, rows := 0, 0
	for lines.Scan() {
		n++
		if limited.N == 0 {
			break // the line may be cut
		}
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if rows++; rows > maxRows {
			return Results{}, fmt.Errorf("line %d: more than %d results; split the file", n, maxRows)
		}
		if err := r.add(line); err != nil {
			return Results{}, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if limited.N == 0 {
		return Results{}, fmt.Errorf("more than %d bytes; split the file", maxFile)
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return Results{}, fmt.Errorf("line %d: longer than %d bytes, want one result per line", n+1, maxLine)
	}
	return r, lines.Err()
}

// add decodes one line.
func (r *Results) add(line []byte) error {
	var row struct {
		Kind *string `json:"kind"`
	}
	if err := decode(line, &row); err != nil {
		return err
	}
	if row.Kind == nil {
		return errors.New(`no "kind", want "ppl", "needle" or "qa"; give a file that eval printed with --json`)
	}
	switch *row.Kind {
	case "ppl":
		return add(line, &r.Perplexity, checkPerplexity)
	case "needle":
		return add(line, &r.Recall, checkRecall)
	case "qa":
		return add(line, &r.Accuracy, checkAccuracy)
	}
	return fmt.Errorf(`kind %q, want "ppl", "needle" or "qa"; was the file made by a newer version?`, short(*row.Kind, 40))
}

func add[T any](line []byte, rows *[]T, check func(*T) error) error {
	var row T
	if err := decode(line, &row); err != nil {
		return err
	}
	if err := check(&row); err != nil {
		return err
	}
	*rows = append(*rows, row)
	return nil
}

func decode(line []byte, to any) error {
	err := json.Unmarshal(line, to)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax) && strings.Contains(err.Error(), "unexpected end"):
		return errors.New("the JSON ends early, as if the program was stopped while it wrote; remove the line")
	case err != nil:
		return fmt.Errorf("not a result in JSON: %s", short(err.Error(), 200))
	}
	return nil
}

func checkSetting(s *eval.Setting, bytesHeld int64) error {
	return first(
		want(s.Policy != "", "policy", "", "a name"),
		want(s.BudgetSlots >= 0, "budget_slots", s.BudgetSlots, "0 or more"),
		want(s.Chunk >= 0, "chunk", s.Chunk, "0 or more"),
		want(bytesHeld >= 0, "bytes_held", bytesHeld, "0 or more"),
	)
}

func checkPerplexity(p *eval.Perplexity) error {
	err := first(
		checkSetting(&p.Setting, p.BytesHeld),
		want(p.Tokens >= 0, "tokens", p.Tokens, "0 or more"),
		want(p.Offset >= 0, "offset", p.Offset, "0 or more"),
		want(p.PPL >= 0, "ppl", p.PPL, "0 or more"),
		want(p.BytesFull >= 0, "bytes_full", p.BytesFull, "0 or more"),
	)
	for i, b := range p.Buckets {
		err = first(err, want(0 <= b.Begin && b.Begin < b.End, fmt.Sprintf("buckets[%d]", i),
			fmt.Sprintf("%d to %d", b.Begin, b.End), "a begin before its end"))
	}
	return err
}

func checkRecall(r *eval.Recall) error {
	return first(
		checkSetting(&r.Setting, r.BytesHeld),
		want(r.Context >= 0, "context", r.Context, "0 or more"),
		want(0 <= r.Depth && r.Depth <= 1, "depth", r.Depth, "0 to 1"),
		want(0 <= r.Found && r.Found <= r.Needles, "found", r.Found, fmt.Sprintf("0 to needles, %d", r.Needles)),
	)
}

func checkAccuracy(a *eval.Accuracy) error {
	return first(
		checkSetting(&a.Setting, a.BytesHeld),
		want(a.Context >= 0, "context", a.Context, "0 or more"),
		want(0 <= a.Correct && a.Correct <= a.Questions, "correct", a.Correct,
			fmt.Sprintf("0 to questions, %d", a.Questions)),
		want(0 <= a.CorrectNormalized && a.CorrectNormalized <= a.Questions, "correct_normalized", a.CorrectNormalized,
			fmt.Sprintf("0 to questions, %d", a.Questions)),
		want(0 <= a.Low && a.Low <= a.Accuracy && a.Accuracy <= a.High && a.High <= 1, "accuracy",
			fmt.Sprintf("%g within %g to %g", a.Accuracy, a.Low, a.High), "low, accuracy and high in this order, within 0 to 1"),
	)
}

// want is an error about a field unless ok.
func want(ok bool, field string, got any, expected string) error {
	if ok {
		return nil
	}
	if got == "" {
		return fmt.Errorf("no %q, want %s", field, expected)
	}
	return fmt.Errorf("%q is %v, want %s", field, got, expected)
}

// first is the first error, as builders keep it.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
