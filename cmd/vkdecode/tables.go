package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// column is a key of the tables that a setting of the kind tables is in the file. On the command line a table is
// "first:name=value:name=value", of all columns but the first those that are given; several are separated by commas.
type column struct {
	name string
	kind kind
}

// readTables sets a setting that is tables, each with what it may have. The parser knows one line of each key, whatever
// table it is in: errors tell the number of the table.
func (c *configuration) readTables(doc document, s setting, key toml.Key) error {
	var raw any
	if err := doc.decode(key, &raw); err != nil {
		return fmt.Errorf("config: %s: %w", doc.at(key), err)
	}
	rows, fits := tablesOf(raw)
	if !fits {
		return fmt.Errorf("config: %s: %s: got %s, want %s [[%s]]", doc.at(key), s.key, describe(raw), s.kind, s.key)
	}
	var texts []string
	for i, row := range rows {
		text, err := s.table(row)
		if texts = append(texts, text); err == nil {
			err = s.set(new(Config), strings.Join(texts, ","))
		}
		if err != nil {
			return fmt.Errorf("config: %s: table %d of [[%s]]: %w", doc.path, i+1, s.key, err)
		}
	}
	return c.set(s, value{strings.Join(texts, ","), doc.path})
}

// tablesOf are the tables of an array that holds nothing else.
func tablesOf(raw any) (rows []map[string]any, fits bool) {
	if rows, fits = raw.([]map[string]any); fits {
		return rows, true
	}
	inline, fits := raw.([]any)
	for _, one := range inline {
		row, table := one.(map[string]any)
		rows, fits = append(rows, row), fits && table
	}
	return rows, fits
}

// table is one of the file as the command line has it.
func (s setting) table(row map[string]any) (text string, err error) {
	var names []string
	for _, col := range s.columns {
		names = append(names, col.name)
	}
	for _, name := range slices.Sorted(maps.Keys(row)) {
		if !slices.Contains(names, name) {
			return "", fmt.Errorf("unknown key %q%s", name, orAll(didYouMean(name, names), names))
		}
	}
	for i, col := range s.columns {
		raw, given := row[col.name]
		if !given && i > 0 {
			continue
		}
		value, fits := col.kind.text(raw)
		switch {
		case !given:
			return "", fmt.Errorf("%s is missing", col.name)
		case !fits:
			return "", fmt.Errorf("%s: got %s, want %s", col.name, describe(raw), col.kind)
		case strings.ContainsAny(value, ",:="):
			return "", fmt.Errorf("%s: got %q, which holds one of , : =", col.name, value)
		case i > 0:
			text += ":" + col.name + "="
		}
		text += value
	}
	return text, nil
}

// tables are the tables of a text, which was checked: by column in the way both TOML and JSON read it, nil where the table
// has no such key.
func (s setting) tables(text string) (rows [][]json.RawMessage) {
	if s.kind != tables || strings.TrimSpace(text) == "" {
		return nil
	}
	for one := range strings.SplitSeq(text, ",") {
		first, others, _ := strings.Cut(strings.TrimSpace(one), ":")
		row := make([]json.RawMessage, len(s.columns))
		row[0] = s.columns[0].kind.literal(first)
		for other := range strings.SplitSeq(others, ":") {
			name, value, _ := strings.Cut(other, "=")
			if i := slices.IndexFunc(s.columns, func(c column) bool { return c.name == name }); i > 0 {
				row[i] = s.columns[i].kind.literal(value)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// tablesJSON is the same as one value of JSON.
func (s setting) tablesJSON(text string) json.RawMessage {
	all := []map[string]json.RawMessage{}
	for _, row := range s.tables(text) {
		object := map[string]json.RawMessage{}
		for i, value := range row {
			if value != nil {
				object[s.columns[i].name] = value
			}
		}
		all = append(all, object)
	}
	written, _ := json.Marshal(all) // whose values were written as JSON
	return written
}
