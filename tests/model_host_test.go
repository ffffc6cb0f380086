package tests

import (
	goruntime "runtime"
	"testing"

	"vkdecode/model"
	"vkdecode/runtime"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// Once decoding runs, the host allocates nothing for a token, however it is chosen.
func TestDecodingAllocatesNothingPerToken(t *testing.T) {
	const from, to = 50, 150
	const most = 32 // bytes for a token: the list of tokens grows, and another goroutine may run
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		for _, how := range []runtime.Sampling{{}, {Temperature: 1, TopK: 10, Presence: 0.5}} {
			s := openSession(t, builtinOn(t, d), fullKV(16), to+20)
			if err := s.Prompt(t.Context(), passageIDs(t)[:20], model.Observer{}, nil); err != nil {
				t.Fatal(err)
			}
			var before, after goruntime.MemStats
			n := 0
			_, err := s.Generate(t.Context(), model.Generation{Tokens: to, Sampling: how, Emit: func(int32) error {
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
			if bytes := (after.TotalAlloc - before.TotalAlloc) / (to - from); bytes > most {
				t.Errorf("%+v: %d bytes and %d allocations for a token, want %d bytes at most", how, bytes, (after.Mallocs-before.Mallocs)/(to-from), most)
			}
		}
	})
}
