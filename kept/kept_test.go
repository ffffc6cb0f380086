package kept

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFilesAreReplacedInOneStep(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "folder")
	path := filepath.Join(folder, "x.json")
	for _, text := range []string{"first", "", "the last one"} {
		if err := Replace(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := Read(path, 20); got == nil || string(got) != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("%v in the folder, want one file: %v", left, err)
	}
	if Read(path, 11) != nil || Read(path+"x", 11) != nil || Read(folder, 11) != nil {
		t.Error("a file that is too large, missing, or a folder is read")
	}
}

func TestAFolderThatCannotBeIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(file, "below")
	if Writable(below) == nil || Replace(filepath.Join(below, "x"), nil) == nil {
		t.Error("a folder below a file can be written")
	}
	if err := Writable(filepath.Join(t.TempDir(), "new")); err != nil {
		t.Error(err)
	}
	full := filepath.Join(t.TempDir(), "full")
	if err := os.Mkdir(full, 0o755); err != nil {
		t.Fatal(err)
	}
	if Replace(full, []byte("x")) == nil {
		t.Error("a file replaces a folder")
	}
	if left, _ := filepath.Glob(full + "?*"); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// No bit of a sealed file can change unseen, and none can be missing.
func TestSealsShowDamage(t *testing.T) {
	for _, data := range []string{"", "x", strings.Repeat("data\n", 30)} {
		file := Seal([]byte(data))
		if got := Unseal(file); string(got) != data || got == nil {
			t.Fatalf("%q, want %q", got, data)
		}
		for i := range file {
			for bit := range 8 {
				bad := bytes.Clone(file)
				bad[i] ^= 1 << bit
				if Unseal(bad) != nil {
					t.Errorf("bit %d of byte %d of %d: not seen", bit, i, len(file))
				}
			}
			if Unseal(file[:i]) != nil {
				t.Errorf("%d of %d bytes: not seen", i, len(file))
			}
		}
		if Unseal(append(bytes.Clone(file), 0)) != nil {
			t.Error("a byte more: not seen")
		}
	}
}
