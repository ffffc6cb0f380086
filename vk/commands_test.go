package vk_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

func TestBindingsCoverTheirRangeOnly(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		align := d.Info.Limits.StorageAlign
		const n = 77 // an odd tail of the second workgroup
		x, y := buffer(t, d, "x", 3*align+4*n), buffer(t, d, "y", 2*align+4*n+64)
		write(t, d, x.All().Slice(3*align, 4*n), count(n))
		run(t, d, vk.Op{Kind: vk.Fill, Dst: y.All(), Value: 0xabababab})
		out := y.All().Slice(2*align, 4*n)
		run(t, d, scale(pipeline(t, d, "scale", 64, 2), x.All().Slice(3*align, 4*n), out, 5, n))
		for i, data := 0, read(t, d, out); i < n; i++ {
			if word(data, i) != uint32(2*i+5) {
				t.Fatalf("y[%d] = %d, want %d", i, word(data, i), 2*i+5)
			}
		}
		sentinels := append(read(t, d, y.All().Slice(0, 2*align)), read(t, d, y.All().Slice(2*align+4*n, 64))...)
		if !bytes.Equal(sentinels, bytes.Repeat([]byte{0xab}, len(sentinels))) {
			t.Error("the kernel wrote outside its range")
		}
	})
}

// A dispatch in parts writes what it writes as a whole, each part its own.
func TestADispatchCanBeRunInParts(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		const n, groups = 64 * 5, 5
		x, y := buffer(t, d, "x", 4*n), buffer(t, d, "y", 4*n)
		write(t, d, x.All(), count(n))
		p, err := d.NewPartsPipeline(module(t, "scale"), []uint32{64, 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Free)
		for _, parts := range [][][2]uint32{{{0, 5}}, {{0, 2}, {2, 3}}, {{4, 1}, {0, 1}, {1, 3}}, {{3, 1}}} {
			run(t, d, vk.Op{Kind: vk.Fill, Dst: y.All(), Value: 0xabababab})
			written := map[uint32]bool{}
			for _, part := range parts {
				op := scale(p, x.All(), y.All(), 7, n)
				op.First[0], op.X = part[0], part[1]
				run(t, d, op)
				for g := range part[1] {
					written[part[0]+g] = true
				}
			}
			data := read(t, d, y.All())
			for i := range uint32(n) {
				want := uint32(0xabababab)
				if written[i/64] {
					want = 2*i + 7
				}
				if got := word(data, int(i)); got != want {
					t.Fatalf("parts %v: y[%d] = %d, want %d", parts, i, got, want)
				}
			}
		}
	})
}

func TestTexelBuffers(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		align := d.Info.Limits.TexelAlign
		const n = 100
		x, y := buffer(t, d, "x", align+16*n), buffer(t, d, "y", 4*n)
		in := x.All().Slice(align, 16*n)
		write(t, d, in, count(4*n))
		op := vk.Op{Pipeline: pipeline(t, d, "texel", 32), Bindings: []vk.Range{in, y.All()}, X: 4, Y: 1, Z: 1}
		run(t, d, op)
		for i, data := uint32(0), read(t, d, y.All()); i < n; i++ {
			want := 4*i + 10*(4*i+1) + 100*(4*i+2) + 1000*(4*i+3)
			if got := word(data, int(i)); got != want {
				t.Fatalf("y[%d] = %d, want %d", i, got, want)
			}
		}
		run(t, d, op) // the view is now a cached one
	})
}

func TestEveryTexelFormat(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		align := max(d.Info.Limits.TexelAlign, 16)
		floats := func(list ...float32) []byte {
			var out []byte
			for _, f := range list {
				out = binary.LittleEndian.AppendUint32(out, math.Float32bits(f))
			}
			return out
		}
		x, y := buffer(t, d, "x", 5*align), buffer(t, d, "y", 40)
		var bindings []vk.Range
		for i, data := range [][]byte{words(7), floats(-1.5), words(8, 9), floats(0.25, -2), floats(1e20, -3, 0, 5)} {
			r := x.All().Slice(int64(i)*align, int64(len(data)))
			write(t, d, r, data)
			bindings = append(bindings, r)
		}
		run(t, d, vk.Op{Pipeline: pipeline(t, d, "formats"), Bindings: append(bindings, y.All()), X: 1, Y: 1, Z: 1})
		if want := floats(7, -1.5, 8, 9, 0.25, -2, 1e20, -3, 0, 5); !bytes.Equal(read(t, d, y.All()), want) {
			t.Errorf("% x, want % x", read(t, d, y.All()), want)
		}
	})
}

func TestFillAndCopy(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		a, b := buffer(t, d, "a", 64), buffer(t, d, "b", 64)
		barrier := vk.Op{Kind: vk.Barrier}
		run(t, d,
			vk.Op{Kind: vk.Fill, Dst: a.All(), Value: 1},
			vk.Op{Kind: vk.Fill, Dst: b.All(), Value: 2},
			barrier,
			vk.Op{Kind: vk.Fill, Dst: a.All().Slice(4, 4), Value: 0x01020304},
			barrier,
			vk.Op{Kind: vk.Copy, Src: a.All().Slice(3, 6), Dst: b.All().Slice(9, 6)}, // copies have no alignment
			barrier,
			vk.Op{Kind: vk.Copy, Src: b.All().Slice(0, 16), Dst: b.All().Slice(16, 16)}, // within a buffer
		)
		want := bytes.Repeat([]byte{2, 0, 0, 0}, 16)
		copy(want[9:], []byte{0, 4, 3, 2, 1, 1})
		copy(want[16:], want[:16])
		if got := read(t, d, b.All()); !bytes.Equal(got, want) {
			t.Errorf("% x, want % x", got, want)
		}
	})
}

func TestReplayDoesTheSameWorkEachTime(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		const n, replays = 200, 300
		a, b := buffer(t, d, "a", 4*n), buffer(t, d, "b", 4*n)
		p := pipeline(t, d, "scale", 64, 1)
		// b = a + 1, a = b + 1, in a recording that leaves its results ready for its own next run.
		c := record(t, d,
			scale(p, a.All(), b.All(), 1, n), vk.Op{Kind: vk.Barrier},
			scale(p, b.All(), a.All(), 1, n), vk.Op{Kind: vk.Barrier})
		write(t, d, a.All(), count(n))
		var flight [2]*vk.Pending // as decoding does: two steps in flight, and three runs in each submit
		for i := range replays {
			slot := &flight[i%2]
			if *slot != nil {
				if err := (*slot).Wait(vk.Forever); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			if *slot, err = d.Submit(c, c, c); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range flight {
			if err := p.Wait(vk.Forever); err != nil {
				t.Fatal(err)
			}
		}
		for i, data := uint32(0), read(t, d, a.All()); i < n; i++ {
			if got := word(data, int(i)); got != i+6*replays {
				t.Fatalf("a[%d] = %d after %d runs, want %d", i, got, 3*replays, i+6*replays)
			}
		}
	})
}

func TestTimestampsMeasureTheWorkBetweenThem(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		x := buffer(t, d, "x", 4*32)
		if err := d.Zero(x.All()); err != nil {
			t.Fatal(err)
		}
		work := spin(pipeline(t, d, "spin"), x)
		run(t, d, work) // drivers compile at the first dispatch
		stamp := func(q uint32) vk.Op { return vk.Op{Kind: vk.Timestamp, Query: q} }
		barrier := vk.Op{Kind: vk.Barrier}
		c := record(t, d, stamp(0), work, barrier, stamp(1), work, barrier, work, barrier, stamp(2))
		if _, err := c.Times(); err == nil || !errors.Is(err, vk.ErrNotReady) && d.Info.Kind != "cpu" {
			t.Errorf("times before the run: %v, want ErrNotReady", err)
		}
		right := 0
		for tries := 0; right < 2; tries++ { // a replay measures anew
			start := time.Now()
			pending, err := d.Submit(c)
			if err == nil {
				err = pending.Wait(vk.Forever)
			}
			wall := time.Since(start)
			if err != nil {
				t.Fatal(err)
			}
			times, err := c.Times()
			if err != nil {
				t.Fatal(err)
			}
			if len(times) != 3 || times[0] != 0 || times[1] <= 0 || times[2] <= times[1] || times[2] > wall {
				t.Fatalf("%v within %v", times, wall)
			}
			if times[1] >= wall/10 && times[2] >= times[1]+wall/5 {
				right++
			} else if tries == 20 { // on a busy machine a part of the work may take any time
				t.Fatalf("%v within %v, want 0, a third and all", times, wall)
			}
		}
		plain := record(t, d, work)
		if _, err := plain.Times(); err == nil || !strings.Contains(err.Error(), "no timestamps") {
			t.Errorf("times of a recording without: %v", err)
		}
	})
}
