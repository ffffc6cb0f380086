package runtime

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"

	"vkdecode/vk"
)

// Free is the device's own memory, in bytes, that weights and caches may still take, and whether that is known. CPU drivers
// make up the size of their heap: there it is what the system has available.
func (e *Engine) Free() (bytes int64, told bool) {
	d := e.Device
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

// ForWeights is how much of that weights may take, and whether there is a limit to keep to: E.Room, or else what is free but
// for a part that caches and activations are left. Where the device has no other memory than its own there is none.
func (e *Engine) ForWeights() (bytes int64, limited bool) {
	return forWeights(e.Device.Info.Heaps, e.Room, e.Free)
}

func forWeights(heaps []vk.Heap, room int64, free func() (int64, bool)) (bytes int64, limited bool) {
	if room > 0 {
		return room, true
	}
	if !slices.ContainsFunc(heaps, func(h vk.Heap) bool { return !h.DeviceLocal }) {
		return 0, false
	}
	bytes, told := free()
	return bytes - bytes/weightless, told
}

// weightless is the part of the free memory that weights leave to caches and activations.
const weightless = 8

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
