package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"vkdecode/runtime"
)

// table is text in columns, for a person or for a Markdown document.
type table struct {
	header []string
	rows   [][]string
	left   int      // columns that begin at the same place; the others end there, as numbers should
	notes  []string // below
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// print writes the table.
func (t *table) print(w io.Writer, markdown bool) error {
	widths := make([]int, len(t.header))
	for _, row := range append([][]string{t.header}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for i, row := range append([][]string{t.header}, t.rows...) {
		padded := make([]string, len(row))
		for c, cell := range row {
			padded[c] = strings.Repeat(" ", widths[c]-utf8.RuneCountInString(cell))
			if c < t.left {
				padded[c] = cell + padded[c]
			} else {
				padded[c] += cell
			}
		}
		if !markdown {
			fmt.Fprintln(&b, strings.TrimRight(strings.Join(padded, "  "), " "))
			continue
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(padded, " | "))
		if i == 0 {
			b.WriteString("|")
			for c, width := range widths {
				if c < t.left {
					fmt.Fprintf(&b, ":%s|", strings.Repeat("-", width+1))
				} else {
					fmt.Fprintf(&b, "%s:|", strings.Repeat("-", width+1))
				}
			}
			b.WriteString("\n")
		}
	}
	for _, note := range t.notes {
		fmt.Fprintf(&b, "\n%s\n", note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// inPrecision says in which precision prompts were multiplied, after a comma; nothing of f32.
func inPrecision(p string) string {
	if p == "" || p == runtime.F32 {
		return ""
	}
	return ", prompts in " + p
}
