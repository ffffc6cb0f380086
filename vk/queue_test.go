package vk_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

func TestWaitTimesOutAndCanBeRepeated(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		x := buffer(t, d, "x", 4*256)
		c := record(t, d, spin(pipeline(t, d, "spin"), x))
		p, err := d.Submit(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, timeout := range []time.Duration{-1, 0, time.Millisecond} {
			if err := p.Wait(timeout); !errors.Is(err, vk.ErrTimeout) {
				t.Errorf("waiting %v: %v, want ErrTimeout", timeout, err)
			}
		}
		for range 2 { // done stays done
			if err := p.Wait(vk.Forever); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestSubmitAllocatesLittle(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		c := record(t, d, vk.Op{Kind: vk.Barrier})
		allocations := testing.AllocsPerRun(100, func() {
			p, err := d.Submit(c, c)
			if err == nil {
				err = p.Wait(vk.Forever)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
		if allocations > 2 {
			t.Errorf("%v allocations per submit, want the Pending and at most one more", allocations)
		}
	})
}

func TestSubmitOfNothingIsDoneAtOnce(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		p, err := d.Submit()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(time.Minute); err != nil {
			t.Error(err)
		}
	})
}

func TestSubmitRefusesAFreedRecording(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		c := record(t, d, vk.Op{Kind: vk.Barrier})
		c.Free()
		c.Free() // twice is once
		if _, err := d.Submit(c); err == nil || !strings.Contains(err.Error(), "freed") {
			t.Errorf("%v, want an error that says so", err)
		}
	})
}

func TestGoroutinesShareADevice(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		p := pipeline(t, d, "scale", 64, 3)
		var group sync.WaitGroup
		for id := range uint32(4) {
			x, y := buffer(t, d, "x", 4000), buffer(t, d, "y", 4000)
			group.Go(func() {
				for i := range uint32(50) {
					got := make([]byte, 4000)
					err := d.Write(x.All(), count(1000))
					if err == nil {
						err = d.Run(scale(p, x.All(), y.All(), 100*id+i, 1000))
					}
					if err == nil {
						err = d.Read(got, y.All())
					}
					if err != nil || word(got, 999) != 3*999+100*id+i {
						t.Errorf("goroutine %d, round %d: %d, %v", id, i, word(got, 999), err)
						return
					}
				}
			})
		}
		group.Wait()
		if err := d.WaitIdle(); err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkSubmit(b *testing.B) {
	for _, name := range drivers.Names() {
		b.Run(name, func(b *testing.B) {
			d := drivers.Open(b, name, false)
			x := buffer(b, d, "x", 256)
			op := scale(pipeline(b, d, "scale", 64, 1), x.All(), x.All(), 1, 1)
			var ops []vk.Op
			for range 300 { // about one decode step of a small model
				ops = append(ops, op, vk.Op{Kind: vk.Barrier})
			}
			c := record(b, d, ops...)
			b.ReportAllocs()
			for b.Loop() {
				p, err := d.Submit(c)
				if err == nil {
					err = p.Wait(vk.Forever)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRecord(b *testing.B) {
	for _, name := range drivers.Names() {
		b.Run(name, func(b *testing.B) {
			d := drivers.Open(b, name, false)
			x, y := buffer(b, d, "x", 256), buffer(b, d, "y", 256)
			op := scale(pipeline(b, d, "scale", 64, 1), x.All(), y.All(), 1, 1)
			var ops []vk.Op
			for range 300 {
				ops = append(ops, op, vk.Op{Kind: vk.Barrier})
			}
			for b.Loop() {
				c, err := d.Record("bench", ops)
				if err != nil {
					b.Fatal(err)
				}
				c.Free()
			}
		})
	}
}
