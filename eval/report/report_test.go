package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// render is the page of r.
func render(t *testing.T, r Results) string {
	t.Helper()
	dir := t.TempDir()
	if err := Write(dir, r); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, File))
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func TestThePageIsTheGolden(t *testing.T) {
	golden := filepath.Join("testdata", "sample.html")
	got := []byte(render(t, sample()))
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("the page differs from its golden; rewrite it with -update, look at it in a browser, and read the diff")
	}
}
