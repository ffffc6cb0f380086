package doctor

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/vk"
)

// card is a device that nobody has.
func card() vk.DeviceInfo {
	return vk.DeviceInfo{Name: "Card", UUID: "0001", Driver: "driver 1.2", DriverVersion: 12, Kind: "discrete", Limits: vk.Limits{MaxStorageBuffers: 16, SubgroupSize: 32}}
}

// report is one of an examination that measured e.
func report(e float64, off ...string) *Report {
	passes := e <= 1
	return &Report{Device: card(), Passes: passes, Off: off, Results: []Result{{Check: "logits", Role: Required, What: "NMSE", Error: &e, Bound: 1, Passes: passes}}}
}

func TestVerdictsAreReadBack(t *testing.T) {
	folder, info := t.TempDir()+"/new", card()
	if v := ReadVerdict(folder, info); v != nil {
		t.Errorf("%+v before there is one", v)
	}
	for _, want := range []*Verdict{
		VerdictOf(report(0.5, tokenAttention, joinedLayers), runtime.TuningFor(info), false),
		VerdictOf(report(2), runtime.TuningFor(info), true),
	} {
		if err := want.Save(folder, info); err != nil {
			t.Fatal(err)
		}
		got := ReadVerdict(folder, info)
		if got == nil || got.Passes != want.Passes || got.Quick != want.Quick || !reflect.DeepEqual(got.Off, want.Off) || len(got.Failed()) != len(want.Failed()) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("%v in the folder, want one file: %v", left, err)
	}
}

func TestVerdictsOnOtherDevicesDoNotCount(t *testing.T) {
	folder, info := t.TempDir(), card()
	if err := VerdictOf(report(0.5), runtime.TuningFor(info), false).Save(folder, info); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(i *vk.DeviceInfo){
		"another name":           func(i *vk.DeviceInfo) { i.Name = "Other" },
		"another driver":         func(i *vk.DeviceInfo) { i.Driver = "driver 1.3" },
		"another driver version": func(i *vk.DeviceInfo) { i.DriverVersion++ },
		"another UUID":           func(i *vk.DeviceInfo) { i.UUID = "0002" },
		"another tuning":         func(i *vk.DeviceInfo) { i.Limits.MaxStorageBuffers = 8 },
	} {
		other := card()
		change(&other)
		if v := ReadVerdict(folder, other); v != nil {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if ReadVerdict(folder, info) == nil {
		t.Error("its own does not count either")
	}
}

func TestDamagedVerdictsCountAsNoneAndAreReplaced(t *testing.T) {
	folder, info := t.TempDir(), card()
	sound := VerdictOf(report(0.5, tokenAttention), runtime.TuningFor(info), false)
	if err := sound.Save(folder, info); err != nil {
		t.Fatal(err)
	}
	path := VerdictPath(folder, info)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(whole)
	for name, damaged := range map[string]string{
		"empty":                      "",
		"cut short":                  text[:len(text)/2],
		"more behind":                text + "{}",
		"no JSON":                    "\x00\xff",
		"a list":                     "[]",
		"no results":                 strings.Replace(text, `"results": [`, `"other": [`, 1),
		"an unknown path":            strings.Replace(text, tokenAttention, "everything", 1),
		"passes with a failed one":   strings.Replace(text, `"passes": true,`+"\n      \"what\"", `"passes": false,`+"\n      \"what\"", 1),
		"fails with none failed":     strings.Replace(text, `"passes": true,`, `"passes": false,`, 1),
		"other kernels":              strings.Replace(text, shaders.Fingerprint(), "0123456789abcdef", 1),
		"another format":             strings.Replace(text, `"format": 1`, `"format": 2`, 1),
		"longer than any can be":     text + strings.Repeat(" ", 1<<20) + "x",
		"a number where text should": strings.Replace(text, `"uuid": "0001"`, `"uuid": 1`, 1),
	} {
		if damaged == text {
			t.Fatalf("%s: nothing is damaged in %s", name, text)
		}
		if err := os.WriteFile(path, []byte(damaged), 0o666); err != nil {
			t.Fatal(err)
		}
		if v := ReadVerdict(folder, info); v != nil {
			t.Errorf("%s: %+v", name, v)
		}
		if err := sound.Save(folder, info); err != nil || ReadVerdict(folder, info) == nil {
			t.Errorf("%s: not replaced: %v", name, err)
		}
	}
	os.Remove(path)
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if v := ReadVerdict(folder, info); v != nil {
		t.Errorf("a folder: %+v", v)
	}
	if err := sound.Save(folder, info); err == nil {
		t.Error("a verdict replaces a folder")
	}
}

func TestUnfitDevicesAreNamedWithWhatFailed(t *testing.T) {
	if err := VerdictOf(report(0.5), runtime.Tuning{}, false).Err(); err != nil {
		t.Errorf("a device that passes: %v", err)
	}
	err := VerdictOf(report(2), runtime.Tuning{}, false).Err()
	var unfit *UnfitError
	if !errors.As(err, &unfit) || !strings.Contains(err.Error(), `"Card"`) || !strings.Contains(err.Error(), "logits: NMSE 2, 1 at most") {
		t.Errorf("%v", err)
	}
}

// A path that is off is not taken, on any device, and nothing else changes.
func TestPathsCanBeTurnedOff(t *testing.T) {
	gpu, cpu := card(), card()
	cpu.Kind, cpu.Limits.MaxTexelElements = "cpu", 1<<27
	cpu.Features.SubgroupArithmetic, cpu.Features.SubgroupShuffle = true, true
	for _, info := range []vk.DeviceInfo{gpu, cpu} {
		all := runtime.TuningFor(info)
		if got := Without(all, info, nil); got != all {
			t.Errorf("with all paths %+v, want %+v", got, all)
		}
		for _, p := range paths {
			if got := Without(all, info, []string{p.name}); p.taken(all) && (p.taken(got) || got == all) {
				t.Errorf("without %s: %+v", p.name, got)
			}
		}
	}
	for _, c := range []struct {
		off  []string
		want shaders.Form
	}{
		{nil, shaders.Texel},
		{[]string{formNames[shaders.Storage]}, shaders.Texel},
		{[]string{formNames[shaders.Texel]}, shaders.Storage},
		{[]string{formNames[shaders.Texel], formNames[shaders.Storage]}, shaders.Shared},
	} {
		if got := Without(runtime.TuningFor(cpu), cpu, c.off); got.Form != c.want {
			t.Errorf("without %q: %v kernels, want %v", c.off, got.Form, c.want)
		}
	}
}
