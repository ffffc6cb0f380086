package vk_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

func TestConstantsSpecialiseAPipeline(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		const n = 1000
		x, y := buffer(t, d, "x", 4*n), buffer(t, d, "y", 4*n)
		write(t, d, x.All(), count(n))
		for _, size := range []uint32{1, 32, 128} { // workgroup sizes
			for _, factor := range []uint32{0, 1, 5} {
				p := pipeline(t, d, "scale", size, factor)
				op := scale(p, x.All(), y.All(), 7, n)
				op.X = (n + size - 1) / size
				run(t, d, op)
				for i, data := uint32(0), read(t, d, y.All()); i < n; i++ {
					if got := word(data, int(i)); got != factor*i+7 {
						t.Fatalf("size %d, factor %d: y[%d] = %d, want %d", size, factor, i, got, factor*i+7)
					}
				}
			}
		}
	})
}

func TestPipelinesCompileConcurrently(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		var group sync.WaitGroup
		x := buffer(t, d, "x", 256)
		write(t, d, x.All().Slice(0, 4), words(11))
		for i := range uint32(16) {
			group.Go(func() {
				p, err := d.NewPipeline(module(t, "scale"), []uint32{64, i})
				if err != nil {
					t.Error(err)
					return
				}
				defer p.Free()
				y, err := d.NewBuffer("y", 256, vk.Local)
				if err != nil {
					t.Error(err)
					return
				}
				defer y.Free()
				got := make([]byte, 4)
				if err := d.Run(scale(p, x.All(), y.All(), 1, 1)); err != nil {
					t.Error(err)
				} else if err := d.Read(got, y.All().Slice(0, 4)); err != nil || word(got, 0) != 11*i+1 {
					t.Errorf("factor %d: %d, %v; want %d", i, word(got, 0), err, 11*i+1)
				}
			})
		}
		group.Wait()
	})
}

func TestEqualPipelinesAreCompiledOnce(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, before := module(t, "scale"), d.Compiled()
		made := func(m *vk.Module, factor uint32) *vk.Pipeline {
			t.Helper()
			p, err := d.NewPipeline(m, []uint32{64, factor})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Free)
			return p
		}
		first, second := made(m, 3), made(m, 3)
		if n := d.Compiled() - before; n != 1 {
			t.Errorf("%d compiled, want 1", n)
		}
		made(m, 4)
		changed := *m
		changed.Code = bytes.Clone(m.Code) // as tests do that break kernels
		made(&changed, 3)
		if n := d.Compiled() - before; n != 3 {
			t.Errorf("%d compiled, want one for other constants and one for other code beside the first", n)
		}
		first.Free()
		first.Free()
		x, y := buffer(t, d, "x", 256), buffer(t, d, "y", 256)
		write(t, d, x.All(), count(64))
		run(t, d, scale(second, x.All(), y.All(), 5, 64))
		if got := word(read(t, d, y.All()), 7); got != 3*7+5 {
			t.Errorf("after the other was freed: y[7] = %d, want 26", got)
		}
		if err := d.Run(scale(first, x.All(), y.All(), 5, 64)); err == nil || !strings.Contains(err.Error(), "freed") {
			t.Errorf("the freed one runs: %v", err)
		}
		second.Free()
		if n := d.Compiled() - before; n != 2 {
			t.Errorf("%d left, want 2", n)
		}
	})
}

func TestNewPipelineRefusesWhatTheDeviceCannotRun(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		l := d.Info.Limits
		for _, c := range []struct {
			says      string
			spoil     func(m *vk.Module)
			constants []uint32
		}{
			{"not SPIR-V", func(m *vk.Module) { m.Code = nil }, []uint32{64, 1}},
			{"not SPIR-V", func(m *vk.Module) { m.Code = m.Code[:len(m.Code)-1] }, []uint32{64, 1}},
			{"not SPIR-V", func(m *vk.Module) { m.Code = make([]byte, 64) }, []uint32{64, 1}},
			{"1 constants, want 2", func(*vk.Module) {}, []uint32{64}},
			{"workgroup's size, is 0", func(*vk.Module) {}, []uint32{0, 1}},
			{"workgroup's size", func(*vk.Module) {}, []uint32{l.MaxGroupSize[0] + 1, 1}},
			{"push constants", func(m *vk.Module) { m.PushBytes = 6 }, []uint32{64, 1}},
			{"push constants", func(m *vk.Module) { m.PushBytes = int(l.MaxPushBytes) + 4 }, []uint32{64, 1}},
			{"storage buffers", func(m *vk.Module) { m.Bindings = make([]vk.Binding, l.MaxStorageBuffers+1) }, []uint32{64, 1}},
			{"texel buffers", func(m *vk.Module) {
				m.Bindings = make([]vk.Binding, min(l.MaxTexelBuffers, 1<<20)+1)
				for i := range m.Bindings {
					m.Bindings[i].Texel = true
				}
			}, []uint32{64, 1}},
			{"format 99", func(m *vk.Module) { m.Bindings = []vk.Binding{{Texel: true, Format: 99}} }, []uint32{64, 1}},
		} {
			if c.says == "texel buffers" && l.MaxTexelBuffers > 1<<20 {
				continue // the driver promises more than anyone could bind
			}
			m := module(t, "scale")
			c.spoil(m)
			_, err := d.NewPipeline(m, c.constants)
			if err == nil || !strings.HasPrefix(err.Error(), `vk: pipeline "scale": `) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want an error that says %q", err, c.says)
			}
		}
	})
}

// A kernel that asks for more than the device has is refused by name, before the driver sees it.
func TestKernelsThatNeedMoreThanTheDeviceHasAreRefused(t *testing.T) {
	plain := *module(t, "scale")
	asking := func(capability uint32) *vk.Module {
		m := plain
		m.Code = append(append(bytes.Clone(plain.Code[:20]), words(2<<16|17, capability)...), plain.Code[20:]...)
		return &m
	}
	const float16, matrices = 9, 6022
	less, more := vk.DeviceInfo{}, vk.DeviceInfo{}
	more.Features.Float16, more.Limits.Matrix = true, [3]uint32{16, 16, 16}
	for _, c := range []struct {
		m          *vk.Module
		less, more string
	}{
		{&plain, "", ""},
		{asking(float16), "shaderFloat16", ""},
		{asking(matrices), "VK_KHR_cooperative_matrix", ""},
	} {
		if got := c.m.Lacks(less); (got == "") != (c.less == "") || !strings.Contains(got, c.less) {
			t.Errorf("lacks %q, want %q", got, c.less)
		}
		if got := c.m.Lacks(more); got != c.more {
			t.Errorf("lacks %q, want %q", got, c.more)
		}
	}
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		if d.Info.Limits.Matrix[0] > 0 {
			return
		}
		if p, err := d.NewPipeline(asking(matrices), []uint32{32, 1}); err == nil {
			p.Free()
			t.Error("a kernel with cooperative matrices was compiled")
		} else if !strings.Contains(err.Error(), "VK_KHR_cooperative_matrix") {
			t.Error(err)
		}
	})
}
