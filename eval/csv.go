package eval

import (
	"encoding/csv"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// WriteCSV writes results of one kind as a table: a line of the names that JSON has, then a line for each. What is null
// there is empty here. The perplexities of the buckets stand in columns ppl_part_1 to ppl_part_8; fields tagged csv:"-" are
// left out.
func WriteCSV[T any](w io.Writer, results []T) error {
	out := csv.NewWriter(w)
	out.Write(header(reflect.TypeFor[T]()))
	for _, r := range results {
		out.Write(record(reflect.ValueOf(r)))
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("eval: CSV: %w", err)
	}
	return nil
}

var buckets = reflect.TypeFor[[]Bucket]()

func header(t reflect.Type) (names []string) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Tag.Get("csv") == "-":
		case f.Anonymous:
			names = append(names, header(f.Type)...)
		case f.Type == buckets:
			for i := range parts {
				names = append(names, fmt.Sprintf("ppl_part_%d", i+1))
			}
		default:
			names = append(names, name)
		}
	}
	return names
}

func record(v reflect.Value) (cells []string) {
	for f, value := range v.Fields() {
		switch {
		case f.Tag.Get("csv") == "-":
		case f.Anonymous:
			cells = append(cells, record(value)...)
		case f.Type == buckets:
			of := value.Interface().([]Bucket)
			for i := range parts {
				cell := ""
				if len(of) == parts {
					cell = number(of[i].PPL)
				}
				cells = append(cells, cell)
			}
		default:
			cells = append(cells, cell(value))
		}
	}
	return cells
}

func cell(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	if v.Kind() == reflect.Float64 {
		return number(v.Float())
	}
	return fmt.Sprint(v.Interface())
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
