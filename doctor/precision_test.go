package doctor

import (
	"slices"
	"strings"
	"testing"

	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// A precision is checked when it is asked for, and refused for good where it computes wrong.
func TestAPrecisionThatComputesWrongIsRefused(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		for _, c := range []struct {
			name   string
			broken shaders.Kernel
		}{
			{"right", nil},
			{"matmul_int8", shaders.MatmulInt8{Rows: 16, Pairs: 4}},
		} {
			t.Run(c.name, func(t *testing.T) {
				x := examOf(t, d)
				if _, can := x.Tuning.Int8(); !can {
					t.Skip("this device is no CPU driver")
				}
				if c.broken != nil {
					for _, w := range shaders.MatmulInt8Weights {
						drivers.Break(t, moduleOf(t, c.broken, shaders.Variant{Form: x.Tuning.Form, Weight: w}))
					}
				}
				unasked, err := x.Quick(t.Context(), runtime.F32)
				if err != nil || len(unasked.Off) > 0 {
					t.Fatalf("without %q, %v", unasked.Off, err)
				}
				if VerdictOf(unasked, x.Tuning, true).Examined(d.Info, runtime.Int8) {
					t.Error("int8 counts as checked and was not asked for")
				}
				if !VerdictOf(unasked, x.Tuning, false).Examined(d.Info, runtime.Int8) {
					t.Error("a whole examination would give way to a quick one")
				}
				r, err := x.Quick(t.Context(), runtime.Int8)
				if err != nil {
					t.Fatal(err)
				}
				v := VerdictOf(r, x.Tuning, true)
				if !v.Examined(d.Info, runtime.Int8) || !v.Examined(d.Info, runtime.F16) || !v.Passes { // a CPU driver has no tiles to check
					t.Errorf("examined: %+v", v)
				}
				tunings, err := v.Precise([]runtime.Tuning{x.Tuning}, d.Info, runtime.Int8)
				if (err == nil) != (c.broken == nil) || (tunings[0].Pairs > 0) != (err == nil) || slices.Contains(v.Off, int8Products) != (err != nil) {
					t.Errorf("asked for int8: %+v, without %q, %v", tunings[0], v.Off, err)
				}
				if _, err := v.Precise(tunings, d.Info, runtime.F16); err == nil || !strings.Contains(err.Error(), "int8 is for CPU drivers") {
					t.Errorf("asked for f16: %v", err)
				}
			})
		}
	})
}
