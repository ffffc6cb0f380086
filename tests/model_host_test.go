package tests

import (
	"fmt"
	goruntime "runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
		for i, how := range []runtime.Sampling{{}, {Temperature: 1, TopK: 10, Presence: 0.5}, {}} {
			together(t, d, 1+i/2*7)
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

// hostTime decodes so many tokens and tells what of it this thread computed, for each of them. The drivers of these tests
// compute in threads of their own.
func hostTime(t testing.TB, s *model.Session, tokens int, emit func()) time.Duration {
	t.Helper()
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	thread := func() time.Duration {
		var at unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
			t.Fatal(err)
		}
		return time.Duration(at.Nano())
	}
	begin := thread()
	if _, err := s.Generate(t.Context(), model.Generation{Tokens: tokens, Emit: func(int32) error {
		emit()
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	return (thread() - begin) / time.Duration(tokens)
}

// The host has little to do for a token: on a quick GPU it is the host's time that counts.
func TestTheHostTakesLittleTimePerToken(t *testing.T) {
	const most = 300 * time.Microsecond
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		for _, steps := range []int{1, 8} {
			together(t, d, steps)
			s := openSession(t, builtinOn(t, d), fullKV(16), 300)
			if err := s.Prompt(t.Context(), passageIDs(t)[:20], model.Observer{}, nil); err != nil {
				t.Fatal(err)
			}
			hostTime(t, s, 20, func() {})
			if took := hostTime(t, s, 200, func() {}); took > most {
				t.Errorf("%d steps in a submit: %v of the host's time for a token, %v at most", steps, took, most)
			}
			busy := func() {
				for begin := time.Now(); time.Since(begin) < 2*most; {
				}
			}
			if took := hostTime(t, s, 20, busy); took < most {
				t.Errorf("%d steps in a submit: %v of the host's time for a token, of which it is busy for %v", steps, took, 2*most)
			}
		}
	})
}

// BenchmarkDecodingOnTheHost reports the host's own time for a token, without the driver's threads, and what is allocated:
// go test ./tests -run '^$' -bench OnTheHost -benchmem
func BenchmarkDecodingOnTheHost(b *testing.B) {
	for _, driver := range drivers.Names() {
		d := drivers.Open(b, driver, false)
		m := builtinOn(b, d)
		for _, steps := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s/%d", driver, steps), func(b *testing.B) {
				together(b, d, steps)
				s := openSession(b, m, fullKV(16), 40+b.N)
				if err := s.Prompt(b.Context(), passageIDs(b)[:20], model.Observer{}, nil); err != nil {
					b.Fatal(err)
				}
				hostTime(b, s, 10, func() {})
				b.ReportAllocs()
				b.ResetTimer()
				took := hostTime(b, s, b.N, func() {})
				b.ReportMetric(float64(took.Nanoseconds())/1e3, "host-us/token")
			})
		}
	}
}
