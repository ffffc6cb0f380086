package main

import (
	"bytes"
	"strings"
	"testing"

	"vkdecode/vk"
)

func TestDevicesShowsTheChoiceAndTheReasons(t *testing.T) {
	chosen := 1
	report := deviceReport{Selected: &chosen, Devices: []listedDevice{
		{DeviceInfo: vk.DeviceInfo{Index: 0, Name: "Old Card", Kind: "discrete", APIVersion: 1 << 22, Rejected: "Vulkan 1.0, want 1.1"}, Tuning: "by kind"},
		{DeviceInfo: vk.DeviceInfo{Index: 1, Name: "New Card", Kind: "integrated", APIVersion: 1<<22 | 3<<12, Driver: "some driver 2",
			Heaps: []vk.Heap{{Size: 3 << 30, DeviceLocal: true}, {Size: 9 << 30}}}, Tuning: "measured, 4 products"},
	}}
	var b bytes.Buffer
	if err := report.print(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	for i, parts := range [][]string{
		{"index", "usable"},
		{"Old Card", "1.0", "by kind", "no: Vulkan 1.0, want 1.1"},
		{"*", "New Card", "integrated", "1.3", "3.0 GiB  9.0 GiB", "some driver 2", "measured, 4 products", "yes"},
	} {
		for _, part := range parts {
			if !strings.Contains(lines[i], part) {
				t.Errorf("%q does not say %q", lines[i], part)
			}
		}
	}
	if strings.HasPrefix(lines[1], "*") {
		t.Error("two devices are chosen")
	}
}

// This machine has a driver: the tests of the kernels need one too.
func TestDevicesListsThisMachine(t *testing.T) {
	inFolder(t, nil)
	r := vkdecode(t, "devices", "--json")
	r.want(t, exitOK)
	var report deviceReport
	r.read(t, &report)
	if report.Selected == nil || len(report.Devices) == 0 {
		t.Fatalf("%s; install mesa-vulkan-drivers", r.stdout)
	}
	r = vkdecode(t, "devices", "--device", report.Devices[*report.Selected].UUID)
	r.want(t, exitOK)
	if !strings.Contains(r.stdout, report.Devices[*report.Selected].Name) || !strings.Contains(r.stdout, "\n*") {
		t.Errorf("%s", r.stdout)
	}
	r = vkdecode(t, "devices", "--device", "no such card")
	r.want(t, exitFailure, `"no such card"`)
	if !strings.Contains(r.stdout, report.Devices[0].Name) {
		t.Errorf("a wrong choice hides the list: %s", r.stdout)
	}
}

func TestDevicesWithoutADriverSaysSo(t *testing.T) {
	inFolder(t, nil)
	t.Setenv("VK_DRIVER_FILES", "/nonexistent.json")
	t.Setenv("VK_ICD_FILENAMES", "/nonexistent.json")
	vkdecode(t, "devices").want(t, exitFailure, "driver")
}
