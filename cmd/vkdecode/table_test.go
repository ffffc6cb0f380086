package main

import (
	"strings"
	"testing"
)

func TestTablesAlignTheirColumns(t *testing.T) {
	table := &table{header: []string{"name", "n", "size"}, left: 1, notes: []string{"A note."}}
	table.add("é", "1000", "2 KiB")
	table.add("longer name", "7", "")
	for range 2 { // printing changes nothing
		for markdown, want := range map[bool]string{
			false: "name            n   size\né            1000  2 KiB\nlonger name     7\n\nA note.\n",
			true:  "| name        |    n |  size |\n|:------------|-----:|------:|\n| é           | 1000 | 2 KiB |\n| longer name |    7 |       |\n\nA note.\n",
		} {
			var b strings.Builder
			if err := table.print(&b, markdown); err != nil || b.String() != want {
				t.Errorf("%v\n%s\nwant\n%s", err, b.String(), want)
			}
		}
	}
}
