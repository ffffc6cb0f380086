package doctor

import (
	"context"
	"errors"
	"slices"
	"testing"

	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// examOf prepares an examination that logs its results.
func examOf(t *testing.T, d *vk.Device) *Exam {
	t.Helper()
	x, err := NewExam(d)
	if err != nil {
		t.Fatal(err)
	}
	x.Emit = func(r Result) { t.Logf("%s passes %v, %.0f ms", r, r.Passes, r.MS) }
	return x
}

func TestGoodDevicesPassEveryCheck(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		x := examOf(t, d)
		x.Own = d.Info.Kind == "cpu" && x.Tuning.Form != shaders.Texel // SwiftShader compiles for a minute
		r, err := x.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !r.Passes || len(r.Off) > 0 || r.Tuning != x.Tuning {
			t.Errorf("passes %v, without %q, tuning %+v", r.Passes, r.Off, r.Tuning)
		}
		count := map[Role]int{}
		var names []string
		for _, c := range r.Results {
			count[c.Role]++
			if !c.Passes || c.Error == nil || c.What == "" {
				t.Errorf("%+v", c)
			}
			if slices.Contains(names, c.Check) {
				t.Errorf("two checks are called %q", c.Check)
			}
			names = append(names, c.Check)
		}
		if slices.Contains(names, int8Products) != (d.Info.Kind == "cpu") {
			t.Errorf("int8 among the checks: %q", names)
		} else if d.Info.Kind == "cpu" {
			count[Spare]--
		}
		if count[Required] != 2*len(cacheTypes)+2*4+4 || count[Optional] < 3 || (count[Spare] == 0) != x.Own {
			t.Errorf("%v checks", count)
		}
	})
}

func TestTheQuickCheckPassesOnGoodDevices(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		r, err := examOf(t, d).Quick(t.Context(), runtime.F32)
		if err != nil || !r.Passes || len(r.Results) != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestAnInterruptedExaminationHasNoVerdict(t *testing.T) {
	x := examOf(t, drivers.First(t))
	ctx, cancel := context.WithCancel(t.Context())
	x.Emit = func(Result) { cancel() }
	if _, err := x.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("run: %v", err)
	}
	if r, err := x.Quick(ctx, runtime.F32); !errors.Is(err, context.Canceled) {
		t.Errorf("quick: %+v, %v", r, err)
	}
}

// moduleOf is a kernel as a device runs it.
func moduleOf(t *testing.T, k shaders.Kernel, v shaders.Variant) *vk.Module {
	t.Helper()
	c, err := k.Call(v)
	if err != nil {
		t.Fatal(err)
	}
	return c.Module
}

// Paths and forms that compute wrong are found and left out, and the device goes on without them.
func TestWrongPathsAreTurnedOff(t *testing.T) {
	for _, c := range []struct {
		name   string
		kernel shaders.Kernel
		caches []string // types of which there is a module each; an empty one where it has none
		forms  int      // in which it computes wrong, the own one first; 0: in that, and the forms are none of the matter
		off    func(f []shaders.Form) []string
	}{
		{"attend_token", shaders.AttendToken{}, []string{"f32", "f16"}, 0, func([]shaders.Form) []string { return []string{tokenAttention} }},
		{"attend_rows", shaders.AttendRows{}, []string{""}, 1, func(f []shaders.Form) []string { return []string{formNames[f[0]]} }},
		{"rms_norm", shaders.RmsNorm{}, []string{""}, 1, func(f []shaders.Form) []string { return []string{formNames[f[0]]} }},
		{"rms_norm in two forms", shaders.RmsNorm{}, []string{""}, 2, func(f []shaders.Form) []string { return []string{formNames[f[0]], formNames[f[1]]} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := examOf(t, drivers.First(t))
			wrong := append([]shaders.Form{x.Tuning.Form}, slices.DeleteFunc(slices.Clone(forms), func(f shaders.Form) bool { return f == x.Tuning.Form })...)
			for _, cache := range c.caches {
				for _, f := range wrong[:max(1, c.forms)] {
					drivers.Break(t, moduleOf(t, c.kernel, shaders.Variant{Form: f, Cache: cache}))
				}
			}
			x.report = &Report{Device: x.Device.Info, Off: []string{}}
			left, err := x.forms(t.Context())
			if err == nil && c.forms == 0 {
				left, err = x.paths(t.Context(), left)
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := c.off(wrong); !slices.Equal(x.report.Off, want) {
				t.Errorf("without %q, want %q", x.report.Off, want)
			}
			later := Without(x.Tuning, x.Device.Info, x.report.Off)
			if c.forms > 0 {
				later = bare(later, x.Device.Info)
			}
			if later != left {
				t.Errorf("later runs use %+v, what passed is %+v", later, left)
			}
		})
	}
}

// What no other way stands in for makes the device unfit.
func TestAWrongKernelMakesTheDeviceUnfit(t *testing.T) {
	x := examOf(t, drivers.First(t))
	for _, f := range forms {
		drivers.Break(t, moduleOf(t, shaders.RmsNorm{}, shaders.Variant{Form: f}))
	}
	for name, examine := range map[string]func(context.Context) (*Report, error){"all": x.Run, "quick": func(ctx context.Context) (*Report, error) { return x.Quick(ctx, runtime.F32) }} {
		r, err := examine(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		v := VerdictOf(r, x.Tuning, name == "quick")
		if r.Passes || len(v.Failed()) == 0 || v.Err() == nil {
			t.Errorf("%s: passes: %+v", name, r.Results)
		}
	}
}

// GPUs multiply chunks in tiles, of f16 if they are asked to. What is wrong there is left out by itself.
func TestTilesThatComputeWrongAreTurnedOff(t *testing.T) {
	d := drivers.First(t)
	for _, c := range []struct {
		name   string
		broken shaders.Kernel
		off    []string
	}{
		{"right", nil, []string{}},
		{"matmul_tile", shaders.MatmulTile{}, []string{tiledProducts}},
		{"matmul_half", shaders.MatmulHalf{}, []string{halvedTiles}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := examOf(t, d)
			gpu := d.Info
			gpu.Kind = "discrete"
			if !gpu.Features.Float16 {
				t.Fatal("tests begin with a driver that computes in f16")
			}
			tile := runtime.TuningFor(gpu).Tile
			x.Tuning = bare(runtime.TuningFor(gpu), gpu) // other paths are slow to compile
			x.Tuning.Tile = tile
			if _, half := c.broken.(shaders.MatmulHalf); half && x.Tuning.Halved(gpu).Tile.Matrix[0] > 0 {
				c.broken = shaders.MatmulMatrix{}
			}
			if c.broken != nil {
				for _, w := range shaders.WeightTypes {
					drivers.Break(t, moduleOf(t, c.broken, shaders.Variant{Form: shaders.Shared, Weight: w}))
				}
			}
			x.report = &Report{Device: gpu, Off: []string{}}
			left, err := x.paths(t.Context(), bare(x.Tuning, gpu))
			if err == nil {
				err = x.precision(t.Context(), left, runtime.F16)
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(x.report.Off, c.off) || left != Without(x.Tuning, gpu, c.off) {
				t.Errorf("without %q, want %q; left is %+v", x.report.Off, c.off, left)
			}
			for _, r := range x.report.Results {
				if r.Path == halvedTiles && r.Passes && *r.Error < bounds[pathType] {
					t.Errorf("tiles of f16 are as exact as others, %g: they were not used", *r.Error)
				}
			}
			later := &Verdict{Off: x.report.Off}
			if half, err := later.Precise([]runtime.Tuning{left}, gpu, runtime.F16); (err == nil) != (len(c.off) == 0) || half[0].Tile.Half != (err == nil) {
				t.Errorf("asked for f16: %+v, %v", half[0].Tile, err)
			}
		})
	}
}
