package vk_test

import (
	"strings"
	"testing"

	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

func TestRecordNamesWhatIsWrong(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		scalePipe, texelPipe := pipeline(t, d, "scale", 64, 1), pipeline(t, d, "texel", 64)
		x, y := buffer(t, d, "x", 4096), buffer(t, d, "y", 4096)
		freed := buffer(t, d, "gone", 64)
		freed.Free()
		gone := pipeline(t, d, "scale", 64, 1)
		gone.Free()
		good := func() vk.Op { return scale(scalePipe, x.All(), y.All(), 0, 64) }
		fetch := func(r vk.Range) vk.Op {
			return vk.Op{Pipeline: texelPipe, Bindings: []vk.Range{r, y.All()}, X: 1, Y: 1, Z: 1}
		}
		if c, err := d.Record("good", []vk.Op{good(), fetch(x.All())}); err != nil {
			t.Fatal(err)
		} else {
			c.Free()
		}
		spoiled := func(spoil func(op *vk.Op)) vk.Op {
			op := good()
			spoil(&op)
			return op
		}
		for _, c := range []struct {
			says string
			op   vk.Op
		}{
			{"no pipeline", vk.Op{}},
			{"unknown kind", vk.Op{Kind: 99}},
			{"0 groups along y, want 1 to", spoiled(func(op *vk.Op) { op.Y = 0 })},
			{"made for parts", spoiled(func(op *vk.Op) { op.First[1] = 1 })},
			{"1 groups along y from 4294967295 on", spoiled(func(op *vk.Op) { op.First[1] = ^uint32(0) })},
			{"groups along z", spoiled(func(op *vk.Op) { op.Z = ^uint32(0) })},
			{"4 bytes of push constants, want 8", spoiled(func(op *vk.Op) { op.Push = op.Push[:4] })},
			{"1 bindings, want 2", spoiled(func(op *vk.Op) { op.Bindings = op.Bindings[:1] })},
			{"the pipeline was freed", spoiled(func(op *vk.Op) { op.Pipeline = gone })},
			{"no buffer", spoiled(func(op *vk.Op) { op.Bindings[0] = vk.Range{} })},
			{`binding 1: buffer "gone" was freed`, spoiled(func(op *vk.Op) { op.Bindings[1] = vk.Range{Buffer: freed, Size: 64} })},
			{`binding 0: buffer "x": bytes [4090, 4106), want a part of [0, 4096)`,
				spoiled(func(op *vk.Op) { op.Bindings[0] = vk.Range{Buffer: x, Offset: 4090, Size: 16} })},
			{"offset 4, want a multiple of", spoiled(func(op *vk.Op) { op.Bindings[0] = x.All().Slice(4, 16) })},
			{"offset 4, want a multiple of", fetch(x.All().Slice(4, 16))},
			{"size 20, want a multiple of 16", fetch(x.All().Slice(0, 20))},
			{"multiples of 4", vk.Op{Kind: vk.Fill, Dst: x.All().Slice(2, 4)}},
			{"no buffer", vk.Op{Kind: vk.Fill}},
			{"source: no buffer", vk.Op{Kind: vk.Copy, Dst: x.All()}},
			{"destination: no buffer", vk.Op{Kind: vk.Copy, Src: x.All()}},
			{"want as many", vk.Op{Kind: vk.Copy, Src: x.All(), Dst: y.All().Slice(0, 8)}},
			{"overlap", vk.Op{Kind: vk.Copy, Src: x.All().Slice(0, 8), Dst: x.All().Slice(7, 8)}},
			{"none is query 0", vk.Op{Kind: vk.Timestamp, Query: 1}},
		} {
			c.op.Name = "sut"
			_, err := d.Record("list", []vk.Op{{Kind: vk.Barrier}, c.op})
			if err == nil || !strings.HasPrefix(err.Error(), `vk: record "list": `) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want an error that says %q", err, c.says)
			} else if !strings.Contains(err.Error(), `op 1 `) && !strings.Contains(err.Error(), "timestamps") {
				t.Errorf("%v does not name the op", err)
			}
		}
		twice := []vk.Op{{Kind: vk.Timestamp}, {Kind: vk.Timestamp}}
		if _, err := d.Record("list", twice); err == nil || !strings.Contains(err.Error(), "used twice") {
			t.Errorf("%v, want an error that says that the query is used twice", err)
		}
	})
}

func TestRecordRefusesRangesAboveTheLimits(t *testing.T) {
	for _, name := range drivers.Names() {
		t.Run(name, func(t *testing.T) {
			d := drivers.Open(t, name, true)
			d.Info.Limits.MaxStorageRange, d.Info.Limits.MaxTexelElements = 1024, 64 // no machine has room for the real ones
			x, y := buffer(t, d, "x", 2048), buffer(t, d, "y", 256)
			store := scale(pipeline(t, d, "scale", 64, 1), x.All().Slice(0, 1024), y.All(), 0, 64)
			fetch := vk.Op{Pipeline: pipeline(t, d, "texel", 64), Bindings: []vk.Range{x.All().Slice(0, 1024), y.All()}, X: 1, Y: 1, Z: 1}
			record(t, d, store, vk.Op{Kind: vk.Barrier}, fetch)
			store.Bindings[0], fetch.Bindings[0] = x.All().Slice(0, 1028), x.All().Slice(0, 1040)
			for says, op := range map[string]vk.Op{
				`buffer "x": 1028 bytes in one binding, the device takes 1024`: store,
				`buffer "x": 65 texels in one binding, the device takes 64`:    fetch,
			} {
				if _, err := d.Record("list", []vk.Op{op}); err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%v, want an error that says %q", err, says)
				}
			}
		})
	}
}

func TestRecordRefusesAnotherDevicesObjects(t *testing.T) {
	for _, name := range drivers.Names() {
		t.Run(name, func(t *testing.T) {
			d, other := drivers.Open(t, name, false), drivers.Open(t, name, false)
			x := buffer(t, d, "x", 64)
			op := scale(pipeline(t, d, "scale", 64, 1), x.All(), x.All(), 0, 1)
			if _, err := other.Record("list", []vk.Op{op}); err == nil || !strings.Contains(err.Error(), "another device") {
				t.Errorf("pipeline: %v", err)
			}
			fill := vk.Op{Kind: vk.Fill, Dst: x.All()}
			if _, err := other.Record("list", []vk.Op{fill}); err == nil || !strings.Contains(err.Error(), "another device") {
				t.Errorf("buffer: %v", err)
			}
		})
	}
}
