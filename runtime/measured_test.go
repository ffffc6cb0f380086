package runtime

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"slices"
	"testing"

	"vkdecode/kept"
	"vkdecode/shaders"
	"vkdecode/vk"
)

// card is a device that nobody has.
func card() vk.DeviceInfo {
	return vk.DeviceInfo{Name: "Card", UUID: "0001", Driver: "driver 1.2", DriverVersion: 12, Kind: "discrete", Limits: vk.Limits{MaxStorageBuffers: 16, SubgroupSize: 32, MaxTexelElements: 1 << 27}}
}

// Two products, and a choice of how to launch each in a form.
var (
	wide = Product{"q4_0", 4096, 512, Normed}
	long = Product{"q4_0", 512, 4096, Plain}
)

func choice(p Product, form shaders.Form, l Launch, table, best float64) Choice {
	return Choice{p, form.String(), l, table, best}
}

func measuredOn(info vk.DeviceInfo, choices ...Choice) *Measured {
	m := NewMeasured(info)
	for _, c := range choices {
		m.Add(c)
	}
	return m
}

func TestMeasurementsAreReadBack(t *testing.T) {
	folder, info := t.TempDir()+"/new", card()
	if ReadMeasured(folder, info) != nil {
		t.Error("read before there is one")
	}
	m := measuredOn(info, choice(wide, shaders.Shared, Launch{64, 16, 4}, 20, 10), choice(long, shaders.Shared, Launch{64, 32, 4}, 7, 7), choice(wide, shaders.Texel, Launch{32, 1, 8}, 30, 25))
	m.Add(choice(wide, shaders.Shared, Launch{32, 8, 4}, 20, 9)) // in place of the first
	for range 2 {
		if err := m.Save(folder, info); err != nil {
			t.Fatal(err)
		}
		if got := ReadMeasured(folder, info); !reflect.DeepEqual(got, m) || len(got.Choices) != 3 || got.Products() != 2 {
			t.Errorf("%+v, want %+v", got, m)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("%v in the folder, want one file: %v", left, err)
	}
}

func TestMeasurementsOnOtherDevicesDoNotCount(t *testing.T) {
	folder, info := t.TempDir(), card()
	if err := measuredOn(info, choice(long, shaders.Shared, Launch{64, 32, 4}, 7, 7)).Save(folder, info); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(i *vk.DeviceInfo){
		"another name":           func(i *vk.DeviceInfo) { i.Name = "Other" },
		"another driver":         func(i *vk.DeviceInfo) { i.Driver = "driver 1.3" },
		"another driver version": func(i *vk.DeviceInfo) { i.DriverVersion++ },
		"another UUID":           func(i *vk.DeviceInfo) { i.UUID = "0002" },
	} {
		other := card()
		change(&other)
		if m := ReadMeasured(folder, other); m != nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
	if ReadMeasured(folder, info) == nil {
		t.Error("its own does not count either")
	}
}

// Whatever becomes of the file, it is read as it was written or not at all.
func TestDamagedMeasurementsCountAsNone(t *testing.T) {
	folder, info := t.TempDir(), card()
	sound := measuredOn(info, choice(wide, shaders.Shared, Launch{64, 16, 4}, 20, 10))
	if err := sound.Save(folder, info); err != nil {
		t.Fatal(err)
	}
	path := MeasuredPath(folder, info)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	none := func(what string, damaged []byte) {
		t.Helper()
		if err := os.WriteFile(path, damaged, 0o666); err != nil {
			t.Fatal(err)
		}
		if m := ReadMeasured(folder, info); m != nil {
			t.Errorf("%s: %+v", what, m)
		}
	}
	for i := range whole {
		none("cut short", whole[:i])
		bad := bytes.Clone(whole)
		bad[i] ^= 1 << (i % 8)
		none("a bit that changed", bad)
	}
	none("not sealed", kept.Unseal(whole))
	none("more behind", append(bytes.Clone(whole), '\n'))
	none("too long", kept.Seal(make([]byte, mostMeasured)))
	swap := func(old, new string) {
		t.Helper()
		data := bytes.Replace(kept.Unseal(whole), []byte(old), []byte(new), 1)
		if bytes.Equal(data, kept.Unseal(whole)) {
			t.Fatalf("no %q in %s", old, data)
		}
		none(new, kept.Seal(data))
	}
	swap(`"format": 1`, `"format": 2`)
	swap(shaders.Fingerprint(), "0123456789abcdef")
	swap(`"threads": 0`, `"threads": 2`)
	swap(`"form": "shared"`, `"form": "new"`)
	swap(`"run": 16`, `"run": 3`) // no way that twins were compared in
	swap(`"lanes": 64`, `"lanes": 1000000`)
	swap(`"rows": 4096`, `"rows": -1`)
	swap(`"weight": "q4_0"`, `"weight": "q9"`)
	swap(`"input": "norm"`, `"input": "none"`)
	swap(`"best_us": 10`, `"best_us": 0`)
	swap(`"best_us": 10`, `"best_us": 21`)
	swap(`"table_us": 20`, `"table_us": 1e300`)
	swap(`"choices": [`, `"others": [`)
	if err := sound.Save(folder, info); err != nil || ReadMeasured(folder, info) == nil {
		t.Errorf("not replaced: %v", err)
	}
	twice := measuredOn(info, sound.Choices[0])
	twice.Choices = append(twice.Choices, twice.Choices[0])
	if err := twice.Save(folder, info); err != nil || ReadMeasured(folder, info) != nil {
		t.Errorf("two choices for one product count: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if ReadMeasured(folder, info) != nil || sound.Save(folder, info) == nil {
		t.Error("a folder is read or replaced")
	}
}

// A product takes the way that was measured for it, in the form in which all products together take least time.
func TestTuningTakesWhatWasMeasured(t *testing.T) {
	info := card()
	own, other := TuningIn(info, shaders.Shared), TuningIn(info, shaders.Storage)
	better, storage := Launch{64, 16, 4}, Launch{32, 1, 8}
	table := own.Launch(long.Rows)
	products := func(Tuning) (map[Product]int, error) { return map[Product]int{wide: 2, long: 10}, nil }
	for _, c := range []struct {
		name    string
		choices []Choice
		form    shaders.Form
		wide    Launch
		long    Launch
	}{
		{"nothing", nil, shaders.Shared, own.Launch(wide.Rows), table},
		{"a product", []Choice{choice(wide, shaders.Shared, better, 20, 10)}, shaders.Shared, better, table},
		{"another model's", []Choice{choice(Product{"q8_0", 4096, 512, Normed}, shaders.Shared, better, 20, 10)}, shaders.Shared, own.Launch(wide.Rows), table},
		{"a form that is quicker", []Choice{choice(wide, shaders.Shared, better, 20, 10), choice(long, shaders.Shared, table, 7, 7),
			choice(wide, shaders.Storage, storage, 25, 20), choice(long, shaders.Storage, storage, 5, 4)}, shaders.Storage, storage, storage},
		{"a form that is hardly quicker", []Choice{choice(wide, shaders.Shared, better, 20, 10), choice(long, shaders.Shared, table, 7, 7), // 90 in all
			choice(wide, shaders.Storage, storage, 20, 9), choice(long, shaders.Storage, storage, 7, 6.9)}, shaders.Shared, better, table}, // 87
		{"a form that was not measured for all", []Choice{choice(wide, shaders.Shared, better, 20, 10), choice(long, shaders.Shared, table, 7, 7), choice(long, shaders.Storage, storage, 5, 4)},
			shaders.Shared, better, table},
		{"a form that may not be used", []Choice{choice(wide, shaders.Shared, better, 20, 10), choice(long, shaders.Shared, table, 7, 7), choice(wide, shaders.Texel, storage, 5, 1), choice(long, shaders.Texel, storage, 5, 1)},
			shaders.Shared, better, table},
	} {
		e := &Engine{}
		var m *Measured
		if c.choices != nil {
			m = measuredOn(info, c.choices...)
		}
		if err := e.Tune(m, own, []Tuning{other}, products); err != nil {
			t.Fatal(err)
		}
		if e.Tuning.Form != c.form || e.Launch(wide) != c.wide || e.Launch(long) != c.long {
			t.Errorf("%s: %v kernels, %v, %v", c.name, e.Tuning.Form, e.Launch(wide), e.Launch(long))
		}
		n := 0
		for _, p := range []Product{wide, long} {
			if e.Launch(p) != e.Tuning.Launch(p.Rows) {
				n++
			}
		}
		if len(e.Otherwise()) != n {
			t.Errorf("%s: %q, want %d", c.name, e.Otherwise(), n)
		}
	}
	broken := errors.New("broken")
	if err := (&Engine{}).Tune(measuredOn(info), own, nil, func(Tuning) (map[Product]int, error) { return nil, broken }); err != broken {
		t.Errorf("%v", err)
	}
}

// Ways fit the kernels' and every device's limits, and the table's is one of them.
func TestLaunchesFitEveryDevice(t *testing.T) {
	for _, subgroup := range []uint32{4, 8, 16, 32, 64, 128} {
		for _, form := range []shaders.Form{shaders.Texel, shaders.Storage, shaders.Shared} {
			info := card()
			info.Limits.SubgroupSize = subgroup
			all := Launches(info, form)
			for _, l := range all {
				if l.Lanes > 128 || l.Run > l.Lanes || l.Run&(l.Run-1) != 0 || l.Rows%4 != 0 || l.Rows < 4 || form != shaders.Shared && l.Lanes != int(subgroup) {
					t.Errorf("%v kernels, subgroups of %d: %v", form, subgroup, l)
				}
			}
			if info.Kind = "cpu"; !slices.Contains(Launches(info, form), TuningIn(info, form).Launch(100)) || TuningIn(info, form).Lanes != int(subgroup) {
				t.Errorf("%v kernels on a CPU, subgroups of %d: %+v", form, subgroup, TuningIn(info, form))
			}
			info.Kind = card().Kind
			for rows := range 300 {
				table, found := TuningIn(info, form).Launch(rows), false
				for _, l := range all {
					found = found || l == table
				}
				if !found {
					t.Fatalf("%v kernels, subgroups of %d: the table's %v is none of %v", form, subgroup, table, all)
				}
			}
		}
	}
	e := &Engine{Tuning: Tuning{Run: 4}, Measured: map[Product]Launch{wide: {64, 2, 4}}}
	if e.MostRun() != 4 {
		t.Error(e.MostRun())
	}
	if e.Measured[long] = (Launch{64, 64, 4}); e.MostRun() != 64 {
		t.Error(e.MostRun())
	}
}
