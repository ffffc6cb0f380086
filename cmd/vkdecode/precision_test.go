package main

import (
	"strings"
	"testing"
)

// Prompts are multiplied in the precision that was asked for, and it is said where that cannot be.
func TestPromptsAreMultipliedInThePrecisionThatWasAskedFor(t *testing.T) {
	asking := func(precision string, more ...string) result {
		t.Helper()
		r := vkdecode(t, append([]string{"bench", "synthetic:llama-3m:q4_1", "--kv", "full", "--depth", "0", "--repeat", "1", "--prompt", "20", "-n", "0", "--precision", precision}, more...)...)
		r.want(t, exitOK)
		return r
	}
	onFirstDriver(t, nil)
	for asked, want := range map[string]string{"f32": "f32", "int8": "int8", "f16": "f32"} {
		r := asking(asked, "--json")
		if !strings.Contains(r.stdout, `"precision":"`+want+`"`) || strings.Contains(r.stderr, "note: --precision f16 changes nothing") != (asked != want) {
			t.Errorf("asked for %s: %s%s", asked, r.stdout, r.stderr)
		}
	}
	if r := asking("int8"); !strings.Contains(r.stdout, ", prompts in int8; its memory") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	vkdecode(t, shortRun("--precision", "int8")...).want(t, exitOK, "note: --precision int8 changes nothing here: it is for weights of 2 to 6 bits")
	vkdecode(t, shortRun("--precision", "int4")...).want(t, exitUsage, "want f32, f16, int8")
}
