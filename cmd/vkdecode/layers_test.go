package main

import (
	"strings"
	"testing"
)

// A run says which layers it reads from the host's memory, and is otherwise the same.
func TestRunsTellOfLayersInTheHostsMemory(t *testing.T) {
	eachDriver(t, func(t *testing.T) {
		read := func(more ...string) (r runJSON, stderr string) {
			t.Helper()
			got := vkdecode(t, shortRun(append(more, "--json")...)...)
			got.want(t, exitOK)
			got.read(t, &r)
			return r, got.stderr
		}
		all, quiet := read()
		some, told := read("--gpu-layers", "1")
		if all.Layers != 3 || all.HostBytes != 0 || strings.Contains(quiet, "layers") {
			t.Errorf("%d layers, %d bytes in the host's memory: %s", all.Layers, all.HostBytes, quiet)
		}
		if some.Layers != 1 || some.HostBytes <= 0 || !strings.Contains(told, "note: the weights of 1 of 3 layers lie in the device's own memory") {
			t.Errorf("%d layers, %d bytes in the host's memory: %s", some.Layers, some.HostBytes, told)
		}
		if all.LogitsHash != some.LogitsHash {
			t.Errorf("logits %s and %s", all.LogitsHash, some.LogitsHash)
		}
	})
	vkdecode(t, shortRun("--gpu-layers", "-2")...).want(t, exitUsage, "gpu-layers")
	vkdecode(t, "bench", quickTune, "--depth", "0", "--prompt", "0", "-n", "2", "--repeat", "1", "--kv", "full", "--gpu-layers", "0").want(t, exitOK, "0 of 3 layers")
	if r := vkdecode(t, "plan", builtinName); !strings.Contains(r.stdout, "in the layers, ") || !strings.Contains(r.stdout, "--gpu-layers") {
		t.Errorf("%s", r.stdout)
	}
}
