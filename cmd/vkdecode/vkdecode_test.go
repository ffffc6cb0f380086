package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// result is what one command line left behind.
type result struct {
	code           int
	stdout, stderr string
}

// vkdecode runs a command line in process, in an empty folder of its own unless
// the test has chosen one, and without the developer's configuration.
func vkdecode(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(inProcess(t), args, strings.NewReader(""), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// inFolder moves the test to an empty folder, with an empty configuration
// folder and no variables of ours, and writes files there.
func inFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	t.Chdir(folder)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(folder, "home"))
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, envPrefix) {
			t.Setenv(name, "") // so that it comes back
			os.Unsetenv(name)
		}
	}
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// want fails unless the command ended with code and said every part on stderr.
func (r result) want(t *testing.T, code int, parts ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d; stderr: %s", r.code, code, r.stderr)
	}
	for _, part := range parts {
		if !strings.Contains(r.stderr, part) {
			t.Errorf("stderr does not say %q: %s", part, r.stderr)
		}
	}
	if code != exitOK && r.stderr == "" {
		t.Error("failed without a word")
	}
}

// read decodes the one JSON object on stdout.
func (r result) read(t *testing.T, into any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(r.stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%v in %s", err, r.stdout)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Errorf("stdout holds more than one object: %s", r.stdout)
	}
}

func TestWrongUsageExitsWith2(t *testing.T) {
	inFolder(t, nil)
	for line, part := range map[string]string{
		"plna":                          `unknown command "plna"`,
		"plan --layres 3":               "unknown flag: --layres",
		"plan --layers x":               `invalid argument "x" for "--layers"`,
		"plan a b":                      "accepts at most 1 arg",
		"inspect":                       "accepts 1 arg",
		"config extra":                  "unknown command",
		"plan --budget 0":               "keeps nothing",
		"plan --budget 200%":            "more than the whole context",
		"plan --budget -3":              "negative",
		"plan --kv windw":               `did you mean "window"?`,
		"plan --kv-type f61":            "want f16, f32, q4_0, q8_0, or two as K/V",
		"plan --kv-type q8_0/":          `KV type "q8_0/"`,
		"plan --kv-type f16/f16/f":      `KV type "f16/f16/f"`,
		"config --config none":          "none: no such file",
		"config --chunk":                "needs an argument",
		"config --top-p 1.5":            "want a number from 0 to 1",
		"config --temp NaN":             "want a number of at least 0",
		"config --repeat-penalty 200":   "want a number from 0.01 to 100, or 0",
		"config --presence-penalty Inf": "want a number from -1000 to 1000",
		"config --frequency-penalty x":  "want a number from -1000 to 1000",
		"config --repeat-last -1":       "want a whole number from 0",
		"config --logit-bias 5":         `got "5", want token id=number`,
		"config --logit-bias 5=NaN":     `got "5=NaN"`,
		"config --logit-bias -5=1":      `got "-5=1"`,
		"config --logit-bias 5=1,5=2":   "two biases for token 5",
		"config --logit-bias 5=1,":      `got "", want token id=number`,
		"config --seed -2":              "or -1 for a fresh seed",
		"config --sinks few":            `or "auto"`,
		"config --address nowhere":      "want host:port",
		"config --device=":              "got an empty string",
	} {
		r := vkdecode(t, strings.Fields(line)...)
		r.want(t, exitUsage, part, "--help")
		if r.stdout != "" {
			t.Errorf("%s: stdout holds %q", line, r.stdout)
		}
	}
}

func TestHelpVersionAndCompletionExitWith0(t *testing.T) {
	inFolder(t, nil)
	for line, part := range map[string]string{
		"":                           "Available Commands",
		"--help":                     "Exit codes:",
		"--version":                  "vkdecode ",
		"plan --help":                "--budget 20%|1024|512MiB",
		"help inspect":               "Examples:",
		"completion bash":            "bash completion",
		"__complete plan --kv-type ": "q8_0/q4_0",
	} {
		args := strings.Fields(line)
		if strings.HasSuffix(line, " ") {
			args = append(args, "")
		}
		r := vkdecode(t, args...)
		if r.code != exitOK || !strings.Contains(r.stdout, part) {
			t.Errorf("%q: exit code %d, stdout does not say %q: %s%s", line, r.code, part, r.stdout, r.stderr)
		}
	}
}

// Every command explains itself, with an example.
func TestEveryCommandHasHelp(t *testing.T) {
	for _, cmd := range newRoot().Commands() {
		if cmd.Short == "" || cmd.Long == "" || cmd.Example == "" {
			t.Errorf("%s: help or example missing", cmd.Name())
		}
	}
}

func TestClosedStdoutEndsQuietly(t *testing.T) {
	inFolder(t, nil)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	read.Close()
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"config"}, strings.NewReader(""), write, &stderr); code != exitOK || stderr.Len() > 0 {
		t.Errorf("exit code %d, stderr %q; want quiet success", code, stderr.String())
	}
}

func TestAFullDiskUnderStdoutIsAnError(t *testing.T) {
	inFolder(t, nil)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range [][]string{{"config"}, {"config", "--json"}, {"--help"}} {
		var stderr bytes.Buffer
		code := run(t.Context(), args, strings.NewReader(""), full, &stderr)
		result{code, "", stderr.String()}.want(t, exitFailure, "standard output", "no space left")
	}
}

func TestALostReaderCancelsTheCommand(t *testing.T) {
	cancelled := false
	out := &output{w: failing{}, failed: func() { cancelled = true }}
	if _, err := out.Write([]byte("x")); err == nil || !cancelled {
		t.Errorf("%v, cancelled %v", err, cancelled)
	}
	if _, err := out.Write(nil); err == nil {
		t.Error("the failure was forgotten")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestAnInterruptExitsWith130(t *testing.T) {
	inFolder(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code := run(ctx, []string{"config"}, strings.NewReader(""), io.Discard, io.Discard); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
	if code := run(t.Context(), []string{"config"}, strings.NewReader(""), io.Discard, io.Discard); code != exitOK {
		t.Errorf("without an interrupt: exit code %d", code)
	}
}

func TestSizesHaveOneDecimal(t *testing.T) {
	for _, c := range []struct {
		bytes           int64
		decimal, binary string
	}{
		{0, "0 B", "0 B"}, {999, "999 B", "999 B"}, {1000, "1.0 kB", "1000 B"}, {1024, "1.0 kB", "1.0 KiB"},
		{999_949, "999.9 kB", "976.5 KiB"}, {999_950, "1.0 MB", "976.5 KiB"}, {1<<20 - 1, "1.0 MB", "1.0 MiB"},
		{335_544_320_000, "335.5 GB", "312.5 GiB"}, {1<<63 - 1, "9.2 EB", "8.0 EiB"},
	} {
		if d, b := decimalSize(c.bytes), binarySize(c.bytes); d != c.decimal || b != c.binary {
			t.Errorf("%d: %s, %s; want %s, %s", c.bytes, d, b, c.decimal, c.binary)
		}
	}
}
