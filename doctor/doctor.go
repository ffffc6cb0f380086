// Package doctor tells whether a device computes right. It runs the real decode path on the built-in model and compares
// with numbers that do not come from the device: logits, scores and victims that a float64 implementation made
// (tests/reference/doctor.py), the policies' twins on the CPU, and bytes that the host made up.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"vkdecode/model/builtin"
	"vkdecode/model/gguf"
	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/vk"
)

// Role is what becomes of a device that fails a check.
type Role string

const (
	Required Role = "required" // it is not used
	Optional Role = "optional" // it is used without the path
	Spare    Role = "spare"    // nothing: the path is not taken there, unless all others fail
)

// Result is what one check found.
type Result struct {
	Check  string   `json:"check"`
	Role   Role     `json:"role"`
	Path   string   `json:"path,omitempty"` // that the check tries, empty for none in particular
	Passes bool     `json:"passes"`
	What   string   `json:"what"`  // is measured
	Error  *float64 `json:"error"` // null if nothing was measured, or no number came
	Bound  float64  `json:"bound"` // of the error; at most as large passes
	Note   string   `json:"note,omitempty"`
	MS     float64  `json:"ms"`
}

// Report is the health of a device.
type Report struct {
	Device  vk.DeviceInfo  `json:"device"`
	Tuning  runtime.Tuning `json:"tuning"` // with which the required checks ran: without the paths that failed
	Off     []string       `json:"off"`    // optional paths that failed, by name
	Passes  bool           `json:"passes"` // all required checks
	Results []Result       `json:"results"`
}

// Exam examines a device.
type Exam struct {
	Device *vk.Device
	Tuning runtime.Tuning // how the device would be used
	Own    bool           // spare forms of the kernels are tried only if the device's own fails
	Emit   func(Result)   // takes each result as it is known, may be nil

	reference *reference
	engine    *runtime.Engine // one for all tunings: pipelines are the same ones
	report    *Report
}

// NewExam prepares the examination of an open device.
func NewExam(d *vk.Device) (*Exam, error) {
	r, err := parseReference(referenceJSON)
	if err != nil {
		return nil, err
	}
	return &Exam{Device: d, Tuning: runtime.TuningFor(d.Info), reference: r, engine: runtime.NewEngine(d)}, nil
}

// finding is what a check measured. The error that comes with one is a reason why there is nothing to measure.
type finding struct {
	what         string
	error, bound float64
	note         string // what was wrong, beside a number
}

func (f finding) passes() bool { return f.note == "" && f.error <= f.bound } // NaN does not

// Run runs all checks. The error tells that there is no report: the context ended, or the program is at fault. A device
// that fails has a report.
func (x *Exam) Run(ctx context.Context) (*Report, error) {
	x.report = &Report{Device: x.Device.Info, Off: []string{}}
	t, err := x.forms(ctx)
	if err != nil {
		return nil, err
	}
	if t, err = x.paths(ctx, t); err != nil {
		return nil, err
	}
	for _, how := range []string{runtime.F16, runtime.Int8} {
		if err = x.precision(ctx, t, how); err != nil {
			return nil, err
		}
	}
	x.report.Tuning = t
	if err := x.required(ctx, t); err != nil {
		return nil, err
	}
	x.report.Passes = !slices.ContainsFunc(x.report.Results, func(r Result) bool { return r.Role == Required && !r.Passes })
	return x.report, nil
}

// required runs what every device must pass.
func (x *Exam) required(ctx context.Context, t runtime.Tuning) error {
	p, err := x.admit(t)
	if err != nil {
		return x.check(ctx, Result{Check: "built-in model", Role: Required}, func() (finding, error) { return finding{}, err })
	}
	defer p.close()
	for _, c := range p.checks(x.reference) {
		if err := x.check(ctx, Result{Check: c.name, Role: Required}, func() (finding, error) { return c.find(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

// check is one thing that is measured.
type check struct {
	name string
	find func(ctx context.Context) (finding, error)
}

// checks are the required ones.
func (p *patient) checks(r *reference) (all []check) {
	add := func(find func(context.Context) (finding, error), name string, of ...any) {
		all = append(all, check{fmt.Sprintf(name, of...), find})
	}
	for _, types := range cacheTypes {
		for _, chunk := range []int{1, referenceChunk} {
			add(func(ctx context.Context) (finding, error) { return p.logits(ctx, r, types, chunk) }, "logits, K and V in %s, chunk %d", types, chunk)
		}
	}
	for i := range r.Policies {
		run := &r.Policies[i]
		add(func(ctx context.Context) (finding, error) { return p.scores(ctx, r, run) }, "scores of %s, chunk %d", run.Policy.Name, run.Chunk)
		add(func(ctx context.Context) (finding, error) { return p.victims(ctx, r, run) }, "victims of %s, chunk %d", run.Policy.Name, run.Chunk)
	}
	add(func(ctx context.Context) (finding, error) { return p.doneSteps(ctx, r) }, "steps after an end token")
	add(func(context.Context) (finding, error) { return p.staging() }, "bytes through staging")
	add(func(context.Context) (finding, error) { return p.copies() }, "copies on the device")
	add(p.dispatches, "a submit of many dispatches")
	return all
}

// check makes one check and takes its result. The error tells that the context has ended.
func (x *Exam) check(ctx context.Context, r Result, find func() (finding, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	begin := time.Now()
	f, err := find()
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	r.MS, r.What, r.Bound, r.Note = float64(time.Since(begin).Microseconds())/1000, f.what, f.bound, f.note
	switch {
	case err != nil:
		r.Note = err.Error()
	case math.IsNaN(f.error) || math.IsInf(f.error, 0):
		r.Note = fmt.Sprintf("no number came of it but %v", f.error)
	default:
		r.Error, r.Passes = &f.error, f.passes()
	}
	x.report.Results = append(x.report.Results, r)
	if x.Emit != nil {
		x.Emit(r)
	}
	return nil
}

// admit loads the built-in model onto the device under a tuning.
func (x *Exam) admit(t runtime.Tuning) (*patient, error) {
	file, err := gguf.Parse(builtin.Model)
	if err != nil {
		return nil, err
	}
	x.engine.Tuning = t // no model of another one is open
	return newPatient(x.engine, file)
}

// Quick is the smallest examination that proves that a device computes right under the tuning: prompts in chunks and
// tokens one by one, over K and V in f16. A precision that the device is asked for is checked, too.
func (x *Exam) Quick(ctx context.Context, how string) (*Report, error) {
	x.report = &Report{Device: x.Device.Info, Tuning: x.Tuning, Off: []string{}}
	p, err := x.admit(x.Tuning)
	if err != nil {
		return nil, err
	}
	defer p.close()
	var broken error // not the device's numbers, so no verdict on them
	err = x.check(ctx, Result{Check: "logits, K and V in f16, a chunk and then tokens", Role: Required}, func() (f finding, err error) {
		f, broken = p.mixed(ctx, x.reference, "f16")
		return f, broken
	})
	if err := errors.Join(err, broken); err != nil {
		return nil, fmt.Errorf("doctor: %w", err)
	}
	x.report.Passes = x.report.Results[0].Passes
	return x.report, x.precision(ctx, x.Tuning, how)
}

// referenceChunk is the largest chunk of the reference's runs: policies settle at its borders.
const referenceChunk = 32

// cacheTypes are those of K and V that are checked.
var cacheTypes = shaders.CacheTypes
