package bench

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"vkdecode/vk"
)

// platform writes files of a /sys and returns where it is.
func platform(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func set(t *testing.T, root, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

const (
	package0 = "class/powercap/intel-rapl:0/"
	package1 = "class/powercap/intel-rapl:1/"
	core     = "class/powercap/intel-rapl:0:0/"
)

func TestTheEnergyOfProcessorsIsThatOfTheirPackages(t *testing.T) {
	root := platform(t, map[string]string{
		package0 + "energy_uj": "5000000", package0 + "max_energy_range_uj": "10000000",
		package1 + "energy_uj": "9000000", package1 + "max_energy_range_uj": "10000000",
		core + "energy_uj": "1", core + "max_energy_range_uj": "10000000", // a part of package 0
		"class/drm/card0/device/vendor": "0x1002", "class/drm/card0/device/hwmon/hwmon1/energy1_input": "7",
	})
	m := NewMeter(root, vk.DeviceInfo{Kind: "cpu"})
	m.Start()
	set(t, root, package0+"energy_uj", "8000000")
	set(t, root, package1+"energy_uj", "2000000") // begun anew
	set(t, root, core+"energy_uj", "1000000")
	if j := m.Stop(); math.Abs(j-6) > 1e-9 {
		t.Errorf("%g J, want 3 of one and 3 of the other", j)
	}
	m.Start()
	os.Remove(filepath.Join(root, package1+"energy_uj"))
	if j := m.Stop(); !math.IsNaN(j) {
		t.Errorf("%g J without a counter, want no number", j)
	}
}

func TestTheEnergyOfACardIsItsOwn(t *testing.T) {
	info := vk.DeviceInfo{Kind: "discrete", VendorID: 0x1002, DeviceID: 0x744c}
	root := platform(t, map[string]string{
		"class/drm/card0/device/vendor": "0x8086", "class/drm/card0/device/device": "0x744c", "class/drm/card0/device/hwmon/hwmon0/energy1_input": "1",
		"class/drm/card1/device/vendor": "0x1002", "class/drm/card1/device/device": "0x744c", "class/drm/card1/device/hwmon/hwmon4/energy1_input": "1000000",
		package0 + "energy_uj": "5",
	})
	m := NewMeter(root, info)
	m.Start()
	set(t, root, "class/drm/card1/device/hwmon/hwmon4/energy1_input", "3500000")
	set(t, root, "class/drm/card0/device/hwmon/hwmon0/energy1_input", "9500000")
	if j := m.Stop(); math.Abs(j-2.5) > 1e-9 {
		t.Errorf("%g J, want 2.5", j)
	}
}

func TestAPowerIsAddedUpOverTime(t *testing.T) {
	info := vk.DeviceInfo{Kind: "discrete", VendorID: 0x1002, DeviceID: 0x744c}
	root := platform(t, map[string]string{
		"class/drm/card1/device/vendor": "0x1002", "class/drm/card1/device/device": "0x744c", "class/drm/card1/device/hwmon/hwmon4/power1_average": "100000000",
	})
	m := NewMeter(root, info)
	begin := time.Now()
	m.Start()
	time.Sleep(3 * powerEvery)
	j, took := m.Stop(), time.Since(begin).Seconds()
	if !(j > 100*3*powerEvery.Seconds()*0.9 && j <= 100*took) {
		t.Errorf("%g J at 100 W for %g s", j, took)
	}
}

func TestAPlatformThatDoesNotTellIsNoMeter(t *testing.T) {
	other := platform(t, map[string]string{
		"class/drm/card0/device/vendor": "0x1002", "class/drm/card0/device/device": "0x1", "class/drm/card0/device/hwmon/hwmon0/energy1_input": "1",
		core + "energy_uj": "1", package0 + "energy_uj": "none",
	})
	for _, info := range []vk.DeviceInfo{{Kind: "cpu"}, {Kind: "discrete", VendorID: 0x1002, DeviceID: 0x744c}} {
		for _, root := range []string{other, t.TempDir()} {
			m := NewMeter(root, info)
			m.Start()
			if j := m.Stop(); m != nil || !math.IsNaN(j) {
				t.Errorf("%s: %+v, %g J", info.Kind, m, j)
			}
		}
	}
}
