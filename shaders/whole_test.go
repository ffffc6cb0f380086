package shaders

import (
	"os"
	"strings"
	"testing"
)

// The kernels whose source asks for the number of workgroups are those whose code does.
func TestKernelsThatCountWorkgroupsAreKnown(t *testing.T) {
	entries, err := files.ReadDir("spirv")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, e := range entries {
		code, err := files.ReadFile("spirv/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		kernel, _, _ := strings.Cut(e.Name(), ".")
		source, err := os.ReadFile(kernel + ".comp")
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Contains(string(source), "gl_NumWorkGroups")
		if got := readsCount(code); got != want {
			t.Errorf("%s: counts workgroups %v, want %v", e.Name(), got, want)
		}
		if want {
			found++
		}
	}
	if found == 0 || found == len(entries) {
		t.Errorf("%d of %d count workgroups", found, len(entries))
	}
	for _, bad := range [][]byte{nil, make([]byte, 19), make([]byte, 64)} {
		if readsCount(bad) {
			t.Errorf("%d bytes count workgroups", len(bad))
		}
	}
}
