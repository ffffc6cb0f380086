package drivers

import (
	"encoding/binary"
	"slices"
	"testing"

	"vkdecode/vk"
)

// Break makes a kernel compute something else until the end of the test, on pipelines that are compiled from now on: it
// adds where it subtracted, or the other way round where it never does. Twice is not at all. No test that runs beside may use it.
func Break(t testing.TB, m *vk.Module) {
	t.Helper()
	const header, add, sub = 5, 129, 131 // words; OpFAdd, OpFSub
	right := m.Code
	t.Cleanup(func() { m.Code = right })
	swap := func(from, to uint32) (changed int) {
		code := slices.Clone(right)
		for at := 4 * header; at < len(code); {
			word := binary.LittleEndian.Uint32(code[at:])
			if word&0xFFFF == from {
				binary.LittleEndian.PutUint32(code[at:], word&^0xFFFF|to)
				changed++
			}
			at += int(4 * max(1, word>>16))
		}
		m.Code = code
		return changed
	}
	if swap(sub, add) == 0 && swap(add, sub) == 0 {
		t.Fatalf("module %q neither adds nor subtracts", m.Name)
	}
}
