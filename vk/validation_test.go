package vk_test

import (
	"strings"
	"testing"

	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// The checks "no validation message" elsewhere can fail: these mistakes give one.

// quiet opens a device whose messages the test reads itself.
func quiet(t *testing.T, name string, validation bool) *vk.Device {
	d := drivers.Open(t, name, validation)
	t.Cleanup(func() { d.Instance().Messages() }) // before the device's own check
	return d
}

func TestSynchronizationValidationSeesAMissingBarrier(t *testing.T) {
	for _, name := range drivers.Names() {
		t.Run(name, func(t *testing.T) {
			d := quiet(t, name, true)
			a, b := buffer(t, d, "alpha", 256), buffer(t, d, "beta", 256)
			p := pipeline(t, d, "scale", 64, 1)
			c := buffer(t, d, "gamma", 256)
			first, second := scale(p, a.All(), b.All(), 1, 64), scale(p, b.All(), c.All(), 1, 64)
			record(t, d, first, vk.Op{Kind: vk.Barrier}, second)
			if m := d.Instance().Messages(); m != nil {
				t.Errorf("messages about a recording with its barrier: %q", m)
			}
			record(t, d, first, second)
			m := d.Instance().Messages()
			if len(m) == 0 || !strings.Contains(strings.Join(m, "\n"), "SYNC-HAZARD-READ-AFTER-WRITE") {
				t.Errorf("messages %q, want the hazard", m)
			} else if !strings.Contains(m[0], "beta") {
				t.Errorf("message %q does not name the buffer", m[0])
			}
			if m := d.Instance().Messages(); m != nil {
				t.Errorf("messages come twice: %q", m)
			}
		})
	}
}

func TestValidationSeesWrongBindings(t *testing.T) {
	for _, name := range drivers.Names() {
		t.Run(name, func(t *testing.T) {
			d := quiet(t, name, true)
			m := module(t, "scale")
			m.PushBytes = 4 // the shader has 8
			p, err := d.NewPipeline(m, []uint32{64, 1})
			if err == nil {
				p.Free()
			}
			if got := strings.Join(d.Instance().Messages(), "\n"); !strings.Contains(got, "VUID-") {
				t.Errorf("messages %q, want one about the push constants", got)
			}
		})
	}
}

func TestWithoutValidationThereAreNoMessages(t *testing.T) {
	for _, name := range drivers.Names() {
		t.Run(name, func(t *testing.T) {
			d := quiet(t, name, false)
			a, b := buffer(t, d, "a", 256), buffer(t, d, "b", 256)
			p := pipeline(t, d, "scale", 64, 1)
			record(t, d, scale(p, a.All(), b.All(), 1, 64), scale(p, b.All(), a.All(), 1, 64))
			if m := d.Instance().Messages(); m != nil {
				t.Errorf("messages %q", m)
			}
		})
	}
}

func TestCloseFreesWhatIsLeft(t *testing.T) {
	for _, name := range drivers.Names() {
		t.Run(name, func(t *testing.T) {
			d := drivers.Open(t, name, true) // fails on a message about an object that was not destroyed
			x, err := d.NewBuffer("x", 4096, vk.Local)
			if err != nil {
				t.Fatal(err)
			}
			p, err := d.NewPipeline(module(t, "texel"), []uint32{64})
			if err != nil {
				t.Fatal(err)
			}
			op := vk.Op{Pipeline: p, Bindings: []vk.Range{x.All().Slice(0, 1024), x.All().Slice(1024, 256)}, X: 1, Y: 1, Z: 1}
			c, err := d.Record("left", []vk.Op{op, {Kind: vk.Timestamp}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Submit(c); err != nil {
				t.Fatal(err)
			}
		})
	}
}
