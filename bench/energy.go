package bench

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"vkdecode/vk"
)

// Meter tells the energy that the device takes between two moments, where the platform does: from the counters of Intel's
// and AMD's processors (powercap) for a CPU driver, from hwmon of the card's driver for a GPU. A nil Meter tells nothing.
type Meter struct {
	counters []counter
	powers   []string // files of microwatts, where a card has no counter

	begin   []float64 // of the counters, microjoules
	stop    chan struct{}
	done    sync.WaitGroup
	sampled float64 // microjoules, from powers
}

// counter is a file of microjoules that begins anew behind its range.
type counter struct {
	path  string
	round float64 // 0 = it does not begin anew
}

const powerEvery = 20 * time.Millisecond // between two looks at a power

// NewMeter looks for what the platform has below root, which is /sys; nil if there is nothing that can be read.
func NewMeter(root string, info vk.DeviceInfo) *Meter {
	m := &Meter{}
	if info.Kind == "cpu" {
		m.counters = packages(root)
	} else {
		m.counters, m.powers = card(root, info.VendorID, info.DeviceID)
	}
	if len(m.counters)+len(m.powers) == 0 {
		return nil
	}
	return m
}

// packages are the counters of whole processors; those of their parts are in these.
func packages(root string) (all []counter) {
	zones, _ := filepath.Glob(filepath.Join(root, "class/powercap/intel-rapl:*"))
	for _, zone := range zones {
		if strings.Count(filepath.Base(zone), ":") != 1 {
			continue
		}
		c := counter{path: filepath.Join(zone, "energy_uj")}
		if _, err := number(c.path); err != nil {
			continue // many systems let only root read it
		}
		c.round, _ = number(filepath.Join(zone, "max_energy_range_uj"))
		all = append(all, c)
	}
	return all
}

// card finds what the driver of a card tells, by the ids of its maker and kind.
func card(root string, vendor, device uint32) (counters []counter, powers []string) {
	cards, _ := filepath.Glob(filepath.Join(root, "class/drm/card*/device"))
	for _, c := range cards {
		if strings.Contains(filepath.Base(filepath.Dir(c)), "-") || !names(filepath.Join(c, "vendor"), vendor) || !names(filepath.Join(c, "device"), device) {
			continue // a connector, or another card
		}
		for _, kind := range []string{"energy1_input", "power1_average", "power1_input"} {
			found, _ := filepath.Glob(filepath.Join(c, "hwmon/hwmon*", kind))
			for _, path := range found {
				if _, err := number(path); err != nil {
					continue
				}
				if kind == "energy1_input" {
					return []counter{{path: path}}, nil
				}
				return nil, []string{path}
			}
		}
	}
	return nil, nil
}

func names(path string, id uint32) bool {
	b, err := os.ReadFile(path)
	return err == nil && strings.TrimSpace(string(b)) == fmt.Sprintf("0x%04x", id)
}

func number(path string) (float64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
}

// Start begins a measurement.
func (m *Meter) Start() {
	if m == nil {
		return
	}
	m.begin, m.sampled, m.stop = m.read(), 0, make(chan struct{})
	if len(m.powers) > 0 {
		begin := time.Now()
		m.done.Go(func() { m.sample(begin) })
	}
}

// Stop ends it and gives joules, not a number where the platform does not tell.
func (m *Meter) Stop() float64 {
	if m == nil {
		return math.NaN()
	}
	close(m.stop)
	m.done.Wait()
	sum, end := m.sampled, m.read()
	for i, c := range m.counters {
		part := end[i] - m.begin[i]
		if part < 0 {
			part += c.round
		}
		sum += part
	}
	return sum / 1e6
}

// read reads the counters; one that cannot be read any more makes the sum no number.
func (m *Meter) read() []float64 {
	all := make([]float64, len(m.counters))
	for i, c := range m.counters {
		v, err := number(c.path)
		if err != nil {
			v = math.NaN()
		}
		all[i] = v
	}
	return all
}

// sample adds up powers since the measurement began until it ends.
func (m *Meter) sample(last time.Time) {
	every := time.NewTicker(powerEvery)
	defer every.Stop()
	add := func() {
		now := time.Now()
		for _, path := range m.powers {
			microwatts, err := number(path)
			if err != nil {
				microwatts = math.NaN()
			}
			m.sampled += microwatts * now.Sub(last).Seconds()
		}
		last = now
	}
	for {
		select {
		case <-every.C:
			add()
		case <-m.stop:
			add()
			return
		}
	}
}
