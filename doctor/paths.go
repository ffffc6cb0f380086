package doctor

import (
	"context"
	"slices"

	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/vk"
)

// path is a quicker way to compute the same that a device can do without.
type path struct {
	name    string
	taken   func(t runtime.Tuning) bool
	without func(t runtime.Tuning, info vk.DeviceInfo) runtime.Tuning
}

// The names of paths, in reports and files.
const (
	tokenAttention = "attention of one token in one kernel"
	mergedParts    = "products that merge parts of attention"
	joinedLayers   = "evictions of all layers at once"
	linkedLayers   = "layers of a token in one kernel"
	tiledProducts  = "products of many rows in tiles"
	halvedTiles    = "tiles of f16"
	int8Products   = "products of activations in int8"
)

// paths are the optional ones beside the forms, each of which needs nothing but those before it.
var paths = []path{
	{tokenAttention, func(t runtime.Tuning) bool { return t.TokenDepth > 0 }, func(t runtime.Tuning, _ vk.DeviceInfo) runtime.Tuning {
		t.TokenDepth = 0
		return t
	}},
	{mergedParts, func(t runtime.Tuning) bool { return t.TokenDepth > 0 && t.MergesParts() }, func(t runtime.Tuning, _ vk.DeviceInfo) runtime.Tuning {
		t.Apart = true
		return t
	}},
	{joinedLayers, func(t runtime.Tuning) bool { return !t.Unjoined }, func(t runtime.Tuning, _ vk.DeviceInfo) runtime.Tuning {
		t.Unjoined = true
		return t
	}},
	{linkedLayers, runtime.Tuning.Links, func(t runtime.Tuning, _ vk.DeviceInfo) runtime.Tuning {
		t.Unlinked = true
		return t
	}},
	{tiledProducts, func(t runtime.Tuning) bool { return t.Tile.Rows > 0 }, func(t runtime.Tuning, _ vk.DeviceInfo) runtime.Tuning {
		t.Tile = runtime.Tile{}
		return t
	}},
}

// forms are those of the kernels, in the order in which one stands in for another that fails.
var forms = []shaders.Form{shaders.Texel, shaders.Storage, shaders.Shared}

// formNames are how reports and files call them: by how inputs are read and how lanes are combined.
var formNames = map[shaders.Form]string{
	shaders.Texel:   "texel buffers and subgroup reductions",
	shaders.Storage: "storage buffers and subgroup reductions",
	shaders.Shared:  "storage buffers and reductions in shared memory",
}

// known tells whether a path of that name can be turned off.
func known(name string) bool {
	for _, n := range formNames {
		if n == name {
			return true
		}
	}
	return name == halvedTiles || name == int8Products || slices.ContainsFunc(paths, func(p path) bool { return p.name == name })
}

// Without is the tuning without the paths of these names.
func Without(t runtime.Tuning, info vk.DeviceInfo, off []string) runtime.Tuning {
	if slices.Contains(off, formNames[t.Form]) {
		for _, f := range forms {
			if canRun(info, f) && !slices.Contains(off, formNames[f]) {
				t = runtime.TuningIn(info, f)
				break
			}
		}
	}
	for _, p := range paths {
		if slices.Contains(off, p.name) {
			t = p.without(t, info)
		}
	}
	return t
}

// Tunings are how a device may be used after an examination, one for each form of the kernels: first the one that it is used
// with, then those with other forms that were seen to compute right. Without a verdict there is only the first.
func (v *Verdict) Tunings(info vk.DeviceInfo) (all []runtime.Tuning) {
	if v == nil {
		return []runtime.Tuning{runtime.TuningFor(info)}
	}
	all = append(all, Without(runtime.TuningFor(info), info, v.Off))
	for _, f := range forms {
		passed := slices.ContainsFunc(v.Results, func(r Result) bool { return r.Path == formNames[f] && r.Passes })
		if passed && f != all[0].Form && canRun(info, f) {
			all = append(all, Without(runtime.TuningIn(info, f), info, v.Off))
		}
	}
	return all
}

// canRun tells whether a device can run a form, which says nothing about how fast.
func canRun(info vk.DeviceInfo, f shaders.Form) bool {
	subgroups := info.Features.SubgroupArithmetic && info.Features.SubgroupShuffle && info.Limits.SubgroupSize >= leastSubgroup
	switch f {
	case shaders.Texel:
		return subgroups && info.Limits.MaxTexelElements >= leastTexels
	case shaders.Storage:
		return subgroups
	}
	return true
}

const (
	leastSubgroup = 4       // lanes
	leastTexels   = 1 << 16 // elements: what Vulkan promises, and as much as the built-in model needs
)

// bare is the tuning without any optional path but its form.
func bare(t runtime.Tuning, info vk.DeviceInfo) runtime.Tuning {
	for _, p := range paths {
		t = p.without(t, info)
	}
	return t
}

// forms checks every form that the device can run, on its own, and returns the bare tuning with the one to be used: that
// of the examined tuning unless it fails and another one passes. Then spare ones that fail are off, too.
func (x *Exam) forms(ctx context.Context) (chosen runtime.Tuning, err error) {
	info, own := x.Device.Info, x.Tuning.Form
	chosen = bare(x.Tuning, info) // also if none passes: the required checks will tell
	found := false
	var wrong []string
	for _, f := range append([]shaders.Form{own}, slices.DeleteFunc(slices.Clone(forms), func(f shaders.Form) bool { return f == own || !canRun(info, f) })...) {
		if found && x.Own {
			break
		}
		t, role := x.Tuning, Optional
		if f != own {
			t, role = runtime.TuningIn(info, f), Spare
		}
		t = bare(t, info)
		passes, err := x.try(ctx, Result{Check: "form: " + formNames[f], Role: role, Path: formNames[f]}, t)
		if err != nil {
			return t, err
		}
		if passes && !found {
			chosen, found = t, true
		}
		if !passes && f != own {
			wrong = append(wrong, formNames[f])
		}
	}
	if slices.Contains(x.report.Off, formNames[own]) {
		x.report.Off = append(x.report.Off, wrong...)
	}
	return chosen, nil
}

// paths adds to a tuning the optional paths that the examined one takes, one after the other; one that fails stays off.
func (x *Exam) paths(ctx context.Context, t runtime.Tuning) (runtime.Tuning, error) {
	info, base := x.Device.Info, x.Tuning
	if t.Form != base.Form {
		base = runtime.TuningIn(info, t.Form)
	}
	for i, p := range paths {
		with := base
		for j, o := range paths {
			if j > i || slices.Contains(x.report.Off, o.name) {
				with = o.without(with, info)
			}
		}
		if !p.taken(with) { // nothing can fail
			t = with
			continue
		}
		passes, err := x.try(ctx, Result{Check: p.name, Role: Optional, Path: p.name}, with)
		if err != nil {
			return t, err
		}
		if passes {
			t = with
		}
	}
	return t, nil
}

// try checks a path under a tuning that takes it: logits of tokens and chunks, and then, in the run whose scores are
// kept, what h2o leaves of them. An optional path that fails is noted as off.
func (x *Exam) try(ctx context.Context, r Result, t runtime.Tuning) (passes bool, err error) {
	passes, err = x.admitted(ctx, r, t, func(p *patient) (finding, error) {
		f, err := p.mixed(ctx, x.reference, pathType)
		if err != nil || !f.passes() {
			return f, err
		}
		for i := range x.reference.Policies {
			run := &x.reference.Policies[i]
			if run.Policy.Name != pathPolicy {
				continue
			}
			for _, find := range []func(context.Context, *reference, *policyRun) (finding, error){p.scores, p.victims} {
				if other, err := find(ctx, x.reference, run); err != nil || !other.passes() {
					return other, err
				}
			}
		}
		return f, nil
	})
	if err == nil && !passes && r.Role == Optional {
		x.report.Off = append(x.report.Off, r.Path)
	}
	return passes, err
}

// admitted makes a check on the built-in model, loaded under a tuning, and tells whether it passes.
func (x *Exam) admitted(ctx context.Context, r Result, t runtime.Tuning, find func(*patient) (finding, error)) (passes bool, err error) {
	err = x.check(ctx, r, func() (finding, error) {
		p, err := x.admit(t)
		if err != nil {
			return finding{}, err
		}
		defer p.close()
		return find(p)
	})
	if err != nil {
		return false, err
	}
	return x.report.Results[len(x.report.Results)-1].Passes, nil
}

// What a path is tried with: the scored and the unscored variant of its kernels.
const (
	pathType   = "f16"
	pathPolicy = "h2o"
)
