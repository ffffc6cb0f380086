package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vkdecode/doctor"
	"vkdecode/shaders"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// atFirstUse is onFirstDriver on a device that was never used, with the check that tests otherwise leave out. It returns
// how to find the verdict's file.
func atFirstUse(t *testing.T, files map[string]string) (verdict func() string) {
	t.Helper()
	onFirstDriver(t, files)
	t.Setenv("VKDECODE_DEVICE_NO_CHECK", "false")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	return func() string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "vkdecode", "doctor-*.json"))
		if err != nil || len(found) > 1 {
			t.Fatalf("verdicts %q: %v", found, err)
		}
		if len(found) == 0 {
			return ""
		}
		return found[0]
	}
}

// readVerdict decodes the verdict's file.
func readVerdict(t *testing.T, path string) (v doctor.Verdict) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// shortRun is the shortest run there is.
func shortRun(more ...string) []string {
	return append([]string{"run", builtinName, "--prompt-tokens", "1,2,3", "-n", "3", "--temp", "0"}, more...)
}

const firstUse = "first use of this device and driver"

func TestTheFirstRunChecksTheDeviceAndLaterOnesDoNot(t *testing.T) {
	verdict := atFirstUse(t, nil)
	r := vkdecode(t, shortRun("-v", "--no-check")...)
	if r.want(t, exitOK); strings.Contains(r.stderr, firstUse) || verdict() != "" {
		t.Errorf("checked with --no-check: %s", r.stderr)
	}
	r = vkdecode(t, shortRun("-v")...)
	r.want(t, exitOK, firstUse, "NMSE")
	if v := readVerdict(t, verdict()); !v.Quick || !v.Passes || len(v.Off) > 0 {
		t.Errorf("%+v", v)
	}
	r = vkdecode(t, shortRun("-v")...)
	if r.want(t, exitOK); strings.Contains(r.stderr, firstUse) {
		t.Errorf("checked again: %s", r.stderr)
	}
}

func TestADamagedVerdictIsMadeAnew(t *testing.T) {
	verdict := atFirstUse(t, nil)
	vkdecode(t, shortRun()...).want(t, exitOK)
	path := verdict()
	if err := os.WriteFile(path, []byte(`{"passes": fal`), 0o666); err != nil {
		t.Fatal(err)
	}
	vkdecode(t, shortRun("-v")...).want(t, exitOK, firstUse)
	if v := readVerdict(t, path); !v.Passes {
		t.Errorf("%+v", v)
	}
}

func TestAnInterruptedCheckLeavesNoVerdict(t *testing.T) {
	verdict := atFirstUse(t, nil)
	ctx, cancel := context.WithCancel(inProcess(t))
	cancel()
	if code := run(ctx, shortRun(), strings.NewReader(""), io.Discard, io.Discard); code != exitInterrupted || verdict() != "" {
		t.Errorf("exit code %d, want %d; verdict %q", code, exitInterrupted, verdict())
	}
}

// What the doctor found wrong is not used by whatever opens the device, and -v says so.
func TestRunsLeaveOutWhatTheDoctorFoundWrong(t *testing.T) {
	verdict := atFirstUse(t, map[string]string{"text": strings.Repeat("The old man looked at the sky. ", 20)})
	vkdecode(t, shortRun()...).want(t, exitOK)
	v := readVerdict(t, verdict())
	const off = "layers of a token in one kernel"
	v.Off = []string{off}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("VKDECODE_DEBUG", "3") // the recorded kernels
	if r := vkdecode(t, shortRun()...); !strings.Contains(r.stderr, "chain.") {
		t.Errorf("with all paths: %s", r.stderr)
	}
	if err := os.WriteFile(verdict(), data, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		shortRun(), shortRun("--no-check"),
		{"bench", builtinName, "--depth", "0", "--prompt", "0", "-n", "2", "--repeat", "1", "--kv", "full"},
		{"eval", "ppl", builtinName, "--text", "text", "--tokens", "20", "--kv", "full"},
	} {
		r := vkdecode(t, append(args, "-v")...)
		if r.want(t, exitOK, "without "+off); strings.Contains(r.stderr, "chain.") {
			t.Errorf("%q runs chain", args)
		}
	}
}

// One device from its first use with wrong kernels to the day when they are right.
func TestADeviceThatComputesWrongIsRefusedUntilTheDoctorFindsItRight(t *testing.T) {
	verdict := atFirstUse(t, nil)
	t.Run("wrong", func(t *testing.T) {
		for _, f := range []shaders.Form{shaders.Texel, shaders.Storage, shaders.Shared} {
			c, err := shaders.RmsNorm{}.Call(shaders.Variant{Form: f})
			if err != nil {
				t.Fatal(err)
			}
			drivers.Break(t, c.Module)
		}
		vkdecode(t, shortRun()...).want(t, exitUnfit, "vkdecode doctor", "--no-check", "logits, K and V in f16")
		if v := readVerdict(t, verdict()); v.Passes {
			t.Errorf("%+v", v)
		}
		if r := vkdecode(t, shortRun("--no-check")...); r.code == exitUnfit { // it goes on, and may meet numbers that are none
			t.Errorf("refused with --no-check: %s", r.stderr)
		}
		r := vkdecode(t, "doctor", "--own-form")
		r.want(t, exitUnfit, "does not compute what it should")
		for _, part := range []string{"FAIL", "logits, K and V in f16, chunk 32", "later runs refuse it"} {
			if !strings.Contains(r.stdout, part) {
				t.Errorf("the table does not say %q: %s", part, r.stdout)
			}
		}
	})
	vkdecode(t, shortRun()...).want(t, exitUnfit, "vkdecode doctor") // the verdict stands
	r := vkdecode(t, "doctor", "--json", "--own-form")
	r.want(t, exitOK)
	var report doctorReport
	if r.read(t, &report); !report.Passes || report.Kept != verdict() || report.Kernels != shaders.Fingerprint() {
		t.Errorf("passes %v, kept in %s", report.Passes, report.Kept)
	}
	if v := readVerdict(t, verdict()); v.Quick || !v.Passes || len(v.Results) != len(report.Results) {
		t.Errorf("%+v", v)
	}
	vkdecode(t, shortRun()...).want(t, exitOK)
}

func TestTheDoctorsTableNamesWhatFailed(t *testing.T) {
	good, bad := 1e-12, 0.25
	r := doctorReport{Report: &doctor.Report{Device: vk.DeviceInfo{Name: "Card", Driver: "driver 1"}, Passes: true, Off: []string{"a path"}, Results: []doctor.Result{
		{Check: "first", Role: doctor.Required, Passes: true, What: "NMSE", Error: &good, Bound: 1e-9, MS: 12},
		{Check: "second", Role: doctor.Optional, Path: "a path", What: "NMSE", Error: &bad, Bound: 1e-9, Note: "after 3 tokens"},
		{Check: "third", Role: doctor.Spare, Note: "no memory"},
	}}, Kernels: "0123", Tuned: "by kind"}
	var b bytes.Buffer
	if err := r.print(&b); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"Card, driver 1; kernels 0123", "first   required  pass     NMSE      1e-12    1e-09  12",
		"FAIL optional second: NMSE 0.25, 1e-09 at most, after 3 tokens", "FAIL spare third: no memory", "later runs leave them out: a path\nproducts are launched: by kind\n",
	} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("does not say %q:\n%s", part, b.String())
		}
	}
}

func TestTheDoctorTakesNoArguments(t *testing.T) {
	inFolder(t, nil)
	vkdecode(t, "doctor", "model.gguf").want(t, exitUsage)
	vkdecode(t, "doctor", "--no-check").want(t, exitUsage, "no-check")
}
