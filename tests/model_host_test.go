package tests

import (
	goruntime "runtime"
	"testing"

	"vkdecode/model"
	"vkdecode/runtime"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// Once decoding runs, the host allocates nothing for a token, and next to nothing where it samples itself.
func TestDecodingAllocatesNothingPerToken(t *testing.T) {
	const from, to = 50, 150
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		for _, c := range []struct {
			name    string
			sampler runtime.Sampler
			bytes   uint64 // for a token, at most
		}{{"replayed", nil, 32}, {"sampled", sampler(t), 4 << 10}} { // 32: the list of tokens grows, and another goroutine may run
			s := openSession(t, builtinOn(t, d), fullKV(16), to+20)
			if err := s.Prompt(t.Context(), passageIDs(t)[:20], model.Observer{}, nil); err != nil {
				t.Fatal(err)
			}
			var before, after goruntime.MemStats
			n := 0
			_, err := s.Generate(t.Context(), model.Generation{Tokens: to, Sampler: c.sampler, Emit: func(int32) error {
				switch n++; n {
				case from:
					goruntime.ReadMemStats(&before)
				case to:
					goruntime.ReadMemStats(&after)
				}
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			if bytes := (after.TotalAlloc - before.TotalAlloc) / (to - from); bytes > c.bytes {
				t.Errorf("%s: %d bytes and %d allocations for a token, want %d bytes at most", c.name, bytes, (after.Mallocs-before.Mallocs)/(to-from), c.bytes)
			}
		}
	})
}

func sampler(t *testing.T) runtime.Sampler {
	t.Helper()
	s, err := runtime.NewSampler(runtime.Sampling{Temperature: 1, TopK: 10})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
