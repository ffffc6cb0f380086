package vk_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

func TestBuffersAreCountedByName(t *testing.T) {
	for _, name := range drivers.Names() {
		t.Run(name, func(t *testing.T) {
			d := drivers.Open(t, name, true)
			k := buffer(t, d, "kv.k", 1000)
			v := buffer(t, d, "kv.v", 500)
			w := buffer(t, d, "weights", 3<<20)
			if held, kv := d.Held(), d.HeldBy("kv."); held != 1500+3<<20 || kv != 1500 {
				t.Errorf("%d bytes held and %d by kv., want %d and 1500", held, kv, 1500+3<<20)
			}
			if r := d.Reserved(); r < d.Held() {
				t.Errorf("%d bytes reserved for %d held", r, d.Held())
			}
			for _, b := range []*vk.Buffer{k, v, w, w} { // twice is once
				b.Free()
			}
			if d.Held() != 0 || d.Reserved() != 0 {
				t.Errorf("%d bytes held and %d reserved after all is freed", d.Held(), d.Reserved())
			}
		})
	}
}

func TestSmallBuffersShareABlock(t *testing.T) {
	for _, name := range drivers.Names() {
		t.Run(name, func(t *testing.T) {
			d := drivers.Open(t, name, true)
			first := buffer(t, d, "0", 100)
			reserved := d.Reserved()
			list := []*vk.Buffer{first}
			for range 100 {
				list = append(list, buffer(t, d, "n", 100))
			}
			if d.Reserved() != reserved {
				t.Errorf("%d bytes reserved for 101 small buffers, %d for one", d.Reserved(), reserved)
			}
			for i, b := range list {
				run(t, d, vk.Op{Kind: vk.Fill, Dst: b.All(), Value: uint32(i)})
			}
			for i, b := range list {
				for w, data := 0, read(t, d, b.All()); w < 25; w++ {
					if word(data, w) != uint32(i) {
						t.Fatalf("buffer %d holds %d: buffers overlap", i, word(data, w))
					}
				}
			}
		})
	}
}

func TestNewBufferRefusesSizes(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		for _, size := range []int64{0, -1} {
			if _, err := d.NewBuffer("x", size, vk.Local); err == nil || !strings.Contains(err.Error(), `"x"`) {
				t.Errorf("size %d: %v", size, err)
			}
		}
		held := d.Held()
		for _, use := range []vk.Use{vk.Local, vk.Upload, vk.Readback} {
			_, err := d.NewBuffer("kv.k", 1<<45, use)
			var oom *vk.OutOfMemoryError
			if !errors.As(err, &oom) || oom.Buffer != "kv.k" || oom.Wants != 1<<45 || oom.Free <= 0 || oom.Free > 1<<44 {
				t.Errorf("32 TiB: %v, want an OutOfMemoryError with the figures", err)
			} else if !strings.Contains(err.Error(), "wants 32768.0 GiB") || !strings.Contains(err.Error(), "--budget") {
				t.Errorf("no figures or advice in: %v", err)
			}
		}
		if d.Held() != held {
			t.Errorf("%d bytes held after failures, %d before", d.Held(), held)
		}
	})
}

func TestHostBuffersAreMapped(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		for _, use := range []vk.Use{vk.Upload, vk.Readback} {
			b, err := d.NewBuffer("x", 1001, use)
			if err != nil {
				t.Fatal(err)
			}
			if len(b.Bytes()) != 1001 || cap(b.Bytes()) != 1001 {
				t.Errorf("use %d: %d bytes mapped, want 1001", use, len(b.Bytes()))
			}
			b.Free()
			if b.Bytes() != nil {
				t.Error("a freed buffer shows memory")
			}
		}
	})
}

func TestRanges(t *testing.T) {
	a, b := &vk.Buffer{Name: "a", Size: 100}, &vk.Buffer{Name: "b", Size: 100}
	r := a.All().Slice(10, 20)
	if r != (vk.Range{Buffer: a, Offset: 10, Size: 20}) || r.Slice(5, 15) != (vk.Range{Buffer: a, Offset: 15, Size: 15}) {
		t.Errorf("slices are off: %+v", r)
	}
	for _, c := range []struct {
		other vk.Range
		want  bool
	}{
		{a.All(), true}, {a.All().Slice(29, 1), true}, {a.All().Slice(30, 1), false},
		{a.All().Slice(0, 10), false}, {a.All().Slice(0, 11), true}, {b.All(), false},
	} {
		if r.Overlaps(c.other) != c.want || c.other.Overlaps(r) != c.want {
			t.Errorf("%+v overlaps %+v: want %v", r, c.other, c.want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a slice outside its range is accepted")
		}
	}()
	r.Slice(15, 6)
}

func TestBlockNeverGivesBytesTwice(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	const size = 1 << 12
	b := vk.NewBlock(size)
	type piece struct{ offset, size int64 }
	var live []piece
	owner := [size]bool{}
	for range 20000 {
		if len(live) > 0 && r.IntN(2) == 0 {
			i := r.IntN(len(live))
			p := live[i]
			b.Give(p.offset, p.size)
			for at := p.offset; at < p.offset+p.size; at++ {
				owner[at] = false
			}
			live = append(live[:i], live[i+1:]...)
			continue
		}
		p := piece{size: 1 + r.Int64N(200)}
		align := int64(1) << r.IntN(9)
		var ok bool
		if p.offset, ok = b.Take(p.size, align); !ok {
			continue
		}
		if p.offset%align != 0 || p.offset+p.size > size {
			t.Fatalf("[%d, +%d) for alignment %d", p.offset, p.size, align)
		}
		for at := p.offset; at < p.offset+p.size; at++ {
			if owner[at] {
				t.Fatalf("byte %d was given twice", at)
			}
			owner[at] = true
		}
		live = append(live, p)
	}
	for _, p := range live {
		b.Give(p.offset, p.size)
	}
	if !b.Whole() {
		t.Error("the block is in pieces after all was given back")
	}
}
