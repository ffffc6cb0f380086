package vk_test

import (
	"runtime"
	"testing"

	"vkdecode/tests/drivers"
)

// Bindings that hand memory with a finalizer to the driver fail within seconds here, and within some hundred collections.
func TestDispatchesSurviveTheGarbageCollector(t *testing.T) {
	collections, dispatches := uint32(400), 5000 // at least
	if testing.Short() {
		collections, dispatches = 20, 500
	}
	for _, name := range drivers.Names() {
		t.Run(name, func(t *testing.T) {
			d := drivers.Open(t, name, false)
			stop := allocateHard()
			defer stop()
			var begin, now runtime.MemStats
			runtime.ReadMemStats(&begin)
			now = begin

			const n = 256
			y := buffer(t, d, "y", 4*n)
			p := pipeline(t, d, "scale", 64, 3)
			got := make([]byte, 4*n)
			done := 0
			for ; done < dispatches || now.NumGC-begin.NumGC < collections && done < 4*dispatches; done++ {
				x := buffer(t, d, "x", 4*n)
				write(t, d, x.All(), count(n))
				run(t, d, scale(p, x.All(), y.All(), uint32(done), n))
				if err := d.Read(got, y.All()); err != nil {
					t.Fatal(err)
				}
				for i := range n {
					if word(got, i) != uint32(3*i+done) {
						t.Fatalf("dispatch %d: y[%d] = %d, want %d", done, i, word(got, i), 3*i+done)
					}
				}
				x.Free()
				if done%100 == 0 {
					pipeline(t, d, "scale", 64, uint32(done)).Free()
					runtime.ReadMemStats(&now)
				}
			}
			if n := now.NumGC - begin.NumGC; n < collections/2 {
				t.Errorf("%d collections during %d dispatches: the test did not stress anything", n, done)
			} else {
				t.Logf("%d dispatches, %d collections", done, n)
			}
		})
	}
}

// allocateHard keeps the collector busy until stop is called.
func allocateHard() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var live [64][]*[4]uintptr
		for i := 0; ; i++ {
			select {
			case <-quit:
				return
			default:
			}
			list := make([]*[4]uintptr, 1000)
			for k := range list {
				list[k] = &[4]uintptr{^uintptr(0), 1, 2, 3} // freed memory that is reused shows
			}
			live[i%len(live)] = list
			runtime.Gosched()
		}
	}()
	return func() { close(quit); <-done }
}
