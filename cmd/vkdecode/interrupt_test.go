package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vkdecode/h2o"
	"vkdecode/model"
)

// endless decodes until something ends it.
var endless = []string{"run", builtinName, "--raw", "-p", "Prince Andrew", "-n", "1000000", "--temp", "0", "--budget", "8", "--ignore-eos"}

func TestAnInterruptBeforeTheWorkPrintsNothing(t *testing.T) {
	onFirstDriver(t, nil)
	ctx, cancel := context.WithCancel(inProcess(t))
	cancel()
	var stdout, stderr bytes.Buffer
	if code := run(ctx, append(prince, "--json", "--logits", "l.npy"), nil, &stdout, &stderr); code != exitInterrupted || stdout.Len() > 0 {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
	}
	if _, err := os.Stat("l.npy"); err == nil {
		t.Error("logits of nothing")
	}
	noneLeft(t)
}

func TestAnInterruptEndsTheLoad(t *testing.T) {
	onFirstDriver(t, nil)
	c, err := loadConfig(newRun())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(inProcess(t))
	cancel()
	if l, err := openModel(ctx, c, builtinName, 0, io.Discard); err != context.Canceled && !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("%v, %v", l, err)
	}
}

func TestAnInterruptEndsTheWaitForAPrompt(t *testing.T) {
	onFirstDriver(t, nil)
	ctx, cancel := context.WithCancel(inProcess(t))
	never, _ := io.Pipe()
	cancel()
	if code := run(ctx, []string{"run", builtinName, "-f", "-"}, never, io.Discard, io.Discard); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
}

// The eviction log goes into a pipe, so that the test knows that the prompt is under way.
func TestAnInterruptInThePromptReportsWhatThereIs(t *testing.T) {
	eachDriver(t, func(t *testing.T) {
		if err := syscall.Mkfifo("pipe", 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(inProcess(t))
		log := make(chan string)
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
			all, _ := io.ReadAll(r)
			log <- string(all)
		}()
		var stdout, stderr bytes.Buffer
		args := []string{"run", builtinName, "--prompt-tokens", strings.Repeat("48,435,", 2000), "--chunk", "1", "--budget", "8", "--json",
			"--evict-log", "pipe", "--logits", "l.npy", "--kv-state", "s.json"}
		code := run(ctx, args, nil, &stdout, &stderr)
		got := result{code, stdout.String(), stderr.String()}
		if code != exitInterrupted {
			t.Fatalf("%+v", got)
		}
		var r runJSON
		got.read(t, &r)
		if r.StopReason != string(model.StopCancelled) || r.KV.Seen == 0 || r.KV.Seen >= 4000 || len(r.PromptTokens) != 4000 || len(r.Tokens) != 0 || r.LogitsHash != "" {
			t.Errorf("%d of %d tokens seen, stopped by %s, hash %q", r.KV.Seen, len(r.PromptTokens), r.StopReason, r.LogitsHash)
		}
		if lines := strings.Count(<-log, "\n") - 1; lines != r.KV.Evicted || r.KV.Evicted != 6*(r.KV.Seen-8) {
			t.Errorf("%d lines of evictions, %d reported after %d tokens", lines, r.KV.Evicted, r.KV.Seen)
		}
		if rows, _, _ := readNPY(t, "l.npy"); rows != r.KV.Seen {
			t.Errorf("logits of %d tokens, %d were seen", rows, r.KV.Seen)
		}
		checkState(t, "s.json", r)
		noneLeft(t)
	})
}

// after calls then when so many writes have come.
type after struct {
	bytes.Buffer
	writes int
	then   func()
}

func (a *after) Write(p []byte) (int, error) {
	if a.writes--; a.writes == 0 {
		a.then()
	}
	return a.Buffer.Write(p)
}

func TestAnInterruptWhileDecodingReportsWhatThereIs(t *testing.T) {
	onFirstDriver(t, nil)
	for _, extra := range [][]string{nil, {"--evict-log", "e.jsonl"}, {"--record-each-step"}, {"--temp", "1", "--seed", "1"}} { // replayed, and step by step
		ctx, cancel := context.WithCancel(inProcess(t))
		stdout := &after{writes: 20, then: cancel}
		var stderr bytes.Buffer
		code := run(ctx, slices.Concat(endless, []string{"--kv-state", "s.json"}, extra), nil, stdout, &stderr)
		text := stdout.String()
		result{code, text, stderr.String()}.want(t, exitInterrupted, "interrupted", "prompt   3 tokens")
		if !strings.HasSuffix(text, "\n") || len(text) < 20 || len(text) > 200 {
			t.Errorf("%v: stdout %q", extra, text)
		}
		var s h2o.State
		readJSON(t, "s.json", &s)
		evicted := 0
		for _, l := range s.Layers {
			for _, h := range l.Heads {
				evicted += h.Evicted
			}
		}
		if !strings.Contains(stderr.String(), fmt.Sprintf("evicted  %d ", evicted)) {
			t.Errorf("%v: the state has %d evictions: %s", extra, evicted, stderr.String())
		}
		if slices.Contains(extra, "e.jsonl") {
			if n := strings.Count(evictionsOf(t, "e.jsonl"), "\n"); n != evicted {
				t.Errorf("%d lines in the log, %d evictions", n, evicted)
			}
		}
	}
}

// waitForText starts a program and returns when it has printed something.
func waitForText(t *testing.T, cmd *exec.Cmd) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	if _, err := io.ReadFull(read, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	return read
}

func TestCtrlCExitsWith130(t *testing.T) {
	onFirstDriver(t, nil)
	cmd, _, stderr := program(t, endless...)
	stdout := waitForText(t, cmd)
	defer stdout.Close()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, stdout)
	cmd.Wait()
	result{cmd.ProcessState.ExitCode(), "", stderr.String()}.want(t, exitInterrupted, "interrupted", "tok/s")
}

// Some parents tell both the process and its group. A full pipe holds the program up in between.
func TestACtrlCThatArrivesTwiceIsOne(t *testing.T) {
	onFirstDriver(t, nil)
	cmd, _, stderr := program(t, endless...)
	stdout := waitForText(t, cmd)
	defer stdout.Close()
	const page = 4096 // bytes, the smallest pipe
	if _, err := unix.FcntlInt(stdout.Fd(), unix.F_SETPIPE_SZ, page); err != nil {
		t.Fatal(err)
	}
	for before, waiting := -1, 0; waiting != before || waiting < page/2; { // until nothing more goes in
		time.Sleep(50 * time.Millisecond) // many tokens
		var err error
		before = waiting
		if waiting, err = unix.IoctlGetInt(int(stdout.Fd()), unix.TIOCINQ); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		time.Sleep(sameSignal / 5)
	}
	go io.Copy(io.Discard, stdout)
	cmd.Wait()
	result{cmd.ProcessState.ExitCode(), "", stderr.String()}.want(t, exitInterrupted, "interrupted")
}

func TestALostReaderEndsTheProgramQuietly(t *testing.T) {
	onFirstDriver(t, nil)
	cmd, _, stderr := program(t, append(endless, "--kv-state", "s.json")...)
	waitForText(t, cmd).Close()
	cmd.Wait()
	note := "note: up to 1000002 tokens, and the model was trained on 4096 at most\n"
	if code := cmd.ProcessState.ExitCode(); code != exitOK || stderr.String() != note {
		t.Errorf("exit code %d, stderr %q; want quiet success", code, stderr.String())
	}
	var s h2o.State
	readJSON(t, "s.json", &s) // what was asked for beside the text is there
}

func TestALostReaderDoesNotHideAnotherFailure(t *testing.T) {
	onFirstDriver(t, nil)
	cmd, _, stderr := program(t, append(endless, "--evict-log", "/dev/full", "--budget", "1")...) // the prompt evicts already
	waitForText(t, cmd).Close()
	cmd.Wait()
	result{cmd.ProcessState.ExitCode(), "", stderr.String()}.want(t, exitFailure, "eviction log", "no space left")
}
