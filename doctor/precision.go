package doctor

import (
	"context"
	"fmt"
	"slices"

	"vkdecode/model"
	"vkdecode/runtime"
	"vkdecode/vk"
)

// precisionPaths are the names of their paths.
var precisionPaths = map[string]string{runtime.F16: halvedTiles, runtime.Int8: int8Products}

// Examined tells whether a precision was checked, as far as the device has it. A whole examination checks all: a quick one,
// which knows no paths, must not take its place.
func (v *Verdict) Examined(info vk.DeviceInfo, how string) bool {
	_, err := v.precise(v.Tuning, info, how)
	return !v.Quick || how == runtime.F32 || err != nil || slices.ContainsFunc(v.Results, func(r Result) bool { return r.Path == precisionPaths[how] })
}

// Precise are tunings of the device with products of many rows in a precision, where they can be. The error says why the
// first one, which is used, cannot; then they are as they were.
func (v *Verdict) Precise(all []runtime.Tuning, info vk.DeviceInfo, how string) ([]runtime.Tuning, error) {
	precise := slices.Clone(all)
	for i, t := range all {
		with, err := v.precise(t, info, how)
		if i == 0 && err != nil {
			return all, err
		}
		if err == nil {
			precise[i] = with
		}
	}
	return precise, nil
}

func (v *Verdict) precise(t runtime.Tuning, info vk.DeviceInfo, how string) (runtime.Tuning, error) {
	if name := precisionPaths[how]; slices.Contains(v.Without(), name) {
		return t, fmt.Errorf("doctor: device %q computes wrong in %s", info.Name, name)
	}
	if how == runtime.Int8 {
		if with, can := t.Int8(); can {
			return with, nil
		}
		return t, fmt.Errorf("doctor: device %q does not multiply with a lane for each weight row, as CPU drivers do; f16 is for GPUs", info.Name)
	}
	switch {
	case t.Tile.Rows == 0:
		return t, fmt.Errorf("doctor: device %q does not multiply in tiles; int8 is for CPU drivers", info.Name)
	case !info.Features.Float16:
		return t, fmt.Errorf("doctor: device %q does not compute in f16 (shaderFloat16)", info.Name)
	}
	return t.Halved(info), nil
}

// halvedBound is what logits may differ where the factors of products are rounded to f16, each by up to 2^-11 of itself.
const halvedBound = 1e-5

// precision checks products in a precision that the device may be asked for; it may be none that it has.
func (x *Exam) precision(ctx context.Context, t runtime.Tuning, how string) error {
	with, err := (*Verdict)(nil).precise(t, x.Device.Info, how)
	if how == runtime.F32 || err != nil { // the device will not be asked for it
		return nil
	}
	name := precisionPaths[how]
	passes, err := x.admitted(ctx, Result{Check: name, Role: Spare, Path: name}, with, func(p *patient) (finding, error) {
		if how == runtime.Int8 { // of whose weights the built-in model has none
			nmse, err := model.TryInt8(p.engine)
			return finding{what: "product", error: nmse, bound: model.Int8Error}, err
		}
		f, err := p.mixed(ctx, x.reference, pathType)
		f.bound = halvedBound
		return f, err
	})
	if err == nil && !passes {
		x.report.Off = append(x.report.Off, name)
	}
	return err
}
