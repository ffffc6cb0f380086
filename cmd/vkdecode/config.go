package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"
)

const configName = "vkdecode.toml"

// configuration is a Config with the origin of every value.
type configuration struct {
	Config
	file   string           // that was read, or none
	values map[string]value // by key, every setting
}

// value is the text of a setting and where it came from: "default", FILE:LINE,
// a variable or a flag.
type value struct{ text, source string }

// loadConfig layers defaults, file, environment and the flags that bindSettings
// gave cmd, each over the one before. Every error is a usage error.
func loadConfig(cmd *cobra.Command) (*configuration, error) {
	c := &configuration{values: map[string]value{}}
	for _, s := range settings {
		if err := c.set(s, value{s.initial, "default"}); err != nil {
			panic(err) // our own table
		}
	}
	given, _ := cmd.Flags().GetString("config")
	if err := c.readFile(given); err != nil {
		return nil, usageError{err}
	}
	if err := c.readEnvironment(os.Environ()); err != nil {
		return nil, usageError{err}
	}
	for _, s := range settings {
		if f := cmd.Flags().Lookup(s.flag); f != nil && f.Changed {
			if err := c.set(s, value{f.Value.String(), "--" + s.flag}); err != nil {
				return nil, usageError{err}
			}
		}
	}
	return c, nil
}

func (c *configuration) set(s setting, v value) error {
	if err := s.set(&c.Config, v.text); err != nil {
		return fmt.Errorf("config: %s: %s: %w", v.source, s.key, err)
	}
	c.values[s.key] = v
	return nil
}

// readFile reads the given file, which must exist; with none given the first
// there is of ./vkdecode.toml and the one in the user's configuration folder.
func (c *configuration) readFile(given string) error {
	if given != "" {
		data, err := os.ReadFile(given)
		if err != nil {
			return fmt.Errorf("config: --config: %w", err)
		}
		return c.readTOML(given, string(data))
	}
	candidates := []string{configName}
	if folder, err := os.UserConfigDir(); err == nil { // none without a home
		candidates = append(candidates, filepath.Join(folder, "vkdecode", configName))
	}
	for _, path := range candidates {
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("config: %w", err)
		}
		return c.readTOML(path, string(data))
	}
	return nil
}

func (c *configuration) readTOML(path, data string) error {
	c.file = path
	doc := document{path: path}
	var err error
	if doc.meta, err = toml.Decode(data, &doc.tables); err != nil {
		var bad toml.ParseError
		if errors.As(err, &bad) {
			return fmt.Errorf("config: %s:%d: %s", path, bad.Position.Line, strings.TrimPrefix(bad.Message, "toml: "))
		}
		return fmt.Errorf("config: %s: %w", path, err)
	}
	for _, key := range doc.meta.Keys() { // in the order of the file
		if err := c.readKey(doc, key); err != nil {
			return err
		}
	}
	return nil
}

func (c *configuration) readKey(doc document, key toml.Key) error {
	dotted := strings.Join(key, ".")
	if len(key) == 1 && slices.Contains(sections(), dotted) {
		if doc.meta.Type(key...) != "Hash" {
			return fmt.Errorf("config: %s: %s: want a section [%s]", doc.at(key), dotted, dotted)
		}
		return nil
	}
	i := slices.IndexFunc(settings, func(s setting) bool {
		return s.key == dotted || s.kind == tables && strings.HasPrefix(dotted, s.key+".")
	})
	if i < 0 {
		return fmt.Errorf("config: %s: unknown key %q%s", doc.at(key), dotted, nearestKey(dotted))
	}
	s := settings[i]
	if s.kind == tables {
		return c.readTables(doc, s, strings.Split(s.key, "."))
	}
	var raw any
	if err := doc.decode(key, &raw); err != nil {
		return fmt.Errorf("config: %s: %w", doc.at(key), err)
	}
	given, fits := s.kind.text(raw)
	if !fits {
		return fmt.Errorf("config: %s: %s: got %s, want %s", doc.at(key), s.key, describe(raw), s.kind)
	}
	return c.set(s, value{given, doc.at(key)})
}

// text returns a value of the file as a flag would give it, and whether its
// type fits.
func (k kind) text(raw any) (given string, fits bool) {
	switch v := raw.(type) {
	case bool:
		return strconv.FormatBool(v), k == truth
	case int64:
		return strconv.FormatInt(v, 10), k == whole || k == number || k == either
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), k == number
	case string:
		return v, k == text || k == either
	}
	return "", false
}

func describe(raw any) string {
	switch v := raw.(type) {
	case bool, int64, float64:
		return fmt.Sprint(v)
	case string:
		return fmt.Sprintf("the string %q", v)
	case []any:
		return "an array"
	case map[string]any, []map[string]any:
		return "a section"
	}
	return "a date" // all that is left in TOML
}

// nearestKey is the end of an error about an unknown key: the same name in
// another section, or the key it resembles, or all there are.
func nearestKey(dotted string) string {
	name := dotted[strings.LastIndex(dotted, ".")+1:]
	keys := sections()
	for _, s := range settings {
		if s.name() == name {
			return fmt.Sprintf("; did you mean %q?", s.key)
		}
		keys = append(keys, s.key)
	}
	return orAll(didYouMean(dotted, keys), keys[len(sections()):])
}

// orAll is a hint, or where there is none all that is known.
func orAll(hint string, known []string) string {
	if hint != "" {
		return hint
	}
	return "; known are " + strings.Join(known, ", ")
}

// readEnvironment takes VKDECODE_SECTION_NAME=value. Other names that begin
// with VKDECODE_ are not ours to judge, but a section's name with an unknown
// key is an error as it is in the file.
func (c *configuration) readEnvironment(environ []string) error {
	var names []string
	for _, s := range settings {
		names = append(names, s.env())
	}
	for _, entry := range environ {
		name, text, _ := strings.Cut(entry, "=")
		if i := slices.Index(names, name); i >= 0 {
			if err := c.set(settings[i], value{text, name}); err != nil {
				return err
			}
			continue
		}
		for _, section := range sections() {
			if strings.HasPrefix(name, envPrefix+strings.ToUpper(section)+"_") {
				return fmt.Errorf("config: unknown variable %s%s", name, didYouMean(name, names))
			}
		}
	}
	return nil
}

// document is a parsed file that knows on which line each key stands.
type document struct {
	path   string
	meta   toml.MetaData
	tables map[string]toml.Primitive
}

func (d document) decode(key toml.Key, into any) error {
	table := d.tables
	for _, name := range key[:len(key)-1] {
		inner := map[string]toml.Primitive{}
		if err := d.meta.PrimitiveDecode(table[name], &inner); err != nil {
			return err
		}
		table = inner
	}
	return d.meta.PrimitiveDecode(table[key[len(key)-1]], into)
}

// at returns FILE:LINE of a key, or FILE for one that no line of its own defines.
func (d document) at(key toml.Key) string {
	var here toml.ParseError
	if errors.As(d.decode(key, &refusal{}), &here) && here.Position.Line > 0 {
		return fmt.Sprintf("%s:%d", d.path, here.Position.Line)
	}
	return d.path
}

// refusal cannot be decoded: the decoder's error tells where the key stands.
type refusal struct{}

func (*refusal) UnmarshalTOML(any) error { return errors.New("refused") }
