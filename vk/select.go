package vk

import (
	"fmt"
	"strconv"
	"strings"
)

// Devices describes every device of every driver, in the loader's order; those that cannot be used say why.
// It asks the drivers each time, so memory budgets are fresh.
func (in *Instance) Devices() []DeviceInfo {
	out := make([]DeviceInfo, len(in.devices))
	for i := range out {
		out[i] = in.info(i)
	}
	return out
}

// Select finds one usable device. "auto" or "" takes the best kind: discrete, integrated, virtual, lavapipe, SwiftShader,
// then anything else. Otherwise sel is an index, a UUID, or part of the device's or driver's name in any case.
func (in *Instance) Select(sel string) (DeviceInfo, error) { return choose(in.Devices(), sel) }

func choose(devices []DeviceInfo, sel string) (DeviceInfo, error) {
	var found, usable []DeviceInfo
	for _, d := range devices {
		if !matches(d, sel) {
			continue
		}
		found = append(found, d)
		if d.Rejected == "" {
			usable = append(usable, d)
		}
	}
	switch {
	case len(usable) == 1 || len(usable) > 1 && isAuto(sel):
		best := usable[0]
		for _, d := range usable[1:] {
			if rank(d) < rank(best) {
				best = d
			}
		}
		return best, nil
	case len(usable) > 1:
		return DeviceInfo{}, fmt.Errorf("vk: device %q: %d devices match, want one; choose by index or UUID%s", sel, len(usable), list(usable))
	case len(found) == 1:
		return DeviceInfo{}, fmt.Errorf("vk: device %q: %s cannot be used: %s", sel, found[0].Name, found[0].Rejected)
	case len(devices) == 0:
		return DeviceInfo{}, fmt.Errorf("vk: device %q: there is no Vulkan device; install a driver (on Debian mesa-vulkan-drivers)", sel)
	}
	return DeviceInfo{}, fmt.Errorf("vk: device %q: no usable device matches; there are%s", sel, list(devices))
}

func isAuto(sel string) bool { return sel == "" || sel == "auto" }

func matches(d DeviceInfo, sel string) bool {
	if isAuto(sel) {
		return true
	}
	if index, err := strconv.Atoi(sel); err == nil {
		return index == d.Index
	}
	if strings.EqualFold(sel, d.UUID) {
		return true
	}
	name := d.Name + "\n" + d.Driver
	if lavapipe(d) {
		name += "\nlavapipe" // what everybody calls the driver that calls itself llvmpipe
	}
	return strings.Contains(strings.ToLower(name), strings.ToLower(sel))
}

func lavapipe(d DeviceInfo) bool { return strings.Contains(d.Name, "llvmpipe") }

// rank orders devices for "auto", best first.
func rank(d DeviceInfo) int {
	switch {
	case d.Kind == "discrete":
		return 0
	case d.Kind == "integrated":
		return 1
	case d.Kind == "virtual":
		return 2
	case lavapipe(d):
		return 3
	case strings.Contains(d.Name, "SwiftShader"):
		return 4
	}
	return 5
}

func list(devices []DeviceInfo) string {
	var b strings.Builder
	for _, d := range devices {
		fmt.Fprintf(&b, "\n  %d  %s  %s (%s)", d.Index, d.UUID, d.Name, d.Kind)
		if d.Rejected != "" {
			fmt.Fprintf(&b, ", cannot be used: %s", d.Rejected)
		}
	}
	return b.String()
}
