package runtime

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"

	"vkdecode/kept"
	"vkdecode/shaders"
	"vkdecode/vk"
)

// Measured is what measuring has found on a device, for later runs with the same driver and kernels.
type Measured struct {
	Format int `json:"format"`
	Identity
	Threads int      `json:"threads"` // of the CPU, for drivers that compute there; otherwise 0
	Choices []Choice `json:"choices"` // one for each product and form
}

// Choice is the best way to launch a product in a form of the kernels. Of ways that do not beat the table clearly it is the
// table's.
type Choice struct {
	Product Product `json:"product"`
	Form    string  `json:"form"`
	Launch  Launch  `json:"launch"`
	Table   float64 `json:"table_us"` // microseconds of a product launched as the table says
	Best    float64 `json:"best_us"`  // launched so
}

const measuredFormat = 1

// Margin is how many times as fast as the table's a way must be to be chosen: less may be chance.
const Margin = 1.05

// NewMeasured is empty.
func NewMeasured(info vk.DeviceInfo) *Measured {
	return &Measured{Format: measuredFormat, Identity: IdentityOf(info), Threads: threads(info)}
}

func threads(info vk.DeviceInfo) int {
	if info.Kind == "cpu" {
		return runtime.NumCPU()
	}
	return 0
}

const (
	measuredKind = "tuning"
	mostMeasured = 1 << 20 // bytes, thousands of choices
)

// MeasuredPath is where it is kept in a folder.
func MeasuredPath(folder string, info vk.DeviceInfo) string {
	return IdentityOf(info).Path(folder, measuredKind)
}

// ReadMeasured reads what was measured on a device; nil if nothing was. A file that is damaged, or of another device, driver
// or version of the kernels, or that names a way which is none of Launches, counts as none.
func ReadMeasured(folder string, info vk.DeviceInfo) *Measured {
	data, m := kept.Unseal(kept.Read(MeasuredPath(folder, info), mostMeasured)), new(Measured)
	if json.Unmarshal(data, m) != nil || m.Format != measuredFormat || m.Identity != IdentityOf(info) || m.Threads != threads(info) || !m.sound(info) {
		return nil
	}
	return m
}

// sound tells whether measuring can have left this.
func (m *Measured) sound(info vk.DeviceInfo) bool {
	type key struct {
		Product
		form string
	}
	seen := map[key]bool{}
	for _, c := range m.Choices {
		p := c.Product
		form, ok := shaders.FormOf(c.Form)
		known := ok && p.Rows > 0 && p.Columns > 0 && slices.Contains(shaders.WeightTypes, p.Weight) && slices.Contains([]Input{Plain, Normed, Parts}, p.Input)
		if !known || seen[key{p, c.Form}] || !(c.Best > 0 && c.Best < math.MaxFloat32) || !(c.Table > 0 && c.Table < math.MaxFloat32) || c.Best > c.Table {
			return false
		}
		if !slices.Contains(Launches(info, form), c.Launch) {
			return false
		}
		seen[key{p, c.Form}] = true
	}
	return len(m.Choices) > 0
}

// Save replaces what was measured on the device before.
func (m *Measured) Save(folder string, info vk.DeviceInfo) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		err = kept.Replace(MeasuredPath(folder, info), kept.Seal(append(data, '\n')))
	}
	if err != nil {
		return fmt.Errorf("runtime: tuning: %w", err)
	}
	return nil
}

// Products is how many were measured, in whatever form.
func (m *Measured) Products() int {
	seen := map[Product]bool{}
	for _, c := range m.Choices {
		seen[c.Product] = true
	}
	return len(seen)
}

// Add puts a choice in, in place of an older one for the same.
func (m *Measured) Add(c Choice) {
	for i, o := range m.Choices {
		if o.Product == c.Product && o.Form == c.Form {
			m.Choices[i] = c
			return
		}
	}
	m.Choices = append(m.Choices, c)
}

// launches are the ways for products in a form, and the time of that many of them in microseconds; false if one of them was
// not measured.
func (m *Measured) launches(form shaders.Form, products map[Product]int) (chosen map[Product]Launch, time float64, all bool) {
	chosen = map[Product]Launch{}
	for _, c := range m.Choices {
		if n := products[c.Product]; n > 0 && c.Form == form.String() {
			chosen[c.Product] = c.Launch
			time += float64(n) * c.Best
		}
	}
	return chosen, time, len(chosen) == len(products)
}

// Tune makes the engine launch products as was measured. own is the tuning without measurements, others are tunings with the
// other forms that the device may use. Another form is taken if all products of the model were measured in both, and are
// clearly faster in it. products gives a model's under a tuning, with how many there are of each.
func (e *Engine) Tune(m *Measured, own Tuning, others []Tuning, products func(Tuning) (map[Product]int, error)) error {
	e.Tuning, e.Measured = own, nil
	if m == nil {
		return nil
	}
	mine, err := products(own)
	if err != nil {
		return err
	}
	chosen, least, all := m.launches(own.Form, mine)
	e.Measured = chosen
	least /= Margin
	for _, t := range others {
		theirs, err := products(t)
		if err != nil {
			return err
		}
		if chosen, time, every := m.launches(t.Form, theirs); all && every && time < least {
			e.Tuning, e.Measured, least = t, chosen, time
		}
	}
	return nil
}
