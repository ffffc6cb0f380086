package data

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// row is one object of a file, or why there is none.
type row struct {
	line   int
	fields fields
	err    error
}

// lists are the keys under which a document that is one object may have its rows: HELM's scenario_state.json, and others.
var lists = []string{"request_states", "instances", "questions", "data"}

// split cuts a file into rows: an object on each line, an array of objects, or one object with a list of them.
func split(content []byte) ([]row, error) {
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	first, rest, line := firstLine(content, 1)
	if first == nil {
		return nil, errors.New("the file is empty")
	}
	var object fields
	if json.Unmarshal(first, &object) == nil && object != nil && !slices.ContainsFunc(lists, object.list) {
		return splitLines(content)
	}
	rows, err := splitDocument(content)
	if err == nil || errors.Is(err, errRows) {
		return rows, err
	}
	// Not one document. It may still be lines of which the first is broken.
	if second, _, _ := firstLine(rest, line); second != nil && json.Unmarshal(second, &object) == nil && object != nil {
		return splitLines(content)
	}
	return nil, fmt.Errorf("%w; want JSON: an object on each line, an array of objects, or HELM's scenario_state.json", err)
}

var errRows = fmt.Errorf("more than %d rows; split the file", maxRows)

// firstLine is the first line that is not blank, what follows it, and the number of the line after it.
func firstLine(content []byte, line int) (first, rest []byte, next int) {
	for len(content) > 0 {
		first, content, _ = bytes.Cut(content, []byte("\n"))
		line++
		if first = bytes.TrimSpace(first); len(first) > 0 {
			return first, content, line
		}
	}
	return nil, nil, line
}

// splitLines reads an object from each line that is not blank.
func splitLines(content []byte) (rows []row, err error) {
	for line := 1; ; {
		var text []byte
		if text, content, line = firstLine(content, line); text == nil {
			return rows, nil
		}
		if len(rows) == maxRows {
			return nil, errRows
		}
		rows = append(rows, newRow(line-1, text))
	}
}

// newRow reads the object of a row.
func newRow(line int, text []byte) row {
	r := row{line: line}
	if len(text) > maxRow {
		r.err = fmt.Errorf("the row has %d bytes, want at most %d", len(text), maxRow)
	} else if err := json.Unmarshal(text, &r.fields); err != nil {
		r.err = plain(err)
	} else if r.fields == nil {
		r.err = errors.New("null, want an object")
	}
	return r
}

// plain is an error of encoding/json without the names of Go's types.
func plain(err error) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return fmt.Errorf("%s, want an object", article(kind.Value))
	}
	return fmt.Errorf("not JSON: %w", err)
}

// document walks a file that is one JSON value.
type document struct {
	*json.Decoder
	content []byte
	counted int // bytes whose lines are counted
	line    int // of the last of them
}

// splitDocument reads an array of objects, or an object with one under a key of lists.
func splitDocument(content []byte) ([]row, error) {
	d := &document{json.NewDecoder(bytes.NewReader(content)), content, 0, 1}
	rows, err := d.rows()
	if errors.Is(err, errRows) {
		return nil, err
	}
	if err != nil {
		return nil, RowError{d.at(d.InputOffset()), plainEnd(err)}
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, RowError{d.at(d.InputOffset()), errors.New("more text after the end of the document")}
	}
	return rows, nil
}

func plainEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("not JSON: the text ends too early")
	}
	return plain(err)
}

func (d *document) rows() (rows []row, err error) {
	begin, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch begin {
	case json.Delim('['):
		return d.array()
	case json.Delim('{'):
	default:
		return nil, fmt.Errorf("%v, want an array or an object", begin)
	}
	found := false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		if !found && slices.Contains(lists, name) {
			begin, err := d.Token()
			if err != nil {
				return nil, err
			}
			if begin != json.Delim('[') {
				return nil, fmt.Errorf("field %q is not an array", name)
			}
			if rows, err = d.array(); err != nil {
				return nil, err
			}
			found = true
			continue
		}
		var other json.RawMessage
		if err := d.Decode(&other); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if !found {
		// A single object over several lines is a row.
		return []row{newRow(1, d.content)}, nil
	}
	return rows, nil
}

// array reads the elements of an array up to its end.
func (d *document) array() (rows []row, err error) {
	for d.More() {
		if len(rows) == maxRows {
			return nil, errRows
		}
		line := d.at(d.InputOffset())
		var text json.RawMessage
		if err := d.Decode(&text); err != nil {
			return nil, err
		}
		rows = append(rows, newRow(line, text))
	}
	_, err = d.Token()
	return rows, err
}

// at is the line of the first byte at or after an offset that is neither white space nor a comma. Offsets must grow.
func (d *document) at(offset int64) int {
	end := int(offset)
	for end < len(d.content) && bytes.IndexByte([]byte(" \t\r\n,"), d.content[end]) >= 0 {
		end++
	}
	if end > d.counted {
		d.line += bytes.Count(d.content[d.counted:end], []byte("\n"))
		d.counted = end
	}
	return d.line
}
