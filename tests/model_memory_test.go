package tests

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/model/builtin"
	"vkdecode/model/gguf"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// The device holds what was planned, for the cache and for all, and closing gives everything back.
func TestPlannedMemoryIsWhatTheDeviceHolds(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, before := builtinOn(t, d), d.Held()
		for _, c := range []struct {
			kv     h2o.Settings
			types  string
			k, v   int64 // bytes of a slot of one KV head
			scaled int64 // K, V, or both have scales
			most   int64 // bytes of the budget
		}{
			{fullKV(32), "f32", 128, 128, 0, 0}, {kv("h2o", "20%", 0.5, 32), "f16", 64, 64, 0, 0},
			{kv("window", "100kB", 0, 8), "f32", 128, 128, 0, 100_000}, {kv("streaming", "17", 0, 1), "f32", 128, 128, 0, 0},
			{fullKV(32), "q8_0", 36, 36, 2, 0}, {kv("h2o", "17", 0.5, 32), "q4_0", 20, 20, 2, 0},
			{kv("window", "33kB", 0, 8), "q8_0/q4_0", 36, 20, 2, 33_000}, {kv("streaming", "101kB", 0, 8), "f32/q4_0", 128, 20, 1, 101_000},
		} {
			settings := c.kv
			settings.Type = c.types
			s, err := m.NewSession(t.Context(), model.SessionOptions{KV: settings, Length: 500, Prompt: 100})
			if err != nil {
				t.Fatal(err)
			}
			plan, held := s.Plan(), d.HeldBy("kv.")
			const layers, heads = 3, 2
			perSlot := layers * heads * (c.k + c.v)
			want := perSlot * int64(plan.Capacity)
			if plan.Capacity%2 == 1 { // a tensor is whole uvec4: two heads leave half of one free behind their scales
				want += layers * c.scaled * 8
			}
			if plan.Bytes != want || held != want || s.Held() != want {
				t.Errorf("%v, %s: K and V take %d bytes by the plan, %d by the device, %d by the session; %d slots are %d", settings.Policy, c.types, plan.Bytes, held, s.Held(), plan.Capacity, want)
			}
			if got, want := d.Held()-before, s.Memory().Bytes(""); got != want {
				t.Errorf("%v: a session holds %d bytes, planned %d", settings.Policy, got, want)
			}
			if want := perSlot * 500; plan.Full != want {
				t.Errorf("%v: the whole context would take %d bytes, want %d", settings.Policy, plan.Full, want)
			}
			if c.most > 0 && (held > c.most || held+2*perSlot < c.most) {
				t.Errorf("%v, %s: %d bytes held, of a budget of %d", settings.Policy, c.types, held, c.most)
			}
			decode(t, s, passageIDs(t)[:200], 10, false)
			s.Close()
			if d.Held() != before {
				t.Errorf("%v: %d bytes are left of a closed session", settings.Policy, d.Held()-before)
			}
		}
	})
}

// Models and sessions that come and go leave nothing behind, not even reserved.
func TestClosedModelsLeaveNothing(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		use := func() {
			f, err := gguf.Parse(builtin.Model)
			if err != nil {
				t.Fatal(err)
			}
			m, err := model.Load(engineOf(d).Engine, f, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			s, err := m.NewSession(t.Context(), model.SessionOptions{KV: kv("h2o", "24", 0.5, 16), Length: 100})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			decode(t, s, passageIDs(t)[:40], 10, true)
		}
		use()
		held, reserved := d.Held(), d.Reserved()
		for range 4 {
			use()
		}
		if d.Held() != held || d.Reserved() > reserved {
			t.Errorf("held %d bytes, then %d; reserved %d, then %d", held, d.Held(), reserved, d.Reserved())
		}
	})
}

// impatient is a context that ends when it has been asked so many times.
type impatient struct {
	context.Context
	left atomic.Int32
}

func (i *impatient) Err() error {
	if i.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// Opening a session ends with its context, between any two tensors and pipelines, and leaves nothing behind.
func TestOpeningASessionEndsWithItsContext(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m := builtinOn(t, d)
		for _, settings := range []h2o.Settings{kv("h2o", "24", 0.5, 16), kv("snapkv:window=8", "24", 0.5, 16)} {
			before, stops := d.Held(), 0
			for ; stops < 1000; stops++ {
				ctx := &impatient{Context: t.Context()}
				ctx.left.Store(int32(stops))
				s, err := m.NewSession(ctx, model.SessionOptions{KV: settings, Length: 100, Likelihood: true})
				if err == nil {
					s.Close()
					break
				}
				if !errors.Is(err, context.Canceled) || d.Held() != before {
					t.Fatalf("stopped at %d: %v, %d bytes are left", stops, err, d.Held()-before)
				}
			}
			if stops < 20 || stops == 1000 {
				t.Errorf("%v: stopped in %d places, want at least 20", settings.Policy, stops)
			}
		}
	})
}

// A long decode needs no more memory than a short one, on the device or on the host.
func TestMemoryDoesNotGrowWithTheText(t *testing.T) {
	const from = 500
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		to := 5000
		if slow(d) {
			to = 1000
		}
		s := openSession(t, builtinOn(t, d), kv("h2o", "64", 0.5, 16), to)
		if err := s.Prompt(t.Context(), passageIDs(t)[:20], model.Observer{}, nil); err != nil {
			t.Fatal(err)
		}
		var held, reserved int64
		var heap uint64
		live := func() uint64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		n := 0
		_, err := s.Generate(t.Context(), model.Generation{Tokens: to - 20, Emit: func(int32) error {
			if n++; n == from {
				held, reserved, heap = d.Held(), d.Reserved(), live()
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if n != to-20 {
			t.Fatalf("%d tokens, want %d", n, to-20)
		}
		if d.Held() != held || d.Reserved() != reserved {
			t.Errorf("from token %d to %d held memory grew from %d to %d bytes, reserved from %d to %d", from, to, held, d.Held(), reserved, d.Reserved())
		}
		// The list of token ids grows by four bytes a token and is doubled when full; the rest is slack for the runtime.
		if after := live(); after > heap+uint64(8*to)+256<<10 {
			t.Errorf("from token %d to %d the host's heap grew from %d to %d bytes", from, to, heap, after)
		}
		counts, err := s.Cache().Counts(0)
		if err != nil {
			t.Fatal(err)
		}
		if want := (h2o.Counts{Kept: 64, Evicted: 6 * (len(s.Tokens) - 64)}); counts != want {
			t.Errorf("kept and evicted %v, want %v", counts, want)
		}
	})
}

// While SmolLM2 loads, and when it has loaded, the host holds little beside the mapped file.
func TestLoadingNeedsLittleHostMemory(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		heap := func() int64 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapInuse)
		}
		runtime.GC()
		before, peak := heap(), int64(0)
		f, err := gguf.Open(smollm2)
		if err != nil {
			t.Fatal(fmt.Errorf("%w; `make run` fetches it", err))
		}
		defer f.Close()
		m, err := model.Load(engineOf(d).Engine, f, func(done, total int64) error {
			peak = max(peak, heap()-before)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		s := openSession(t, m, kv("h2o", "20%", 0.5, 256), 2048)
		runtime.GC()
		rest := heap() - before
		t.Logf("%.1f MB while loading, %.1f MB loaded", float64(peak)/1e6, float64(rest)/1e6)
		if peak > 128e6 {
			t.Errorf("%.0f MB of heap while loading, want 128 at most", float64(peak)/1e6)
		}
		if rest > 64e6 {
			t.Errorf("%.0f MB of heap for a loaded model, want 64 at most", float64(rest)/1e6)
		}
		runtime.KeepAlive(s)
	})
}
