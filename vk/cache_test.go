package vk_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vkdecode/kept"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// cacheFile is the one file in a folder.
func cacheFile(t *testing.T, dir string) (path string, data []byte) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v in the cache's folder, %v; want one file", found, err)
	}
	data, err = os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return found[0], data
}

func TestPipelineCacheIsKeptOnDisk(t *testing.T) {
	for _, name := range drivers.Names() {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new", "folder")
			save := func() {
				t.Helper()
				d := drivers.Open(t, name, true)
				if err := d.UsePipelineCache(dir); err != nil {
					t.Fatal(err)
				}
				pipeline(t, d, "scale", 64, 3)
				if err := d.SavePipelineCache(); err != nil {
					t.Fatal(err)
				}
			}
			save()
			path, first := cacheFile(t, dir)
			if d := drivers.Open(t, name, false); !strings.HasPrefix(filepath.Base(path), d.Info.UUID+"-") {
				t.Errorf("the file is %s, want a name by UUID %s and version", path, d.Info.UUID)
			}
			save() // reads it, and finds the pipeline in it
			if _, again := cacheFile(t, dir); len(again) > len(first) {
				t.Errorf("the file grew from %d to %d bytes though nothing new was compiled", len(first), len(again))
			}

			header := len(kept.Seal(nil)) // of our own: the hash
			for damage, spoil := range map[string]func(b []byte) []byte{
				"empty":     func([]byte) []byte { return nil },
				"cut":       func(b []byte) []byte { return b[:len(b)/2] },
				"bit flip":  func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
				"not ours":  func(b []byte) []byte { return random(len(b)) },
				"long tail": func(b []byte) []byte { return append(b, 0) },
				"no hash":   func(b []byte) []byte { return b[header:] },
			} {
				bad := spoil(bytes.Clone(first))
				if err := os.WriteFile(path, bad, 0o644); err != nil {
					t.Fatal(err)
				}
				save()
				if _, now := cacheFile(t, dir); bytes.Equal(now, bad) || len(now) < header+32 {
					t.Errorf("%s: the damaged file was not replaced", damage)
				}
			}
		})
	}
}

func TestPipelineCacheOfAnotherDeviceIsIgnored(t *testing.T) {
	for _, name := range drivers.Names() {
		t.Run(name, func(t *testing.T) {
			d := drivers.Open(t, name, false)
			dir := t.TempDir()
			if err := d.UsePipelineCache(dir); err != nil {
				t.Fatal(err)
			}
			if err := d.SavePipelineCache(); err != nil {
				t.Fatal(err)
			}
			_, file := cacheFile(t, dir)
			own := append(kept.Unseal(file), 1, 2, 3) // the driver's data, with something behind the header
			if !bytes.Equal(d.CacheBody(kept.Seal(own)), own) {
				t.Fatal("the device's own file is ignored")
			}
			if d.CacheBody(kept.Seal(own[:32])) != nil {
				t.Error("a file with a header only is used")
			}
			for field, at := range map[string]int{"version": 4, "vendor": 8, "device": 12, "driver": 16} {
				foreign := bytes.Clone(own)
				foreign[at] ^= 0xff
				if d.CacheBody(kept.Seal(foreign)) != nil {
					t.Errorf("a file with another %s is used", field)
				}
			}
		})
	}
}

func TestPipelineCacheWithoutAFolderIsOnlyAWarning(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := d.UsePipelineCache(filepath.Join(file, "below")); err == nil || !strings.HasPrefix(err.Error(), "vk: pipeline cache: ") {
			t.Errorf("a folder below a file: %v", err)
		}
		pipeline(t, d, "scale", 64, 1) // still works
		if err := d.SavePipelineCache(); err == nil {
			t.Error("saving there succeeds")
		}
	})
}

func TestSavePipelineCacheWithoutOneDoesNothing(t *testing.T) {
	d := drivers.Open(t, drivers.Names()[0], false)
	if err := d.SavePipelineCache(); err != nil {
		t.Error(err)
	}
}
