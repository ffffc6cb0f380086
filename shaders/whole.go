package shaders

import (
	"encoding/binary"
	"sync"

	"vkdecode/vk"
)

var (
	wholes     = map[*vk.Module]bool{}
	wholesLock sync.Mutex
)

// whole tells whether a module reads the number of workgroups: gl_NumWorkGroups is a variable that is decorated so.
func whole(m *vk.Module) bool {
	wholesLock.Lock()
	defer wholesLock.Unlock()
	known, ok := wholes[m]
	if !ok {
		known = readsCount(m.Code)
		wholes[m] = known
	}
	return known
}

func readsCount(code []byte) bool {
	const (
		header        = 5 // words
		opDecorate    = 71
		builtIn       = 11
		numWorkgroups = 24
	)
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(code[4*i:]) }
	for at := header; at < len(code)/4; {
		n := int(word(at) >> 16)
		if word(at)&0xFFFF == opDecorate && n == 4 && at+n <= len(code)/4 && word(at+2) == builtIn && word(at+3) == numWorkgroups {
			return true
		}
		at += max(1, n)
	}
	return false
}
