package main

import (
	"strings"
	"testing"
)

// Prompts are multiplied in the precision that was asked for, and it is said where that cannot be.
func TestPromptsAreMultipliedInThePrecisionThatWasAskedFor(t *testing.T) {
	eachDriver(t, func(t *testing.T) {
		for asked, want := range map[string]string{"f32": "f32", "int8": "int8", "f16": "f32"} {
			r := vkdecode(t, append(tiny, "--kv", "full", "--depth", "0", "--repeat", "1", "--json", "--precision", asked)...)
			r.want(t, exitOK)
			if !strings.Contains(r.stdout, `"precision":"`+want+`"`) || strings.Contains(r.stderr, "note: --precision f16 changes nothing") != (asked != want) {
				t.Errorf("asked for %s: %s%s", asked, r.stdout, r.stderr)
			}
		}
		r := vkdecode(t, shortRun("--precision", "int8")...)
		r.want(t, exitOK, "note: --precision int8 changes nothing here: it is for weights of 2 to 6 bits")
	})
	if r := vkdecode(t, append(tiny, "--kv", "full", "--depth", "0", "--repeat", "1", "--precision", "int8")...); !strings.Contains(r.stdout, ", prompts in int8; its memory") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	vkdecode(t, shortRun("--precision", "int4")...).want(t, exitUsage, "want f32, f16, int8")
}
