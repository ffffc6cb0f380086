package main

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestNPYHoldsEveryRow(t *testing.T) {
	for _, rows := range []int{0, 1, 7, 1000} {
		path := filepath.Join(t.TempDir(), "logits.npy")
		n, err := createNPY(path, 3)
		if err != nil {
			t.Fatal(err)
		}
		var want []float32
		for i := range rows {
			row := []float32{float32(i), -0.5, float32(math.Inf(-1))}
			want = append(want, row...)
			if err := n.Write(row); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("the file has its name before it is whole")
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		n.Discard() // must not remove what Close has named
		gotRows, columns, got := readNPY(t, path)
		if gotRows != rows || columns != 3 || !slices.Equal(got, want) {
			t.Errorf("%d rows of 3: read (%d, %d), %d values", rows, gotRows, columns, len(got))
		}
		if left := files(t, filepath.Dir(path)); len(left) != 1 {
			t.Errorf("left behind: %v", left)
		}
	}
}

func TestNPYTakesSeveralRowsAtOnceButNoParts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npy")
	n, err := createNPY(path, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Write([]float32{1, 2, 3}); err == nil || !strings.Contains(err.Error(), "want whole rows of 2") {
		t.Errorf("one row and a half: %v", err)
	}
	if err := n.Write([]float32{1, 2, 3, 4}); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if rows, _, got := readNPY(t, path); rows != 2 || !slices.Equal(got, []float32{1, 2, 3, 4}) {
		t.Errorf("%d rows: %v", rows, got)
	}
}

func TestNPYHeaderHoldsTheLargestCounts(t *testing.T) {
	if got := len(npyHeader(math.MaxInt, math.MaxInt)); got != npyHeaderBytes {
		t.Errorf("%d bytes, want %d", got, npyHeaderBytes)
	}
}

func TestNPYLeavesNothingOnAFullDisk(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "x.npy")
	n, err := createNPY(path, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	n.out.Reset(full)
	var failed error
	for i := 0; i < 32 && failed == nil; i++ {
		failed = n.Write(make([]float32, 1<<16))
	}
	if failed == nil || !strings.Contains(failed.Error(), "no space left") {
		t.Errorf("writing to a full disk: %v", failed)
	}
	if err := n.Close(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("closing on a full disk: %v", err)
	}
	if left := files(t, folder); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestNPYReplacesNoDevice(t *testing.T) {
	if _, err := createNPY("/dev/null", 1); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("/dev/null: %v", err)
	}
	if _, err := createNPY(filepath.Join(t.TempDir(), "no", "x.npy"), 1); err == nil {
		t.Error("a missing folder was accepted")
	}
}

// readNPY reads a file by the format's specification (NEP 1).
func readNPY(t *testing.T, path string) (rows, columns int, values []float32) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(data[:8]) != "\x93NUMPY\x01\x00" {
		t.Fatalf("magic and version % x", data[:8])
	}
	end := 10 + int(binary.LittleEndian.Uint16(data[8:]))
	header := string(data[10:end])
	if end%64 != 0 || !strings.HasSuffix(header, "\n") {
		t.Fatalf("header of %d bytes ends in %q", end, header[len(header)-1:])
	}
	form := regexp.MustCompile(`^\{'descr': '<f4', 'fortran_order': False, 'shape': \((\d+), (\d+)\), \} *\n$`)
	shape := form.FindStringSubmatch(header)
	if shape == nil {
		t.Fatalf("header %q", header)
	}
	rows, _ = strconv.Atoi(shape[1])
	columns, _ = strconv.Atoi(shape[2])
	if len(data)-end != 4*rows*columns {
		t.Fatalf("%d bytes of data, want %d rows of %d", len(data)-end, rows, columns)
	}
	for at := end; at < len(data); at += 4 {
		values = append(values, math.Float32frombits(binary.LittleEndian.Uint32(data[at:])))
	}
	return rows, columns, values
}

func files(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
