package main

import (
	"fmt"
	"strings"
)

// decimalSize writes a size in units of 1000, as the makers of memory do: 335.5 GB.
func decimalSize(bytes int64) string { return scaled(bytes, 1000, "B kB MB GB TB PB EB") }

// binarySize writes a size in units of 1024, as programs do: 312.5 GiB.
func binarySize(bytes int64) string { return scaled(bytes, 1024, "B KiB MiB GiB TiB PiB EiB") }

func scaled(bytes int64, base float64, units string) string {
	names := strings.Fields(units)
	x := float64(bytes)
	for len(names) > 1 && x >= base-0.05 { // 0.05: what one decimal would round up to the next unit
		x, names = x/base, names[1:]
	}
	if names[0] == "B" {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", x, names[0])
}
