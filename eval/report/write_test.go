package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWriteMakesTheFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := Write(dir, sample()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, File))
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the page is %v, %v, want a file that all may read", info, err)
	}
	if left := entries(t, dir); len(left) != 1 {
		t.Errorf("the folder holds %q, want the page only", left)
	}
}

func TestWriteReplacesTheOldPage(t *testing.T) {
	dir := t.TempDir()
	if err := Write(dir, Results{Title: "the first"}); err != nil {
		t.Fatal(err)
	}
	old, err := os.Open(filepath.Join(dir, File)) // as a browser that is just reading it
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if err := Write(dir, Results{Title: "the second"}); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 1<<20)
	n, _ := old.Read(first)
	second, err := os.ReadFile(filepath.Join(dir, File))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(first[:n]), "the first") || !strings.Contains(string(second), "the second") {
		t.Error("the reader of the old page or that of the new one does not see its own")
	}
}

func TestWriteSaysWhyItCannot(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, File, "inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	locked := filepath.Join(dir, "locked")
	if err := os.Mkdir(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	cases := map[string]string{
		file:                       `report: folder "` + file + `" cannot be made: `,
		filepath.Join(file, "sub"): `report: folder "` + filepath.Join(file, "sub") + `" cannot be made: `,
		taken:                      `report: index.html cannot be written to folder "` + taken + `": `,
	}
	if os.Geteuid() != 0 { // nothing is locked for root
		cases[locked] = `report: index.html cannot be written to folder "` + locked + `": `
	}
	for folder, want := range cases {
		err := Write(folder, sample())
		if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "; name ") {
			t.Errorf("error is %v\nwant %s…", err, want)
		}
	}
	if left := entries(t, taken); len(left) != 1 {
		t.Errorf("the folder holds %q after the error, want what was there", left)
	}
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		names = append(names, e.Name())
	}
	return names
}
