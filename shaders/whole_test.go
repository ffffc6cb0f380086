package shaders

import (
	"io/fs"
	"os"
	"regexp"
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

// Drivers may cut off where packHalf2x16 has to round, so only what is an f16 already goes into it.
func TestOnlyOnePlaceRoundsToHalves(t *testing.T) {
	call, found := regexp.MustCompile(`\bpackHalf2x16\(`), 0
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".glsl") && !strings.HasSuffix(path, ".comp") {
			return err
		}
		source, err := os.ReadFile(path)
		if err == nil && call.Match(source) {
			found++
			if path != "include/half.glsl" {
				t.Errorf("%s calls packHalf2x16, want pack_half of include/half.glsl", path)
			}
		}
		return err
	})
	if err != nil || found == 0 {
		t.Errorf("%d files call packHalf2x16, want 1 (%v)", found, err)
	}
}
