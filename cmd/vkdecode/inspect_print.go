package main

import (
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"vkdecode/model/gguf"
)

const (
	shownElements = 8  // of an array
	shownBytes    = 72 // of a string, on one line
)

type tensorEntry struct {
	Name  string  `json:"name"`
	Shape []int64 `json:"shape"` // elements, the contiguous dimension first
	Type  string  `json:"type"`
	Bytes int64   `json:"bytes"`
}

// keyEntry is a metadata value; of an array, the first few elements and the length.
type keyEntry struct {
	Key    string `json:"key"`
	Type   string `json:"type"` // Go's name
	Length *int   `json:"length,omitempty"`
	Value  any    `json:"value"`
}

func listTensors(f *gguf.File) (entries []tensorEntry) {
	for _, t := range f.Tensors() {
		entries = append(entries, tensorEntry{t.Name, t.Shape, t.Type.String(), int64(len(t.Data))})
	}
	return entries
}

func listKeys(f *gguf.File) (entries []keyEntry) {
	for _, key := range f.Keys() {
		v, _ := f.Value(key)
		e := keyEntry{Key: key, Type: strings.ReplaceAll(fmt.Sprintf("%T", v), "interface {}", "any")}
		if r := reflect.ValueOf(v); r.Kind() == reflect.Slice {
			length := r.Len()
			e.Length = &length
		}
		e.Value = short(reflect.ValueOf(v))
		entries = append(entries, e)
	}
	return entries
}

// short cuts arrays at every depth, and writes the numbers that JSON lacks as strings.
func short(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Interface:
		return short(v.Elem())
	case reflect.Slice:
		few := []any{}
		for i := range min(shownElements, v.Len()) {
			few = append(few, short(v.Index(i)))
		}
		return few
	case reflect.Float32, reflect.Float64:
		if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Sprint(x)
		}
	}
	return v.Interface()
}

func (r *inspection) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	named := func(name, text string) {
		if text != "" {
			fmt.Fprintf(t, "%s\t%s\n", name, oneLine(text))
		}
	}
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
	row("file", "%s, %s, GGUF version %d", r.File, decimalSize(r.Bytes), r.Version)
	named("architecture", r.Architecture)
	named("name", r.Name)
	named("license", r.License)
	row("parameters", "%d in %d tensors, %s", r.Parameters, r.TensorCount, decimalSize(r.TensorBytes))
	row("layers", "%d", r.Layers)
	row("width", "%d, feed-forward %v", r.Width, r.FeedForward)
	row("heads", "%v query, %v KV, of %d", r.Heads, r.KVHeads, r.HeadDim)
	row("context", "%d tokens, rope base %v", r.Context, r.RopeBase)
	k := r.Tokenizer
	row("tokenizer", "%s %s, %d tokens, %d merges", oneLine(k.Model), oneLine(k.Pre), k.Tokens, k.Merges)
	row("BOS, EOS", "%v, %v", k.BOS, k.EOS)
	template := "no"
	if k.ChatTemplate {
		template = "yes"
	}
	row("chat template", "%s", template)
	if err := t.Flush(); err != nil {
		return err
	}

	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "type\ttensors\telements\tbytes\t\t")
	for _, c := range r.Types {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\t\n", c.Type, c.Tensors, c.Elements, c.Bytes, decimalSize(c.Bytes))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	r.printTensors(w)
	r.printKeys(w)
	for _, problem := range r.Problems {
		fmt.Fprintf(w, "\nproblem: %s\n", problem)
	}
	return nil
}

func (r *inspection) printTensors(w io.Writer) {
	if r.Tensors == nil {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\ntensor\ttype\tshape\tbytes")
	for _, e := range r.Tensors {
		fmt.Fprintf(t, "%s\t%s\t%v\t%d\n", oneLine(e.Name), e.Type, e.Shape, e.Bytes)
	}
	t.Flush()
}

func (r *inspection) printKeys(w io.Writer) {
	if r.Keys == nil {
		return
	}
	fmt.Fprintln(w)
	for _, e := range r.Keys {
		fmt.Fprintf(w, "%s = %s", oneLine(e.Key), shown(e.Value))
		if e.Length != nil && *e.Length > shownElements {
			fmt.Fprintf(w, " (the first of %d)", *e.Length)
		}
		fmt.Fprintln(w)
	}
}

// shown writes a value on one line.
func shown(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%q", cut(v))
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, shown(e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprint(v)
}

// oneLine makes a string of the file safe for a terminal: it may hold anything.
func oneLine(s string) string {
	quoted := fmt.Sprintf("%q", cut(s))
	return quoted[1 : len(quoted)-1]
}

func cut(s string) string {
	if len(s) <= shownBytes {
		return s
	}
	end := shownBytes
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

func (t *token) String() string {
	if t == nil {
		return "none"
	}
	return fmt.Sprintf("%d %s", t.ID, shown(t.Text))
}
