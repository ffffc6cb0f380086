package h2o

import (
	"fmt"
	"strings"
)

// Spec names a policy with its options, as --kv takes it:
// "h2o:score=guide:decay=0.999". It says nothing about which names and options
// exist.
type Spec struct {
	Name    string
	Options []Option // in the order given
	text    string
}

// Option is one key=value of a Spec.
type Option struct{ Key, Value string }

// ParseSpec reads one policy with its options.
func ParseSpec(text string) (Spec, error) {
	refuse := func(format string, args ...any) (Spec, error) {
		return Spec{}, fmt.Errorf("h2o: policy %q: %s; give a name and options like h2o:score=guide:decay=0.999",
			text, fmt.Sprintf(format, args...))
	}
	parts := strings.Split(strings.TrimSpace(text), ":")
	s := Spec{Name: parts[0], text: strings.TrimSpace(text)}
	if s.Name == "" {
		return refuse("no name")
	}
	if !isWord(s.Name) {
		return refuse("%q is no name (lower-case letters, digits, - and _)", s.Name)
	}
	for _, part := range parts[1:] {
		key, value, found := strings.Cut(part, "=")
		switch {
		case !found:
			return refuse("option %q has no value", part)
		case !isWord(key):
			return refuse("option %q: %q is no key (lower-case letters, digits, - and _)", part, key)
		case value == "" || strings.ContainsAny(value, ", \t\n"):
			return refuse("option %q: the value is empty or holds a space or comma", part)
		}
		if _, twice := s.Option(key); twice {
			return refuse("option %q is given twice", key)
		}
		s.Options = append(s.Options, Option{Key: key, Value: value})
	}
	return s, nil
}

// ParseSpecs reads several policies separated by commas.
func ParseSpecs(text string) ([]Spec, error) {
	var specs []Spec
	for one := range strings.SplitSeq(text, ",") {
		s, err := ParseSpec(one)
		if err != nil {
			return nil, err
		}
		specs = append(specs, s)
	}
	return specs, nil
}

// Option returns the value given for key.
func (s Spec) Option(key string) (value string, given bool) {
	for _, o := range s.Options {
		if o.Key == key {
			return o.Value, true
		}
	}
	return "", false
}

// String returns the policy as it was given: results name it by this.
func (s Spec) String() string { return s.text }

// MarshalText writes the policy as it was given.
func (s Spec) MarshalText() ([]byte, error) { return []byte(s.text), nil }

// UnmarshalText reads what MarshalText wrote; nothing is the zero Spec.
func (s *Spec) UnmarshalText(text []byte) (err error) {
	*s = Spec{}
	if len(text) > 0 {
		*s, err = ParseSpec(string(text))
	}
	return err
}

func isWord(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' {
			return false
		}
	}
	return s != ""
}
