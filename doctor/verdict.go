package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"vkdecode/kept"
	"vkdecode/runtime"
	"vkdecode/vk"
)

// Verdict is what an examination leaves behind for later runs on the same device, with the same driver and kernels.
type Verdict struct {
	Format int `json:"format"`
	runtime.Identity
	Tuning  runtime.Tuning `json:"tuning"` // with which the device would be used if it had no faults
	Quick   bool           `json:"quick"`  // only the smallest examination was made
	Passes  bool           `json:"passes"`
	Off     []string       `json:"off"`     // optional paths that failed
	Results []Result       `json:"results"` // of all checks
}

const verdictFormat = 1

// VerdictOf sums up a report of an examination under a tuning.
func VerdictOf(r *Report, t runtime.Tuning, quick bool) *Verdict {
	return &Verdict{Format: verdictFormat, Identity: runtime.IdentityOf(r.Device), Tuning: anywhere(t), Quick: quick, Passes: r.Passes, Off: r.Off, Results: r.Results}
}

// anywhere is a tuning without what depends on how many threads the process may have today.
func anywhere(t runtime.Tuning) runtime.Tuning {
	t.Threads = 0
	return t
}

// VerdictPath is where the verdict on a device is kept in a folder.
func VerdictPath(folder string, info vk.DeviceInfo) string {
	return runtime.IdentityOf(info).Path(folder, "doctor")
}

// ReadVerdict reads the verdict on a device; nil if there is none. One that is damaged, or on another device, driver or
// tuning, counts as none.
func ReadVerdict(folder string, info vk.DeviceInfo) *Verdict {
	const most = 1 << 20 // bytes, a hundred times what there is to tell
	v := new(Verdict)
	if json.Unmarshal(kept.Read(VerdictPath(folder, info), most), v) != nil {
		return nil
	}
	same := v.Format == verdictFormat && v.Identity == runtime.IdentityOf(info) && v.Tuning == anywhere(runtime.TuningFor(info))
	if !same || !v.sound() {
		return nil
	}
	return v
}

// sound tells whether an examination can have left the verdict.
func (v *Verdict) sound() bool {
	failed := v.Failed()
	return len(v.Results) > 0 && v.Passes == (len(failed) == 0) && !slices.ContainsFunc(v.Off, func(name string) bool { return !known(name) })
}

// Without are the optional paths that failed; none without a verdict.
func (v *Verdict) Without() []string {
	if v == nil {
		return nil
	}
	return v.Off
}

// Failed are the required checks that failed.
func (v *Verdict) Failed() (failed []Result) {
	for _, r := range v.Results {
		if r.Role == Required && !r.Passes {
			failed = append(failed, r)
		}
	}
	return failed
}

// Save replaces the verdict on the device in one step, so that a reader sees the old or the new one.
func (v *Verdict) Save(folder string, info vk.DeviceInfo) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = kept.Replace(VerdictPath(folder, info), append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("doctor: verdict: %w", err)
	}
	return nil
}

// UnfitError is a device that computes wrong numbers.
type UnfitError struct {
	Device string
	Failed []Result // of required checks
}

func (e *UnfitError) Error() string {
	var names []string
	for _, r := range e.Failed {
		names = append(names, r.String())
	}
	return fmt.Sprintf("doctor: device %q does not compute what it should: %s", e.Device, strings.Join(names, "; "))
}

// String tells what came of a check.
func (r Result) String() string {
	text := r.Check + ": "
	switch {
	case r.Error == nil:
		return text + r.Note
	case r.What != "":
		text += fmt.Sprintf("%s %.3g, %.3g at most", r.What, *r.Error, r.Bound)
	}
	if r.Note != "" {
		text += ", " + r.Note
	}
	return text
}

// Err is nil for a device that passed.
func (v *Verdict) Err() error {
	if v.Passes {
		return nil
	}
	return &UnfitError{v.Device, v.Failed()}
}
