package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"vkdecode/doctor"
	"vkdecode/shaders"
	"vkdecode/vk"
)

func newDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "check that a device computes right, through the real decode path",
		Long: `Check that a device computes right, through the real decode path, on the model inside
the program: logits with K and V of every type, the victims and scores of policies,
every form of the kernels, memory. What is compared with does not come from the
device: a float64 implementation made it, or the CPU makes it now.

A device must pass the required checks. An optional path that fails is left out by
later runs on the device, which say so with -v. A spare path is not taken on the device
unless others fail. Of each check the error that was measured is told and what it
may be.

The verdict is kept in the user's cache folder, for this device, driver and these
kernels. Without one, run, eval, bench and replay make the smallest check before their
first use of a device, and refuse one that fails; --no-check lets them go on.

It takes seconds on a GPU, a minute or more on software drivers, which compile slowly.
The exit code is 0 if all required checks pass, 3 if one fails.`,
		Example: `  vkdecode doctor
  vkdecode doctor --device 1
  vkdecode doctor --device swiftshader --own-form
  vkdecode doctor --validation --json > doctor.json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	bindSettings(cmd, "device.select", "device.validation")
	own := cmd.Flags().Bool("own-form", false, "try other forms of the kernels only if the device's own fails: quicker on software drivers")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := diagnose(cmd, *own)
		if err != nil {
			return err
		}
		print := r.print
		if *asJSON {
			print = func(w io.Writer) error { return printJSON(w, r) }
		}
		if err := print(cmd.OutOrStdout()); err != nil {
			return err
		}
		return r.verdict.Err()
	}
	return cmd
}

// doctorReport is what `doctor --json` prints.
type doctorReport struct {
	*doctor.Report
	Kernels string `json:"kernels"` // fingerprint of their code
	Kept    string `json:"kept"`    // file of the verdict; empty if it could not be written
	Tuned   string `json:"tuned"`   // how products are launched on the device

	verdict *doctor.Verdict
}

// diagnose examines the configured device and keeps the verdict.
func diagnose(cmd *cobra.Command, own bool) (_ *doctorReport, err error) {
	c, err := loadConfig(cmd)
	if err != nil {
		return nil, err
	}
	stderr := cmd.ErrOrStderr()
	verbose, _ := cmd.Flags().GetCount("verbose")
	l := &loaded{keeper: keeperOf(cmd.Context(), c)}
	if l.instance, err = vk.NewInstance(vk.Options{Validation: c.Device.Validation}); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	info, err := l.instance.Select(c.Device.Select)
	if err != nil {
		return nil, err
	}
	folder, homeless := cacheFolder()
	bar := newProgress(stderr, "doctor", -1)
	defer bar.done()
	r := &doctorReport{Kernels: shaders.Fingerprint(), Tuned: tuningOf(info)}
	x, err := l.onDevice(info, folder, homeless == nil, verbose, stderr, func(x *doctor.Exam) (err error) {
		x.Own = own
		done := int64(0)
		x.Emit = func(result doctor.Result) {
			done++
			bar.describe("doctor: " + result.Check)
			bar.set(done)
		}
		r.Report, err = x.Run(cmd.Context())
		return err
	})
	if err != nil {
		return nil, err
	}
	r.verdict = doctor.VerdictOf(r.Report, x.Tuning, false)
	failed := homeless
	if failed == nil {
		failed = r.verdict.Save(folder, info)
	}
	if failed != nil {
		fmt.Fprintf(stderr, "note: the verdict is not kept, and later runs do not know of it: %v\n", failed)
	} else {
		r.Kept = doctor.VerdictPath(folder, info)
	}
	return r, nil
}

// word is what became of a check.
func word(r doctor.Result) string {
	if r.Passes {
		return "pass"
	}
	return "FAIL"
}

func (r *doctorReport) print(w io.Writer) error {
	d := r.Device
	if _, err := fmt.Fprintf(w, "%s, %s; kernels %s\n\n", d.Name, d.Driver, r.Kernels); err != nil {
		return err
	}
	t := table{header: []string{"check", "", "verdict", "measured", "error", "at most", "ms"}, left: 4}
	for _, c := range r.Results {
		measured := "-"
		if c.Error != nil {
			measured = fmt.Sprintf("%.2g", *c.Error)
		}
		t.add(c.Check, string(c.Role), word(c), c.What, measured, fmt.Sprintf("%.2g", c.Bound), fmt.Sprintf("%.0f", c.MS))
	}
	if err := t.print(w, false); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, c := range r.Results {
		if !c.Passes {
			fmt.Fprintf(w, "%s %s %s\n", word(c), c.Role, c)
		}
	}
	_, err := fmt.Fprintf(w, "%s\nproducts are launched: %s\n", r.summary(), r.Tuned)
	return err
}

// summary is the verdict in a sentence.
func (r *doctorReport) summary() string {
	switch {
	case !r.Passes:
		return "the device does not compute what it should: later runs refuse it"
	case len(r.Off) > 0:
		return "the device computes right without some paths, and later runs leave them out: " + strings.Join(r.Off, "; ")
	}
	return "the device computes right"
}
