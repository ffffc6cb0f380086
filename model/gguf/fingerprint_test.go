package gguf

import "testing"

func TestFingerprintsTellFilesApart(t *testing.T) {
	file := func(key string, value any, name string, weights ...byte) string {
		f, err := Parse(with(func(w *Writer) {
			w.Set(key, value)
			w.Add(name, I8, []int64{int64(len(weights))}, weights)
		}))
		if err != nil {
			t.Fatal(err)
		}
		return f.Fingerprint()
	}
	one := file("k", uint32(1), "a", 1, 2, 3)
	if again := file("k", uint32(1), "a", 1, 2, 3); again != one || len(one) != 32 {
		t.Errorf("the same file: %s and %s", one, again)
	}
	for what, other := range map[string]string{
		"value": file("k", uint32(2), "a", 1, 2, 3), "key": file("l", uint32(1), "a", 1, 2, 3),
		"name": file("k", uint32(1), "b", 1, 2, 3), "weight": file("k", uint32(1), "a", 1, 2, 4),
	} {
		if other == one {
			t.Errorf("another %s has the same fingerprint", what)
		}
	}
}
