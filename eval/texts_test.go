package eval

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTextsOfAPathAreReadApartOrAsOne(t *testing.T) {
	folder := t.TempDir()
	for name, content := range map[string]string{"1.txt": "one\n", "2.txt": " \n", "3.txt": "three"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	texts, err := ReadTexts(folder)
	if err != nil || len(texts) != 2 || texts[0].Name != "1.txt" || texts[0].content != "one\n" || texts[1].content != "three" {
		t.Errorf("%+v, %v", texts, err)
	}
	whole, err := ReadWhole(folder)
	if err != nil || whole.content != "one\n\nthree" || whole.Name != filepath.Base(folder) || whole.Hash == texts[0].Hash {
		t.Errorf("%+v, %v", whole, err)
	}
	file := filepath.Join(folder, "1.txt")
	alone, err := ReadWhole(file)
	plain, failed := ReadText(file)
	if err != nil || failed != nil || *alone != *plain {
		t.Errorf("%+v and %+v, %v, %v", alone, plain, err, failed)
	}
	wiki := filepath.Join(folder, "wiki.raw")
	if err := os.WriteFile(wiki, []byte(" \n = One = \n \n first , \n \n = Two = \n \n second \n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if texts, err = ReadTexts(wiki); err != nil || len(texts) != 1 || texts[0].Name != "wiki.raw" || texts[0].content != "= One =\n\nfirst,\n\n= Two =\n\nsecond" {
		t.Errorf("%+v, %v", texts[0], err)
	}
	if _, err := ReadWhole(filepath.Join(folder, "2.txt")); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("a blank file: %v", err)
	}
	if _, err := ReadTexts(filepath.Join(folder, "4.txt")); err == nil || !strings.HasPrefix(err.Error(), "eval: data: ") {
		t.Errorf("no file: %v", err)
	}
}

func TestTextsOfMoreThanCanBeHeldAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "big.txt")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(mostText + 1); err != nil { // a hole: it takes no room
		t.Fatal(err)
	}
	if _, err := ReadTexts(path); err == nil || !strings.Contains(err.Error(), "more than 512 MiB") {
		t.Errorf("%v", err)
	}
}
