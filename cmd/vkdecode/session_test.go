package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vkdecode/model"
	"vkdecode/model/gguf"
	"vkdecode/tests/drivers"
)

// reportOf runs the program in a process of its own and reads its report.
func reportOf(t *testing.T, args ...string) (r runJSON) {
	t.Helper()
	cmd, stdout, stderr := program(t, append(args, "--json")...)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, stderr)
	}
	result{exitOK, stdout.String(), ""}.read(t, &r)
	return r
}

// inOneSession does what two runs did, in one session that nothing interrupts. The token that the first one left begins the
// second prompt.
func inOneSession(t *testing.T, first, second runJSON, args ...string) (tokens []int32, hash string) {
	t.Helper()
	cmd := newRun()
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	c, err := loadConfig(cmd)
	if err != nil {
		t.Fatal(err)
	}
	l, err := openModel(inProcess(t), c, builtinName, 0, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	s, err := l.model.NewSession(t.Context(), model.SessionOptions{KV: c.cache(c.KV.Policies[0], c.KV.Budget), Length: 400, Context: c.KV.Context})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, r := range []runJSON{first, second} {
		if err := s.Prompt(t.Context(), r.PromptTokens, model.Observer{}, nil); err != nil {
			t.Fatal(err)
		}
		tokens = tokens[:0]
		if _, err := s.Generate(t.Context(), model.Generation{Tokens: len(r.Tokens), Emit: func(token int32) error {
			tokens = append(tokens, token)
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
	}
	logits, err := s.Logits()
	if err != nil {
		t.Fatal(err)
	}
	return tokens, hashLogits(logits)
}

const turn = "Prince Andrew looked at the sky, and the Emperor, with his staff, rode on to the field of"

// Two turns in two processes are the same as two turns in one session.
func TestASessionGoesOnInAnotherProcess(t *testing.T) {
	eachDriver(t, func(t *testing.T) {
		all := [][]string{{"--kv", "h2o", "--ctx", "100", "--kv-type", "q8_0/q4_0"}, {"--kv", "snapkv:window=8", "--budget", "20", "--ctx", "200"}}
		var short []string
		if strings.HasSuffix(t.Name(), drivers.SwiftShader) { // it compiles slowly, the products of several rows most of all, and every process compiles anew
			all, short = all[:1], []string{"--chunk", "1"}
		}
		for _, settings := range all {
			settings = append(settings, short...)
			first := reportOf(t, slices.Concat([]string{"run", builtinName, "-p", turn, "-n", "30", "--temp", "0", "--save-session", "s"}, settings)...)
			second := reportOf(t, slices.Concat([]string{"run", builtinName, "-p", ", where he said that", "-n", "30", "--temp", "0", "--load-session", "s", "--save-session", "t"}, short)...)
			if n := len(first.PromptTokens) + 29; second.SessionTokens != n || second.PromptTokens[0] != first.Tokens[29] || second.KV.Seen != n+len(second.PromptTokens)+29 || second.KV.Type != first.KV.Type {
				t.Errorf("%v: %+v after %+v", settings, second, first)
			}
			tokens, hash := inOneSession(t, first, second, settings...)
			if !slices.Equal(tokens, second.Tokens) || hash != second.LogitsHash {
				t.Errorf("%v: %v, in one session %v", settings, second.Tokens, tokens)
			}
			if third := reportOf(t, slices.Concat([]string{"run", builtinName, "--prompt-tokens", "5,6", "-n", "1", "--load-session", "t"}, short)...); third.SessionTokens != second.KV.Seen || len(third.PromptTokens) != 3 {
				t.Errorf("%v: the third turn: %+v", settings, third)
			}
		}
		noneLeft(t)
	})
}

// A generation that was cut in two is the same as a whole one, in text, cache and evictions.
func TestASessionGoesOnWithoutAPrompt(t *testing.T) {
	onFirstDriver(t, nil)
	files := func(name string) []string {
		return []string{"--ctx", "50", "--evict-log", name + ".jsonl", "--kv-state", name + ".json"}
	}
	whole := runReported(t, append(append(prince, files("whole")...), "-n", "40")...)
	first := runReported(t, append(append(prince, files("first")...), "-n", "25", "--save-session", "s")...)
	rest := runReported(t, append([]string{"run", builtinName, "--temp", "0", "-n", "15", "--load-session", "s"}, files("rest")...)...)
	if got := append(slices.Clone(first.Tokens), rest.Tokens...); !slices.Equal(got, whole.Tokens) || rest.LogitsHash != whole.LogitsHash || rest.KV.Seen != whole.KV.Seen || len(rest.PromptTokens) != 0 {
		t.Errorf("%v, want %v", got, whole.Tokens)
	}
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if read("rest.json") != read("whole.json") || read("first.json") == read("whole.json") {
		t.Error("the caches differ")
	}
	if diff := cmp.Diff(evictionsOf(t, "whole.jsonl"), evictionsOf(t, "first.jsonl")+evictionsOf(t, "rest.jsonl")); diff != "" {
		t.Errorf("the evictions differ: %s", diff)
	}
	got := vkdecode(t, "run", builtinName, "--temp", "0", "-n", "2", "--load-session", "s")
	got.want(t, exitOK, "session  27 tokens\ndecode   2 tokens")
	if none := runReported(t, "run", builtinName, "-n", "0", "--load-session", "s"); none.LogitsHash != first.LogitsHash || none.KV.Seen != 27 {
		t.Errorf("without new tokens: %+v, saved %+v", none, first)
	}
}

const chatML = "{% for m in messages %}{% if loop.first and m.role != 'system' %}{{ '<|im_start|>system\nBe kind.<|im_end|>\n' }}{% endif %}" +
	"{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

func TestTheNextTurnClosesTheReply(t *testing.T) {
	got, err := renderNext(chatML, "And when?", "", "")
	if want := "<|im_end|>\n<|im_start|>user\nAnd when?<|im_end|>\n<|im_start|>assistant\n"; got != want || err != nil {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if _, err := renderNext("{{ messages[-1].content }}", "And when?", "", ""); err == nil || !strings.Contains(err.Error(), "drops earlier replies") {
		t.Errorf("a template without replies: %v", err)
	}
	onFirstDriver(t, map[string]string{"m.gguf": variant(t, nil, nil, func(w *gguf.Writer) { w.Set("tokenizer.chat_template", chatML) })})
	first := runReported(t, "run", "m.gguf", "-p", "Who?", "-n", "3", "--save-session", "s")
	next := promptPieces(t, runReported(t, "run", "m.gguf", "-p", "And when?", "-n", "0", "--load-session", "s").PromptTokens)
	if want := pieces(t, first.Tokens[2:]) + "<|im_end|>\n<|im_start|>user\nAnd when?<|im_end|>\n<|im_start|>assistant\n"; next != want {
		t.Errorf("the next prompt is %q, want %q", next, want)
	}
	raw := promptPieces(t, runReported(t, "run", "m.gguf", "--raw", "-p", "And when?", "-n", "0", "--load-session", "s").PromptTokens)
	if want := pieces(t, first.Tokens[2:]) + "And when?"; raw != want {
		t.Errorf("the next prompt is %q, want %q", raw, want)
	}
}

func promptPieces(t *testing.T, tokens []int32) string { return pieces(t, tokens) }

func TestRunRefusesSessionsItCannotGoOnFrom(t *testing.T) {
	onFirstDriver(t, map[string]string{"text": "no session, but long enough", "m.gguf": variant(t, with("general.name", "another"), nil)})
	runReported(t, append(prince, "--save-session", "s")...)
	whole, err := os.ReadFile("s")
	if err != nil {
		t.Fatal(err)
	}
	damaged := slices.Clone(whole)
	damaged[len(damaged)-100] ^= 1
	for name, b := range map[string][]byte{"damaged": damaged, "cut": whole[:len(whole)/2]} {
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	load := func(name string, extra ...string) []string {
		return append([]string{builtinName, "-p", "x", "-n", "3", "--load-session", name}, extra...)
	}
	refused(t, exitFailure, load("none"), "session: open none: no such file")
	refused(t, exitFailure, load("text"), "session: text: ", "no session that vkdecode saved")
	refused(t, exitFailure, load("damaged"), "session: damaged: ", "do not give the SHA-256")
	refused(t, exitFailure, load("cut"), "session: cut: ", "cut short")
	refused(t, exitFailure, append([]string{"m.gguf"}, load("s")[1:]...), "session: s: ", `fingerprint`, `in the file, "another" with fingerprint`)
	refused(t, exitFailure, load("s", "--kv", "window"), "policy: h2o in the file, window here")
	refused(t, exitFailure, load("s", "--budget", "7"), "budget: 8 slots per KV head in the file, 7 slots per KV head here")
	refused(t, exitFailure, load("s", "--kv-type", "f32"), "KV type: f16/f16 in the file, f32/f32 here")
	refused(t, exitUsage, load("s", "--pin-first", "3"), "--pin-text with --load-session")
	refused(t, exitUsage, load("s", "--system", "Be kind."), "system", "load-session")
	refused(t, exitUsage, []string{builtinName, "-n", "3"}, "at least one of the flags", "load-session")
	refused(t, exitFailure, append(prince[1:], "--save-session", "none/s"), "session: ", "no such file")
	refused(t, exitFailure, append(prince[1:], "--save-session", os.DevNull), "not a regular file")
	runReported(t, append([]string{"run"}, load("s", "--budget", "8", "--kv", "h2o", "--sinks", "0")...)...) // what is the same is not refused
}

// An interrupted generation can go on; of an interrupted prompt nothing is saved.
func TestAnInterruptSavesWhatCanGoOn(t *testing.T) {
	onFirstDriver(t, nil)
	ctx, cancel := context.WithCancel(inProcess(t))
	stdout := &after{writes: 20, then: cancel}
	var stderr bytes.Buffer
	if code := run(ctx, append(endless, "-n", "20000", "--save-session", "s"), nil, stdout, &stderr); code != exitInterrupted {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	if r := runReported(t, "run", builtinName, "-n", "5", "--load-session", "s"); r.SessionTokens < 10 || len(r.Tokens) != 5 {
		t.Errorf("%+v", r)
	}
	if err := syscall.Mkfifo("pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancel(inProcess(t))
	go func() {
		pipe, err := os.Open("pipe")
		if err != nil {
			t.Error(err)
		}
		defer pipe.Close()
		r := bufio.NewReader(pipe)
		r.ReadString('\n') // the header comes before the work
		r.Peek(1)
		cancel()
		io.Copy(io.Discard, r)
	}()
	args := []string{"run", builtinName, "--prompt-tokens", strings.Repeat("48,435,", 2000), "--chunk", "1", "--budget", "8", "--evict-log", "pipe", "--save-session", "cut"}
	if code := run(ctx, args, nil, io.Discard, &stderr); code != exitInterrupted {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	if _, err := os.Stat("cut"); err == nil {
		t.Error("half a prompt was saved")
	}
	noneLeft(t)
}
