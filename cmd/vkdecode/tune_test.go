package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vkdecode/runtime"
)

const quickTune = "synthetic:llama-3m:q4_0"

// tuningFile is the one that measuring has left.
func tuningFile(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "vkdecode", "tuning-*.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("files of tunings %q: %v", found, err)
	}
	return found[0]
}

// Measuring tells of every way and leaves a file, of which later runs and reports know; a damaged one is none.
func TestWhatWasMeasuredIsUsedByLaterRuns(t *testing.T) {
	eachDriver(t, func(t *testing.T) {
		t.Setenv("XDG_CACHE_HOME", t.TempDir())
		const untuned = "launched as devices of its kind are"
		vkdecode(t, shortRun("-v")...).want(t, exitOK, untuned)
		r := vkdecode(t, "bench", builtinName, "--tune", "--json")
		r.want(t, exitOK)
		won, products := 0, map[runtime.Product]bool{}
		for line := range strings.Lines(r.stdout) {
			var one tuneLine
			if err := json.Unmarshal([]byte(line), &one); err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			if one.Kind != "tuning" || one.Device == "" || one.Wrong != "" || one.Micros <= 0 || one.Ratio <= 0 || one.Table && one.Ratio != 1 {
				t.Errorf("%s", line)
			}
			products[one.Product] = true
			if one.Won {
				won++
			}
		}
		if won != len(products) || won == 0 { // linked products are launched together, and not measured
			t.Errorf("%d ways won, of %d products", won, len(products))
		}
		const tuned = "products that were measured"
		r = vkdecode(t, shortRun("-v")...)
		if r.want(t, exitOK, tuned); strings.Contains(r.stderr, untuned) {
			t.Errorf("%s", r.stderr)
		}
		t.Setenv("VKDECODE_DEBUG", "1")
		vkdecode(t, shortRun()...).want(t, exitOK, tuned)
		t.Setenv("VKDECODE_DEBUG", "")
		if r := vkdecode(t, shortRun()...); strings.Contains(r.stderr, "measured") {
			t.Errorf("a run that nobody asked tells of it: %s", r.stderr)
		}
		if r := vkdecode(t, "devices"); !strings.Contains(r.stdout, "measured, ") {
			t.Errorf("%s", r.stdout)
		}
		path := tuningFile(t)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		whole[len(whole)/2] ^= 1
		if err := os.WriteFile(path, whole, 0o666); err != nil {
			t.Fatal(err)
		}
		vkdecode(t, shortRun("-v")...).want(t, exitOK, untuned)
		if r := vkdecode(t, "devices"); !strings.Contains(r.stdout, "by kind") {
			t.Errorf("%s", r.stdout)
		}
	})
}

// What is in the file decides how products are launched.
func TestRunsTakeTheWayThatWasMeasured(t *testing.T) {
	onFirstDriver(t, nil)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	vkdecode(t, "bench", builtinName, "--tune").want(t, exitOK)
	c, err := loadConfig(newRun())
	if err != nil {
		t.Fatal(err)
	}
	l, err := openDevice(t.Context(), c, 0, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	info := l.device.Info
	l.close()
	folder := filepath.Dir(tuningFile(t))
	m := runtime.ReadMeasured(folder, info)
	if m == nil {
		t.Fatal("nothing was measured")
	}
	t.Setenv("VKDECODE_DEBUG", "3")
	grids := func() (matmuls []string) {
		for line := range strings.Lines(vkdecode(t, shortRun()...).stderr) {
			if strings.HasPrefix(line, "matmul") {
				matmuls = append(matmuls, line)
			}
		}
		return matmuls
	}
	before := grids()
	for i := range m.Choices {
		ways := runtime.Launches(info, runtime.TuningFor(info).Form)
		m.Choices[i].Launch = ways[(slices.Index(ways, m.Choices[i].Launch)+1)%4]
	}
	if err := m.Save(folder, info); err != nil {
		t.Fatal(err)
	}
	vkdecode(t, shortRun()...).want(t, exitOK, "rows each") // which products are launched otherwise
	after := grids()
	if len(before) != len(after) {
		t.Fatalf("%d products, before %d", len(after), len(before))
	}
	changed := 0
	for i := range before {
		if before[i] != after[i] {
			changed++
		}
	}
	if changed < len(m.Choices) {
		t.Errorf("%d products are launched otherwise, want %d at least", changed, len(m.Choices))
	}
}

func TestTuningPrintsATableAndGoesOnWithoutAFolder(t *testing.T) {
	onFirstDriver(t, nil)
	write(t, "file", "")
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", filepath.Join(wd, "file", "below"))
	r := vkdecode(t, "bench", quickTune, "--tune", "--markdown")
	r.want(t, exitOK, "note: what was measured is not kept")
	for _, part := range []string{quickTune + " on ", "| product", "won", "q4_0 2048x256 norm", "later runs: "} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("%q is missing in:\n%s", part, r.stdout)
		}
	}
	vkdecode(t, shortRun("-v")...).want(t, exitOK, "launched as devices of its kind are")
}

func TestTuningRefusesWhatItDoesNotMeasure(t *testing.T) {
	inFolder(t, nil)
	vkdecode(t, "bench", quickTune, "--tune", "--depth", "5").want(t, exitUsage, "depth tune")
	vkdecode(t, "bench", "synthetic:none", "--tune").want(t, exitUsage, "shape")
	vkdecode(t, "bench", "none.gguf", "--tune").want(t, exitFailure, "none.gguf")
}
