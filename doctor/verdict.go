package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/vk"
)

// Verdict is what an examination leaves behind for later runs on the same device, with the same driver and kernels.
type Verdict struct {
	Format        int            `json:"format"`
	Kernels       string         `json:"kernels"` // shaders.Fingerprint
	UUID          string         `json:"uuid"`
	Device        string         `json:"device"`
	Driver        string         `json:"driver"`
	DriverVersion uint32         `json:"driver_version"`
	Tuning        runtime.Tuning `json:"tuning"` // with which the device would be used if it had no faults
	Quick         bool           `json:"quick"`  // only the smallest examination was made
	Passes        bool           `json:"passes"`
	Off           []string       `json:"off"`     // optional paths that failed
	Results       []Result       `json:"results"` // of all checks
}

const verdictFormat = 1

// VerdictOf sums up a report of an examination under a tuning.
func VerdictOf(r *Report, t runtime.Tuning, quick bool) *Verdict {
	d := r.Device
	return &Verdict{Format: verdictFormat, Kernels: shaders.Fingerprint(), UUID: d.UUID, Device: d.Name, Driver: d.Driver, DriverVersion: d.DriverVersion,
		Tuning: anywhere(t), Quick: quick, Passes: r.Passes, Off: r.Off, Results: r.Results}
}

// anywhere is a tuning without what depends on how many threads the process may have today.
func anywhere(t runtime.Tuning) runtime.Tuning {
	t.Threads = 0
	return t
}

// VerdictPath is where the verdict on a device is kept in a folder.
func VerdictPath(folder string, info vk.DeviceInfo) string {
	return filepath.Join(folder, fmt.Sprintf("doctor-%s-%d-%s.json", info.UUID, info.DriverVersion, shaders.Fingerprint()))
}

// ReadVerdict reads the verdict on a device; nil if there is none. One that is damaged, or on another device, driver or
// tuning, counts as none.
func ReadVerdict(folder string, info vk.DeviceInfo) *Verdict {
	file, err := os.Open(VerdictPath(folder, info))
	if err != nil {
		return nil
	}
	defer file.Close()   // was only read
	const most = 1 << 20 // bytes, a hundred times what there is to tell
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	v := new(Verdict)
	if err != nil || len(data) > most || json.Unmarshal(data, v) != nil {
		return nil
	}
	same := v.Format == verdictFormat && v.Kernels == shaders.Fingerprint() && v.UUID == info.UUID && v.Device == info.Name &&
		v.Driver == info.Driver && v.DriverVersion == info.DriverVersion && v.Tuning == anywhere(runtime.TuningFor(info))
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
	if err != nil {
		return fmt.Errorf("doctor: verdict: %w", err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("doctor: verdict: %w", err)
	}
	path := VerdictPath(folder, info)
	f, err := os.CreateTemp(folder, filepath.Base(path))
	if err != nil {
		return fmt.Errorf("doctor: verdict: %w", err)
	}
	defer os.Remove(f.Name()) // gone already after the rename
	_, err = f.Write(append(data, '\n'))
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
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
