package eval

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Results are what evaluations found, by kind.
type Results struct {
	Perplexity []Perplexity
	Recall     []Recall
	Accuracy   []Accuracy
}

// Add appends a result of any kind.
func (r *Results) Add(result any) error {
	switch v := result.(type) {
	case Perplexity:
		r.Perplexity = append(r.Perplexity, v)
	case Recall:
		r.Recall = append(r.Recall, v)
	case Accuracy:
		r.Accuracy = append(r.Accuracy, v)
	default:
		return fmt.Errorf("eval: a result of type %T, want Perplexity, Recall or Accuracy", result)
	}
	return nil
}

// read appends the result that a line of JSON holds.
func (r *Results) read(line []byte) error {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return err
	}
	switch head.Kind {
	case "ppl":
		return add(line, &r.Perplexity)
	case "needle":
		return add(line, &r.Recall)
	case "qa":
		return add(line, &r.Accuracy)
	}
	return fmt.Errorf(`kind %q, want "ppl", "needle" or "qa"`, head.Kind)
}

// add decodes a line with the fields of T and no other.
func add[T any](line []byte, to *[]T) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	var v T
	if err := d.Decode(&v); err != nil {
		return err
	}
	*to = append(*to, v)
	return nil
}

// Log is a file of results, one JSON object per line, that an evaluation adds to and a later one goes on with.
type Log struct {
	Results // of the file, those added included

	path string
	file *os.File
}

// OpenLog reads a file of results, if there is one, to add to it. A last line without an end is what a killed program left
// behind: it is cut off. Anything else that is no result is an error.
func OpenLog(path string) (_ *Log, err error) {
	l := &Log{path: path}
	if l.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666); err != nil {
		return nil, fmt.Errorf("eval: results: %w", err)
	}
	defer func() {
		if err != nil {
			l.file.Close()
		}
	}()
	r := bufio.NewReader(l.file)
	var whole int64 // bytes of the lines read
	for number := 1; ; number++ {
		line, err := r.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("eval: results %s: %w", path, err)
		}
		if err != nil { // no line, or half of one
			break
		}
		whole += int64(len(line))
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := l.read(line); err != nil {
			return nil, fmt.Errorf("eval: %s:%d is no result: %w", path, number, err)
		}
	}
	if err := l.file.Truncate(whole); err != nil {
		return nil, fmt.Errorf("eval: results %s: %w", path, err)
	}
	if _, err := l.file.Seek(whole, io.SeekStart); err != nil {
		return nil, fmt.Errorf("eval: results %s: %w", path, err)
	}
	return l, nil
}

// Check refuses a file with results of another model, or of a text or data file with the same name and other content.
// texts are the hashes that each name has now.
func (l *Log) Check(modelHash string, texts map[string][]string) error {
	check := func(o Origin, model, text string) error {
		if o.ModelHash != modelHash {
			return fmt.Errorf("eval: %s has results of the model %s with SHA-256 %.12s…, this one has %.12s…; give another file", l.path, model, o.ModelHash, modelHash)
		}
		known, given := texts[text]
		for _, hash := range known {
			given = given && hash != o.TextHash
		}
		if given {
			return fmt.Errorf("eval: %s has results of another %s, with SHA-256 %.12s…, this one has %.12s…; give another file", l.path, text, o.TextHash, known[0])
		}
		return nil
	}
	for _, r := range l.Perplexity {
		if err := check(r.Origin, r.Model, r.Text); err != nil {
			return err
		}
	}
	for _, r := range l.Recall {
		if err := check(r.Origin, r.Model, r.Text); err != nil {
			return err
		}
	}
	for _, r := range l.Accuracy {
		if err := check(r.Origin, r.Model, r.Data); err != nil {
			return err
		}
	}
	return nil
}

// Append adds a result to the file as a line.
func (l *Log) Append(result any) error {
	if err := l.Add(result); err != nil {
		return err
	}
	line, err := json.Marshal(result)
	if err == nil {
		_, err = l.file.Write(append(line, '\n')) // whole lines only: who reads along sees nothing else
	}
	if err != nil {
		return fmt.Errorf("eval: results %s: %w", l.path, err)
	}
	return nil
}

// Close ends the file.
func (l *Log) Close() error {
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("eval: results %s: %w", l.path, err)
	}
	return nil
}
