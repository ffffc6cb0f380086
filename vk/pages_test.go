package vk_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"vkdecode/tests/drivers"
)

// Memory of CPU drivers lies in mappings that are marked for large pages; memory of Go does not.
func TestMemoryOfCPUDriversAsksForLargePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage/enabled"); err != nil {
		t.Skip("this kernel has none")
	}
	for _, name := range drivers.Names() {
		t.Run(name, func(t *testing.T) {
			d := drivers.Open(t, name, true)
			b := buffer(t, d, "weights", 16<<20).Bytes()
			if !inLargePages(t, &b[len(b)/2]) {
				t.Error("nobody asked for large pages")
			}
			if small := make([]byte, 100); inLargePages(t, &small[0]) {
				t.Error("so did others: the test tells nothing apart")
			}
		})
	}
}

// inLargePages tells whether the mapping of an address has the flag `hg`.
func inLargePages(t *testing.T, address *byte) bool {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	here := false
	for line := range strings.Lines(string(maps)) {
		var begin, end uintptr
		if n, _ := fmt.Sscanf(line, "%x-%x ", &begin, &end); n == 2 {
			here = begin <= uintptr(unsafe.Pointer(address)) && uintptr(unsafe.Pointer(address)) < end
		}
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && here {
			return strings.Contains(flags, " hg")
		}
	}
	t.Fatal("no mapping holds the address")
	return false
}
