package main

import (
	"os"
	"strings"
	"testing"

	"vkdecode/replay"
	"vkdecode/tests/drivers"
)

func replayReported(t *testing.T, code int, args ...string) (r replay.Result) {
	t.Helper()
	got := vkdecode(t, append([]string{"replay", "--json"}, args...)...)
	got.want(t, code)
	got.read(t, &r)
	return r
}

// forge writes a log with one line changed.
func forge(t *testing.T, from, to string, line int, change func(string) string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(b), "\n")
	before := lines[line-1]
	if lines[line-1] = change(before); lines[line-1] == before {
		t.Fatalf("line %d is not changed: %s", line, before)
	}
	if err := os.WriteFile(to, []byte(strings.Join(lines, "")), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestReplayChecksALog(t *testing.T) {
	eachDriver(t, func(t *testing.T) {
		r := runReported(t, append(prince, "--evict-log", "e.jsonl", "--temp", "1", "--seed", "3")...)
		if got := replayReported(t, exitOK, "e.jsonl"); !got.Holds || got.Choices.Checked != r.KV.Evicted || got.Tokens != r.KV.Seen || got.Difference != nil || got.NotComparable != nil || got.Model != builtinName {
			t.Errorf("%+v", got)
		}
		if strings.HasSuffix(t.Name(), drivers.SwiftShader) { // it compiles slowly
			return
		}
		got := vkdecode(t, "replay", "e.jsonl")
		got.want(t, exitOK)
		for _, part := range []string{"log      3 prompt and 40 new tokens, 204 evictions; builtin:, h2o\n", "lines    all the same\n", "choices  204 checked, all of them the twin's\n", "the log holds\n"} {
			if !strings.Contains(got.stdout, part) {
				t.Errorf("%q is missing in %s", part, got.stdout)
			}
		}
		forge(t, "e.jsonl", "forged.jsonl", 50, func(line string) string { return strings.Replace(line, `"position":`, `"position":1`, 1) })
		got = vkdecode(t, "replay", "forged.jsonl")
		got.want(t, exitFailure, "vkdecode: replay: forged.jsonl does not hold\n")
		if !strings.Contains(got.stdout, "lines    the first that differs is line 50\n  log    {\"step\":") || !strings.Contains(got.stdout, "\n  here   {\"step\":") || !strings.HasSuffix(got.stdout, "the log does not hold\n") {
			t.Errorf("%s", got.stdout)
		}
		if got := replayReported(t, exitFailure, "forged.jsonl"); got.Holds || got.Difference == nil || got.Difference.Line != 50 || got.Choices.Wrong != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestReplayChecksARunOfASession(t *testing.T) {
	onFirstDriver(t, nil)
	runReported(t, append(prince, "--save-session", "s", "--ctx", "80")...)
	runReported(t, "run", builtinName, "-p", " looked", "-n", "9", "--load-session", "s", "--evict-log", "e.jsonl", "--save-session", "t")
	if got := replayReported(t, exitOK, "e.jsonl", "--load-session", "s"); !got.Holds || got.Tokens != 42+2+8 {
		t.Errorf("%+v", got)
	}
	vkdecode(t, "replay", "e.jsonl").want(t, exitFailure, "went on from a session of 42 tokens; give its file with --load-session")
	vkdecode(t, "replay", "e.jsonl", "--load-session", "t").want(t, exitFailure, "went on from a session with SHA-256 ", ", this one has ")
	runReported(t, append(prince, "--evict-log", "f.jsonl", "-n", "3")...)
	vkdecode(t, "replay", "f.jsonl", "--load-session", "s").want(t, exitFailure, "did not go on from a session")
}

// The log tells where it was made; elsewhere its bits prove nothing.
func TestReplayOnAnotherDeviceComparesSets(t *testing.T) {
	if len(drivers.Names()) < 2 {
		return // the other device is not there
	}
	drivers.Use(t, drivers.SwiftShader)
	other := os.Getenv("VK_DRIVER_FILES")
	onDriver(t, drivers.Lavapipe, nil)
	r := runReported(t, append(prince, "--evict-log", "e.jsonl")...)
	t.Setenv("VK_DRIVER_FILES", other)
	t.Setenv("VK_ICD_FILENAMES", other)
	got := replayReported(t, exitOK, "e.jsonl")
	if !got.Holds || len(got.NotComparable) < 3 || got.Sets == nil || got.Sets.Both+got.Sets.OnlyLog != r.KV.Evicted || got.Choices.Checked != r.KV.Evicted {
		t.Errorf("%+v", got)
	}
	human := vkdecode(t, "replay", "e.jsonl")
	human.want(t, exitOK)
	if !strings.Contains(human.stdout, "lines    not comparable bit for bit: name: llvmpipe") || !strings.Contains(human.stdout, "sets     ") {
		t.Errorf("%s", human.stdout)
	}
}

func TestReplayFindsTheModel(t *testing.T) {
	onFirstDriver(t, map[string]string{"m.gguf": variant(t, nil, nil), "other.gguf": variant(t, with("general.name", "another"), nil)})
	runReported(t, append([]string{"run", "m.gguf", "--evict-log", "e.jsonl"}, prince[2:]...)...)
	if err := os.Rename("m.gguf", "n.gguf"); err != nil {
		t.Fatal(err)
	}
	vkdecode(t, "replay", "e.jsonl").want(t, exitFailure, "m.gguf: no such file")
	vkdecode(t, "replay", "e.jsonl", "--model", "other.gguf").want(t, exitFailure, `this one is "another" with fingerprint`, "--model")
	if got := replayReported(t, exitOK, "e.jsonl", "--model", "n.gguf"); !got.Holds {
		t.Errorf("%+v", got)
	}
}

func TestReplayRefusesWhatIsNoLog(t *testing.T) {
	onFirstDriver(t, map[string]string{"empty": "", "text": "no log\n", "old": `{"step":9,"layer":0,"head":0,"position":4,"token":499,"score":1.2,"reason":"budget"}` + "\n"})
	runReported(t, append(prince, "--evict-log", "e.jsonl")...)
	header := func(name, from, to string) {
		forge(t, "e.jsonl", name, 1, func(line string) string { return strings.Replace(line, from, to, 1) })
	}
	header("format", `"format":1`, `"format":2`)
	header("length", `"length":42`, `"length":9223372036854775807`)
	header("short", `"length":42`, `"length":40`)
	header("budget", `"budget":"20%"`, `"budget":"20"`)
	header("policy", `"policy":"h2o"`, `"policy":"h20"`)
	header("token", `48,435,559`, `48,435,5590`)
	header("noprompt", `48,435,559`, ``)
	header("key", `"format":1`, `"format":1,"colour":"red"`)
	forge(t, "e.jsonl", "noend", 206, func(string) string { return "" })
	forge(t, "e.jsonl", "halfend", 206, func(line string) string { return line[:20] })
	forge(t, "e.jsonl", "seen", 206, func(line string) string { return strings.Replace(line, `"seen":42`, `"seen":-1`, 1) })
	for name, part := range map[string]string{
		"none": "no such file", ".": "not a regular file", "empty": "the file is empty", "text": "line 1 is no header", "old": "line 1 is no header",
		"format": "format 2, want 1", "length": "a length of 9223372036854775807 tokens", "short": "tokens seen", "policy": "unknown policy",
		"token": "token id 5590, want 0 to 1023", "noprompt": "no prompt", "key": "unknown field",
		"noend": "line 205 is no end: the run did not finish", "halfend": "line 206 has no end", "seen": "-1 tokens seen",
	} {
		got := vkdecode(t, "replay", name)
		got.want(t, exitFailure, "replay: ", part)
		if got.stdout != "" {
			t.Errorf("%s: stdout %q", name, got.stdout)
		}
	}
	if got := replayReported(t, exitFailure, "budget"); got.Holds { // another run, and so another log
		t.Errorf("%+v", got)
	}
	vkdecode(t, "replay").want(t, exitUsage, "accepts 1 arg")
	vkdecode(t, "replay", "e.jsonl", "--budget", "8").want(t, exitUsage, "unknown flag: --budget")
}
