package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vkdecode/h2o"
	"vkdecode/model"
)

// runJSON is runReport as a reader of the JSON sees it.
type runJSON struct {
	Model         string    `json:"model"`
	Device        string    `json:"device"`
	Driver        string    `json:"driver"`
	SessionTokens int       `json:"session_tokens"`
	PromptTokens  []int32   `json:"prompt_tokens"`
	Tokens        []int32   `json:"tokens"`
	Text          string    `json:"text"`
	StopReason    string    `json:"stop_reason"`
	Seed          int64     `json:"seed"`
	KV            kvJSON    `json:"kv"`
	Stats         *runStats `json:"stats"`
	Timing        timing    `json:"timing"`
	LogitsHash    string    `json:"logits_hash"`
	Layers        int       `json:"gpu_layers"`
	HostBytes     int64     `json:"host_bytes"`
}

type kvJSON struct {
	Policy        string     `json:"policy"`
	Type          string     `json:"type"`
	BudgetSlots   int        `json:"budget_slots"`
	CapacitySlots int        `json:"capacity_slots"`
	BytesPlanned  int64      `json:"bytes_planned"`
	BytesHeld     int64      `json:"bytes_held"`
	BytesFull     int64      `json:"bytes_full"`
	Seen          int        `json:"seen"`
	Kept          int        `json:"kept"`
	Evicted       int        `json:"evicted"`
	Pinned        []h2o.Span `json:"pinned"`
}

// Prince is a prompt of three tokens, and 42 tokens are processed for 40 new ones.
var prince = []string{"run", builtinName, "--raw", "-p", "Prince Andrew", "-n", "40", "--temp", "0"}

func runReported(t *testing.T, args ...string) (r runJSON) {
	t.Helper()
	got := vkdecode(t, append(args, "--json")...)
	got.want(t, exitOK)
	got.read(t, &r)
	return r
}

// slotBytes are K and V of one slot in every layer and head: 2 x 3 layers x 2 KV heads x 32 x 2 bytes.
const slotBytes = 768

func TestRunReportsWhatItDid(t *testing.T) {
	eachDriver(t, func(t *testing.T) {
		files := []string{"--evict-log", "e.jsonl", "--kv-state", "s.json", "--logits", "l.npy"}
		r := runReported(t, append(prince, files...)...)
		if r.Model != builtinName || r.Device == "" || r.Driver == "" || r.StopReason != "length" || r.Seed != noSeed {
			t.Errorf("%+v", r)
		}
		if len(r.PromptTokens) != 3 || len(r.Tokens) != 40 || r.Text != pieces(t, r.Tokens) || pieces(t, r.PromptTokens) != "Prince Andrew" {
			t.Errorf("prompt %v, new %v, text %q", r.PromptTokens, r.Tokens, r.Text)
		}
		// 20 % of 42 tokens; the prompt is the largest chunk.
		want := kvJSON{"h2o", "f16", 8, 11, 11 * slotBytes, 11 * slotBytes, 42 * slotBytes, 42, 8, (42 - 8) * 6, nil}
		if diff := cmp.Diff(want, r.KV); diff != "" {
			t.Errorf("kv: %s", diff)
		}
		if v := r.Timing; v.LoadMS <= 0 || v.PromptMS <= 0 || v.DecodeMS <= 0 ||
			math.Abs(v.PromptTPS*v.PromptMS/3000-1) > 0.01 || math.Abs(v.DecodeTPS*v.DecodeMS/39000-1) > 0.01 {
			t.Errorf("%+v", v)
		}
		checkLogits(t, "l.npy", r)
		checkState(t, "s.json", r)
		log := readLog(t, "e.jsonl", r)
		noneLeft(t)

		// The steps that write no files are replayed without the host in between.
		replayed := runReported(t, prince...)
		replayed.Timing = r.Timing
		if diff := cmp.Diff(r, replayed); diff != "" {
			t.Errorf("without files: %s", diff)
		}
		for _, extra := range []string{"--temp=0", "--record-each-step"} { // the first changes nothing
			again := runReported(t, append(prince, "--evict-log", "again.jsonl", extra)...)
			if !slices.Equal(again.Tokens, r.Tokens) || again.LogitsHash != r.LogitsHash {
				t.Errorf("%s: %+v, before %+v", extra, again, r)
			}
			if readLog(t, "again.jsonl", again) != log {
				t.Errorf("%s: another eviction log", extra)
			}
		}
	})
}

func TestReplayIsTheSameAsRecordingAnew(t *testing.T) {
	onFirstDriver(t, nil)
	replayed, anew := runReported(t, prince...), runReported(t, append(prince, "--record-each-step")...)
	anew.Timing = replayed.Timing
	if diff := cmp.Diff(replayed, anew); diff != "" {
		t.Error(diff)
	}
}

func TestRunProcessesOnlyThePromptWithoutNewTokens(t *testing.T) {
	onFirstDriver(t, nil)
	r := runReported(t, append(prince, "-n", "0")...)
	if len(r.Tokens) != 0 || r.Text != "" || r.KV.Seen != 3 || r.StopReason != "length" || r.Timing.DecodeTPS != 0 {
		t.Errorf("%+v", r)
	}
	// The one new token is not processed.
	if one := runReported(t, append(prince, "-n", "1")...); one.LogitsHash != r.LogitsHash || one.KV.Seen != 3 || len(one.Tokens) != 1 {
		t.Errorf("-n 1: %+v, -n 0: %+v", one, r)
	}
	if two := runReported(t, append(prince, "-n", "2")...); two.LogitsHash == r.LogitsHash || two.KV.Seen != 4 {
		t.Errorf("-n 2: %+v", two)
	}
	if got := vkdecode(t, append(prince, "-n", "0")...); got.stdout != "" || strings.Contains(got.stderr, "decode ") {
		t.Errorf("%+v", got)
	}
}

func TestRunDrawsTheSameTextFromTheSameSeed(t *testing.T) {
	onFirstDriver(t, nil)
	draw := func(seed string) runJSON {
		return runReported(t, "run", builtinName, "-p", "Prince Andrew", "-n", "40", "--temp", "1", "--seed", seed)
	}
	one, again, two, fresh := draw("1"), draw("1"), draw("2"), draw("-1")
	if one.Text != again.Text || one.LogitsHash != again.LogitsHash || one.Seed != 1 {
		t.Errorf("seed 1 gives %+v and %+v", one, again)
	}
	if one.Text == two.Text || two.Seed != 2 {
		t.Errorf("seed 2: %+v, seed 1: %+v", two, one)
	}
	if fresh.Seed < 0 || fresh.Text == one.Text {
		t.Errorf("a fresh seed: %+v", fresh)
	}
	// A repeat penalty alone draws nothing.
	if r := runReported(t, append(prince, "--repeat-penalty", "1.5", "--seed", "3")...); r.Seed != noSeed || r.Text == runReported(t, prince...).Text {
		t.Errorf("with a repeat penalty: %+v", r)
	}
}

func TestRunTakesPenaltiesAndBiases(t *testing.T) {
	onFirstDriver(t, nil)
	greedy := runReported(t, prince...)
	second := greedy.Tokens[1]
	for _, args := range [][]string{{"--presence-penalty", "5"}, {"--frequency-penalty", "2", "--repeat-last", "0"}, {"--logit-bias", fmt.Sprintf("%d=-inf", second)}} {
		if r := runReported(t, append(prince, args...)...); slices.Equal(r.Tokens, greedy.Tokens) || r.Seed != noSeed {
			t.Errorf("%v: %v", args, r.Tokens)
		}
	}
	if r := runReported(t, append(prince, "--logit-bias", fmt.Sprintf("%d=-inf", second))...); slices.Contains(r.Tokens, second) {
		t.Errorf("token %d is banned: %v", second, r.Tokens)
	}
	if r := runReported(t, append(prince, "--logit-bias", "7=1000", "-n", "3")...); !slices.Equal(r.Tokens, []int32{7, 7, 7}) {
		t.Errorf("only token 7 is wanted: %v", r.Tokens)
	}
	vkdecode(t, append(prince, "--logit-bias", "1024=1")...).want(t, exitUsage, "a bias for token 1024, want 0 to 1023")
}

func TestRunStopsAtTheModelsEndToken(t *testing.T) {
	const end = 259 // what greedy decoding says third
	onFirstDriver(t, map[string]string{"m.gguf": variant(t, with("tokenizer.ggml.eos_token_id", uint32(end)), nil)})
	prince := append([]string{"run", "m.gguf", "--budget", "4"}, prince[2:]...)
	r, three := runReported(t, prince...), runReported(t, append(prince, "-n", "3")...)
	if r.StopReason != string(model.StopEnd) || len(r.Tokens) != 3 || r.Tokens[2] != end || r.Text != pieces(t, r.Tokens[:2]) {
		t.Errorf("%+v", r)
	}
	// What was submitted beyond the end token changed nothing.
	if r.LogitsHash != three.LogitsHash || r.KV.Seen != 5 || r.KV.Kept != three.KV.Kept || r.KV.Evicted != three.KV.Evicted {
		t.Errorf("%+v, with -n 3 %+v", r, three)
	}
	if got := vkdecode(t, prince...); got.stdout != r.Text+"\n" || !strings.Contains(got.stderr, stops[model.StopEnd]) {
		t.Errorf("%+v", got)
	}
	on := runReported(t, append(prince, "--ignore-eos")...)
	if on.StopReason != string(model.StopLength) || len(on.Tokens) != 40 || !slices.Equal(on.Tokens[:3], r.Tokens) || on.Text != pieces(t, on.Tokens) {
		t.Errorf("--ignore-eos: %+v", on)
	}
}

// writes counts how often a program writes.
type writes struct {
	bytes.Buffer
	count int
}

func (w *writes) Write(p []byte) (int, error) {
	w.count++
	return w.Buffer.Write(p)
}

func TestRunPrintsEachTokenAsItComes(t *testing.T) {
	onFirstDriver(t, nil)
	var stdout writes
	var stderr bytes.Buffer
	if code := run(inProcess(t), prince, strings.NewReader(""), &stdout, &stderr); code != exitOK {
		t.Fatal(code, stderr.String())
	}
	if text := runReported(t, prince...).Text; stdout.String() != text+"\n" || stdout.count != 41 {
		t.Errorf("%d writes of %q, want 41 of %q", stdout.count, stdout.String(), text)
	}
	for _, part := range []string{"prompt   3 tokens", "decode   40 tokens", "tok/s", "budget 20%: 8 slots per head for a context of 42 tokens, 11 with a chunk",
		"8.2 KiB of K and V, 26.2% of the 31.5 KiB", "evicted  204", "device   "} {
		if !strings.Contains(stderr.String(), part) {
			t.Errorf("%q is missing in:\n%s", part, stderr.String())
		}
	}
	if strings.Contains(stderr.String(), "seed") || strings.Contains(stderr.String(), "kernels") {
		t.Errorf("more than asked for:\n%s", stderr.String())
	}
	full := vkdecode(t, append(prince, "--kv", "full")...)
	full.want(t, exitOK, "full: every token keeps its slot, 42 per head", "evicted  0", "100.0%")
}

func TestRunHoldsWhatPlanSays(t *testing.T) {
	onFirstDriver(t, map[string]string{"prompt.txt": strings.Repeat("and then the count said ", 20)})
	for _, types := range []string{"f32", "q8_0/q4_0"} { // 55 slots: with scales a layer is not whole uvec4 by itself
		line := []string{"--ctx", "300", "--chunk", "16", "--budget", "13%", "--kv", "h2o", "--kv-type", types}
		p := plan(t, "plan "+builtinName+" "+strings.Join(line, " "))
		r := runReported(t, append([]string{"run", builtinName, "-f", "prompt.txt", "-n", "8", "--temp", "0"}, line...)...)
		if k := p.Policies[0]; r.KV.BytesHeld != k.BytesCapacity || r.KV.BudgetSlots != k.BudgetSlots || r.KV.CapacitySlots != k.CapacitySlots || r.KV.BytesFull != p.BytesFull || r.KV.Kept != k.BudgetSlots || r.KV.Type != types {
			t.Errorf("run %+v, plan %+v", r.KV, p)
		}
	}
}

func TestRunPinsTheFirstTokens(t *testing.T) {
	onFirstDriver(t, nil)
	first := func(extra ...string) (positions []uint32) {
		runReported(t, append(append(prince, "--kv-state", "s.json"), extra...)...)
		var s h2o.State
		readJSON(t, "s.json", &s)
		return s.Layers[0].Heads[0].Positions[:3]
	}
	if got := first("--kv", "window", "--pin-first", "3"); !slices.Equal(got, []uint32{0, 1, 2}) {
		t.Errorf("pinned: the first live positions are %v", got)
	}
	if got := first("--kv", "window"); slices.Equal(got, []uint32{0, 1, 2}) {
		t.Error("the window keeps the first tokens without being told to")
	}
}

func TestRunTellsMoreWhenAsked(t *testing.T) {
	onFirstDriver(t, nil)
	vkdecode(t, append(prince, "-v")...).want(t, exitOK, "lanes\n", "kernels", "kv                 8448 bytes in 2 tensors")
	t.Setenv("VKDECODE_DEBUG", "3")
	got := vkdecode(t, append(prince, "-n", "5")...)
	got.want(t, exitOK, "lanes\n", "dispatches", "matmul")
	for _, name := range []string{"chunk", "decode", "head", "sample"} {
		if n := strings.Count(got.stderr, "program "+name+"\n"); n != 1 {
			t.Errorf("program %s is printed %d times", name, n)
		}
	}
	t.Setenv("VKDECODE_DEBUG", "1")
	if got := vkdecode(t, prince...); strings.Contains(got.stderr, "program") || strings.Contains(got.stderr, "dispatches") || !strings.Contains(got.stderr, "lanes\n") {
		t.Errorf("level 1: %s", got.stderr)
	}
	t.Setenv("VKDECODE_DEBUG", "4")
	vkdecode(t, prince...).want(t, exitUsage, "VKDECODE_DEBUG", "want 0 to 3")
}

func TestRunNotesATextLongerThanTheModelKnows(t *testing.T) {
	onFirstDriver(t, map[string]string{"m.gguf": variant(t, with("llama.context_length", uint32(41)), nil)})
	line := append([]string{"run", "m.gguf"}, prince[2:]...)
	vkdecode(t, line...).want(t, exitOK, "note: up to 42 tokens", "trained on 41")
	if got := vkdecode(t, append(line, "-n", "39")...); strings.Contains(got.stderr, "note") {
		t.Errorf("41 tokens: %s", got.stderr)
	}
}
