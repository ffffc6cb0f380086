package vk_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

func TestNewInstanceSaysWhatToInstallWithoutALoader(t *testing.T) {
	drivers.Instance(t, drivers.Names()[0], vk.Options{}).Close() // this process now has a loader
	for _, c := range []struct{ name, loader, says string }{
		{"missing", "libvulkan-missing.so.9", "install"},
		{"no Vulkan in it", "libm.so.6", "vkGetInstanceProcAddr"},
		{"a second one", "libvulkan.so", "already uses"},
	} {
		_, err := vk.NewInstance(vk.Options{Loader: c.loader})
		var want *vk.LoaderError
		if !errors.As(err, &want) || want.Loader != c.loader || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want a LoaderError that says %q", c.name, err, c.says)
		}
	}
}

func TestNewInstanceSaysWhatToInstallWithoutADriver(t *testing.T) {
	t.Setenv("VK_DRIVER_FILES", "/nowhere.json")
	t.Setenv("VK_ICD_FILENAMES", "/nowhere.json")
	_, err := vk.NewInstance(vk.Options{})
	var want *vk.LoaderError
	if !errors.As(err, &want) || !strings.Contains(err.Error(), "mesa-vulkan-drivers") {
		t.Errorf("%v, want a LoaderError that names a package", err)
	}
}

func TestNewInstanceNamesThePackageOfAMissingValidationLayer(t *testing.T) {
	t.Setenv("VK_LAYER_PATH", t.TempDir())
	_, err := vk.NewInstance(vk.Options{Validation: true})
	if err == nil || !strings.Contains(err.Error(), "vulkan-validationlayers") {
		t.Errorf("%v, want an error that names vulkan-validationlayers", err)
	}
}

func TestDevicesAreDescribed(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		for _, info := range d.Instance().Devices() {
			text, err := json.MarshalIndent(info, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			if bad := regexp.MustCompile(`"[^"]*[A-Z][^"]*":`).Find(text); bad != nil {
				t.Errorf("key %s is not snake_case", bad)
			}
			l := info.Limits
			if info.Rejected != "" || info.Name == "" || len(info.UUID) != 36 || info.Driver == "" || len(info.Heaps) == 0 {
				t.Errorf("incomplete: %s", text)
			}
			if l.SubgroupSize == 0 || l.MaxInvocations < 128 || l.MaxStorageRange < 1<<27 || l.StorageAlign < 1 || l.TexelAlign < 1 ||
				l.MaxTexelElements < 65536 || l.MaxAllocation < 1<<28 || l.MaxGroups[2] < 65535 || l.MaxGroupSize[0] < 128 {
				t.Errorf("limits below what Vulkan promises: %s", text)
			}
		}
		if len(d.Heaps()) != len(d.Info.Heaps) {
			t.Errorf("%d heaps, want %d", len(d.Heaps()), len(d.Info.Heaps))
		}
	})
}

func TestSoftwareDriversDifferAsWeRelyOn(t *testing.T) {
	if drivers.Names()[0] == drivers.Selected {
		return // a device of the user's: nothing is known of it
	}
	lavapipe := drivers.Open(t, drivers.Lavapipe, false).Info
	swiftshader := drivers.Open(t, drivers.SwiftShader, false).Info
	if lavapipe.Kind != "cpu" || swiftshader.Kind != "cpu" {
		t.Errorf("kinds %q and %q, want cpu", lavapipe.Kind, swiftshader.Kind)
	}
	if !lavapipe.Features.Storage16 || swiftshader.Features.Storage16 {
		t.Error("16-bit storage: want it on lavapipe and not on SwiftShader")
	}
	if l := swiftshader.Limits; l.MaxTexelElements != 65536 || l.StorageAlign != 256 || l.MaxAllocation != 1<<30 {
		t.Errorf("SwiftShader's limits are %+v", l)
	}
}

func TestSelect(t *testing.T) {
	device := func(index int, name, kind, uuid, rejected string) vk.DeviceInfo {
		return vk.DeviceInfo{Index: index, Name: name, Kind: kind, UUID: uuid, Rejected: rejected, Driver: "driver of " + name}
	}
	all := []vk.DeviceInfo{
		device(0, "SwiftShader Device", "cpu", "aa", ""),
		device(1, "llvmpipe (LLVM)", "cpu", "bb", ""),
		device(2, "Iris Xe", "integrated", "cc", ""),
		device(3, "RTX 4090", "discrete", "dd", ""),
		device(4, "RTX 3090", "discrete", "ee", ""),
		device(5, "GT 630", "discrete", "ff", "Vulkan 1.0.0, want 1.1"),
	}
	for _, c := range []struct {
		devices []vk.DeviceInfo
		sel     string
		want    int // index, -1 = an error
		says    string
	}{
		{all, "auto", 3, ""},
		{all, "", 3, ""},
		{all[:3], "", 2, ""},
		{all[:2], "", 1, ""},
		{all[:1], "", 0, ""},
		{all, "4", 4, ""},
		{all, "EE", 4, ""},
		{all, "iris", 2, ""},
		{all, "lavapipe", 1, ""},
		{all, "rtx", -1, "2 devices match"},
		{all, "rtx", -1, "RTX 3090"},
		{all, "radeon", -1, "GT 630"},
		{all, "9", -1, "no usable device"},
		{all, "5", -1, "Vulkan 1.0.0, want 1.1"},
		{all, "gt 630", -1, "cannot be used"},
		{all[5:], "auto", -1, "cannot be used"},
		{nil, "auto", -1, "install"},
	} {
		got, err := vk.Choose(c.devices, c.sel)
		switch {
		case c.want >= 0 && (err != nil || got.Index != c.want):
			t.Errorf("%q: device %d, %v; want %d", c.sel, got.Index, err, c.want)
		case c.want < 0 && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%q: %v, want an error that says %q", c.sel, err, c.says)
		}
	}
}

func TestRejectSaysWhatIsMissing(t *testing.T) {
	good := vk.DeviceInfo{APIVersion: 1<<22 | 1<<12, Limits: vk.Limits{
		MaxSharedBytes: 16384, MaxInvocations: 128, MaxPushBytes: 128, MaxStorageBuffers: 9}}
	if r := vk.Reject(good, true); r != "" {
		t.Errorf("the smallest usable device is rejected: %s", r)
	}
	for says, spoil := range map[string]func(*vk.DeviceInfo){
		"Vulkan 1.0.0":    func(d *vk.DeviceInfo) { d.APIVersion = 1 << 22 },
		"shared memory":   func(d *vk.DeviceInfo) { d.Limits.MaxSharedBytes-- },
		"invocations":     func(d *vk.DeviceInfo) { d.Limits.MaxInvocations-- },
		"push constants":  func(d *vk.DeviceInfo) { d.Limits.MaxPushBytes-- },
		"storage buffers": func(d *vk.DeviceInfo) { d.Limits.MaxStorageBuffers-- },
	} {
		bad := good
		spoil(&bad)
		if r := vk.Reject(bad, true); !strings.Contains(r, says) {
			t.Errorf("rejected for %q, want %q", r, says)
		}
	}
	if r := vk.Reject(good, false); !strings.Contains(r, "compute queue") {
		t.Errorf("rejected for %q, want the compute queue", r)
	}
}

func TestOpenRefusesAnIndexThatIsNotThere(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		if _, err := d.Instance().Open(vk.DeviceInfo{Index: 99}); err == nil {
			t.Error("device 99 opened")
		}
	})
}

func TestErrorsAreTyped(t *testing.T) {
	for code, want := range map[int32]error{-4: vk.ErrDeviceLost, 2: vk.ErrTimeout, 1: vk.ErrNotReady} {
		err := error(&vk.Error{Call: "vkQueueSubmit", Object: "step", Code: code})
		if !errors.Is(err, want) || !strings.HasPrefix(err.Error(), `vk: vkQueueSubmit "step": `) {
			t.Errorf("code %d: %v, want %v", code, err, want)
		}
	}
	if err := (&vk.Error{Code: -99}); !strings.Contains(err.Error(), "-99") {
		t.Errorf("an unknown code is lost: %v", err)
	}
}
