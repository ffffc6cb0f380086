package data

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// fields are the members of a row.
type fields map[string]json.RawMessage

// has tells whether all fields are there, null or not.
func (f fields) has(names ...string) bool {
	for _, name := range names {
		if _, ok := f[name]; !ok {
			return false
		}
	}
	return true
}

// list tells whether a field is an array.
func (f fields) list(name string) bool { return kind(f[name]) == "array" }

// text reads a string without the white space around it.
func (f fields) text(name string) (string, error) {
	if !f.has(name) {
		return "", fmt.Errorf("field %q is missing", name)
	}
	var text string
	if err := json.Unmarshal(f[name], &text); err != nil || kind(f[name]) != "string" {
		return "", fmt.Errorf("field %q is %s, want a string", name, article(kind(f[name])))
	}
	return strings.TrimSpace(text), nil
}

// optional is text for a field that may be missing or null.
func (f fields) optional(name string) (string, error) {
	if !f.has(name) || kind(f[name]) == "null" {
		return "", nil
	}
	return f.text(name)
}

// texts reads an array of strings.
func (f fields) texts(name string) ([]string, error) {
	if !f.has(name) {
		return nil, fmt.Errorf("field %q is missing", name)
	}
	var texts []string
	if err := json.Unmarshal(f[name], &texts); err != nil || kind(f[name]) != "array" {
		return nil, fmt.Errorf("field %q is not an array of strings", name)
	}
	for i := range texts {
		texts[i] = strings.TrimSpace(texts[i])
	}
	return texts, nil
}

// object reads an object within the row.
func (f fields) object(name string) (fields, error) {
	if !f.has(name) {
		return nil, fmt.Errorf("field %q is missing", name)
	}
	var inner fields
	if err := json.Unmarshal(f[name], &inner); err != nil || inner == nil {
		return nil, fmt.Errorf("field %q is %s, want an object", name, article(kind(f[name])))
	}
	return inner, nil
}

// objects reads an array of objects.
func (f fields) objects(name string) ([]fields, error) {
	if !f.has(name) {
		return nil, fmt.Errorf("field %q is missing", name)
	}
	var inner []fields
	if err := json.Unmarshal(f[name], &inner); err != nil || kind(f[name]) != "array" {
		return nil, fmt.Errorf("field %q is not an array of objects", name)
	}
	return inner, nil
}

// index reads which of n options is meant: a number from 0, alone or in a string, or a letter.
func (f fields) index(name string, n int) (int, error) {
	if !f.has(name) || kind(f[name]) == "null" {
		return 0, fmt.Errorf("field %q is missing: it says which option is right", name)
	}
	text := string(f[name])
	if kind(f[name]) == "string" {
		var err error
		if text, err = f.text(name); err != nil {
			return 0, err
		}
	}
	at, err := strconv.Atoi(text)
	if len(text) == 1 && text[0] >= 'A' && text[0] <= 'Z' {
		at, err = int(text[0]-'A'), nil
	}
	if err != nil || at < 0 || at >= n {
		return 0, fmt.Errorf("field %q: %q is none of %d options", name, shorten(text), n)
	}
	return at, nil
}

// truth reads true or false, alone or in a string.
func (f fields) truth(name string) (bool, error) {
	text := string(f[name])
	if kind(f[name]) == "string" {
		var err error
		if text, err = f.text(name); err != nil {
			return false, err
		}
	}
	switch strings.ToLower(text) {
	case "true", "yes":
		return true, nil
	case "false", "no":
		return false, nil
	}
	return false, fmt.Errorf("field %q: %q, want true or false", name, shorten(text))
}

// kind names what a JSON value is.
func kind(value json.RawMessage) string {
	if len(value) == 0 {
		return "missing"
	}
	switch value[0] {
	case '"':
		return "string"
	case '[':
		return "array"
	case '{':
		return "object"
	case 't', 'f':
		return "bool"
	case 'n':
		return "null"
	}
	return "number"
}

func article(kind string) string {
	switch kind {
	case "array", "object":
		return "an " + kind
	case "null", "missing":
		return kind
	}
	return "a " + kind
}

// shorten keeps a hostile text from filling an error.
func shorten(text string) string {
	const most = 40
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
