package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"vkdecode/doctor"
	"vkdecode/vk"
)

// cacheFolder is where compiled pipelines, the verdicts on devices and what was measured on them are kept.
func cacheFolder() (string, error) {
	folder, err := os.UserCacheDir()
	return filepath.Join(folder, "vkdecode"), err
}

// examine gives the verdict on a device. A device that was never examined with this driver and these kernels is, in short;
// one that computes wrong numbers is refused. With no_check neither is so, and there may be no verdict.
func (l *loaded) examine(ctx context.Context, c *configuration, info vk.DeviceInfo, verbose int, stderr io.Writer) (v *doctor.Verdict, err error) {
	folder, homeless := cacheFolder()
	if homeless == nil {
		v = doctor.ReadVerdict(folder, info)
	}
	if c.Device.NoCheck {
		return v, nil
	}
	if how := c.Device.Precision; v == nil || !v.Examined(info, how) {
		if v, err = l.quick(ctx, info, how, folder, homeless == nil, verbose, stderr); err != nil {
			return nil, err
		}
	}
	if err := v.Err(); err != nil {
		return nil, fmt.Errorf("%w; run \"vkdecode doctor\" to see whether it can be used without some path, choose another --device, or use it as it is with --no-check", err)
	}
	return v, nil
}

// quick makes the smallest examination and keeps the verdict.
func (l *loaded) quick(ctx context.Context, info vk.DeviceInfo, how, folder string, keep bool, verbose int, stderr io.Writer) (*doctor.Verdict, error) {
	bar := newProgress(stderr, "first use of this device and driver: check", -1)
	defer bar.done()
	bar.set(0)
	var report *doctor.Report
	x, err := l.onDevice(info, folder, keep, verbose, stderr, func(x *doctor.Exam) (err error) {
		report, err = x.Quick(ctx, how)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("check of device %q: %w; run \"vkdecode doctor\" for more, or leave it out with --no-check", info.Name, err)
	}
	v := doctor.VerdictOf(report, x.Tuning, true)
	if keep {
		noteError(v.Save(folder, info), verbose, stderr)
	}
	if verbose > 0 {
		fmt.Fprintf(stderr, "note: first use of this device and driver: %s\n", report.Results[0])
	}
	return v, nil
}

// onDevice examines a device, opened for that alone: what an examination compiles is none of a run's business, and what
// it breaks neither.
func (l *loaded) onDevice(info vk.DeviceInfo, folder string, keep bool, verbose int, stderr io.Writer, examine func(x *doctor.Exam) error) (*doctor.Exam, error) {
	d, err := l.keeper.open(l.instance, info)
	if err != nil {
		return nil, err
	}
	defer l.keeper.close(d)
	if keep {
		noteError(d.UsePipelineCache(filepath.Join(folder, "doctor")), verbose, stderr)
	}
	x, err := doctor.NewExam(d)
	if err != nil {
		return nil, err
	}
	if err := examine(x); err != nil {
		return nil, err
	}
	if keep {
		noteError(d.SavePipelineCache(), verbose, stderr)
	}
	return x, nil
}

// unfit tells whether an error is about a device that computes wrong numbers.
func unfit(err error) bool {
	var e *doctor.UnfitError
	return errors.As(err, &e)
}
