package shaders

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
)

// Fingerprint tells versions of the kernels apart: 16 hexadecimal digits of the SHA-256 of their code. Another code may
// give other last bits.
var Fingerprint = sync.OnceValue(func() string {
	names, err := files.ReadDir("spirv")
	if err != nil {
		panic(err) // it is inside the program
	}
	h := sha256.New()
	for _, name := range names {
		code, err := files.ReadFile("spirv/" + name.Name())
		if err != nil {
			panic(err)
		}
		h.Write([]byte(name.Name()))
		h.Write(code)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
})
