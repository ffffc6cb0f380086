package bench

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"vkdecode/vk"
)

// Free is the memory, in bytes, that weights and caches may still take on a device, and whether that is known. CPU drivers
// make up the size of their heap: there it is what the system has available.
func Free(d *vk.Device) (bytes int64, told bool) {
	if d.Info.Kind == "cpu" {
		return available("/proc/meminfo")
	}
	for _, h := range d.Heaps() {
		if !h.DeviceLocal {
			continue
		}
		size := h.Size - d.Held()
		if h.Budget >= 0 {
			size = min(size, h.Budget-d.Reserved())
		}
		bytes, told = max(bytes, size), true
	}
	return bytes, told
}

// available reads how much memory a Linux system can give without swapping.
func available(path string) (bytes int64, told bool) {
	f, err := os.Open(path)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, found := strings.CutPrefix(lines.Text(), "MemAvailable:"); found {
			var kib int64
			n, err := fmt.Sscan(rest, &kib)
			return kib << 10, n == 1 && err == nil
		}
	}
	return 0, false
}
