package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"vkdecode/bench"
)

// tiny is a benchmark that takes no time.
var tiny = []string{"bench", "synthetic:llama-3m:q4_1", "--repeat", "2", "--prompt", "20", "-n", "6"}

// benched reads the lines of JSON of a benchmark, which have every field and no other.
func benched(t *testing.T, args ...string) []bench.Result {
	t.Helper()
	got := vkdecode(t, append(slices.Clone(tiny), append(args, "--json")...)...)
	got.want(t, exitOK)
	return benchLines(t, got.stdout)
}

func benchLines(t *testing.T, lines string) (all []bench.Result) {
	t.Helper()
	for line := range strings.Lines(lines) {
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		var r bench.Result
		if err := d.Decode(&r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"kind", "model", "device", "driver", "kv", "budget", "budget_slots", "kv_type", "chunk", "depth", "rows", "prompt", "tokens", "repeats", "prompt_tps", "prompt_tps_low",
			"prompt_tps_high", "prompt_gflops", "decode_tps", "decode_tps_low", "decode_tps_high", "decode_vs_full", "prompt_vs_full", "step_ms", "step_bytes", "gbps", "gflops", "read_gbps", "copy_gbps",
			"bandwidth_share", "score_share", "kernels", "kv_bytes", "live_slots", "joules_per_token", "complete"} {
			if _, ok := fields[name]; !ok {
				t.Errorf("no field %q in %s", name, line)
			}
		}
		all = append(all, r)
	}
	return all
}

func TestBenchMeasuresEverySettingAtEveryDepth(t *testing.T) {
	onFirstDriver(t, nil)
	got := benched(t, "--depth", "0,300", "--kv", "full,h2o", "--budget", "20%", "--rows", "1,3", "--chunk", "16", "--csv", "r.csv")
	var named []string
	for _, r := range got {
		named = append(named, fmt.Sprintf("%s %d %d %d", r.KV, r.Depth, r.Rows, r.BudgetSlots))
	}
	// 20 % of 6 tokens and of 306.
	if want := []string{"full 0 1 6", "h2o 0 1 1", "full 0 3 6", "h2o 0 3 1", "full 300 1 306", "h2o 300 1 61", "full 300 3 306", "h2o 300 3 61"}; !slices.Equal(named, want) {
		t.Fatalf("results of %q, want %q", named, want)
	}
	for _, r := range got {
		where := fmt.Sprintf("%s, depth %d, rows %d", r.KV, r.Depth, r.Rows)
		if r.Kind != "bench" || r.Model != tiny[1] || r.Device == "" || !r.Complete || r.Repeats != 2 || r.KVType != "f16" || r.Chunk != 16 || r.Prompt != 20 || r.Tokens != 6 {
			t.Errorf("%s: %+v", where, r)
		}
		positive(t, where, "prompt_tps", r.PromptTPS, "decode_tps", r.DecodeTPS, "gbps", r.GBPS, "gflops", r.GFLOPS, "prompt_gflops", r.PromptGFLOPS, "bandwidth_share", r.BandwidthShare,
			"step_ms", r.StepMS, "decode_vs_full", r.DecodeVsFull, "prompt_vs_full", r.PromptVsFull, "live_slots", r.LiveSlots)
		if *r.DecodeLow > *r.DecodeTPS || *r.DecodeTPS > *r.DecodeHigh || *r.PromptLow > *r.PromptHigh {
			t.Errorf("%s: the median %g is not between %g and %g", where, *r.DecodeTPS, *r.DecodeLow, *r.DecodeHigh)
		}
		if want := float64(*r.StepBytes) / 1e6 / *r.StepMS; math.Abs(*r.GBPS/want-1) > 1e-9 || math.Abs(*r.StepMS**r.DecodeTPS/1e3/float64(r.Rows)-1) > 1e-9 {
			t.Errorf("%s: %g GB/s of %d bytes in %g ms, %g tok/s", where, *r.GBPS, *r.StepBytes, *r.StepMS, *r.DecodeTPS)
		}
		if r.ReadGBPS <= 0 || r.CopyGBPS <= 0 {
			t.Errorf("%s: memory reads %g and copies %g GB/s", where, r.ReadGBPS, r.CopyGBPS)
		}
		kernelsOf(t, where, r)
		if full := r.KV == "full"; full && (*r.DecodeVsFull != 1 || *r.LiveSlots < float64(r.Depth)) || !full && r.Depth > 0 && *r.LiveSlots != float64(r.BudgetSlots) {
			t.Errorf("%s: %g times as fast as full, %g live slots", where, *r.DecodeVsFull, *r.LiveSlots)
		}
	}
	if full, evicting := got[4], got[5]; *full.KVBytes != 2*2*2*64*3*306 || *evicting.KVBytes >= *full.KVBytes || *evicting.StepBytes >= *full.StepBytes {
		t.Errorf("K and V of %d bytes and %d, steps that read %d and %d", *full.KVBytes, *evicting.KVBytes, *full.StepBytes, *evicting.StepBytes)
	}
	file, err := os.Open("r.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil || len(rows) != 9 || slices.Contains(rows[0], "kernels") || !slices.Contains(rows[0], "score_share") {
		t.Errorf("%d lines of CSV, %v", len(rows), err)
	}
	noneLeft(t)
}

func TestBenchRunsOnEveryDriver(t *testing.T) {
	eachDriver(t, func(t *testing.T) {
		got := benched(t, "--depth", "30", "--kv", "h2o", "--budget", "20%")
		if len(got) != 1 || !got[0].Complete || got[0].BudgetSlots != 7 {
			t.Fatalf("%+v", got)
		}
		positive(t, "h2o", "prompt_tps", got[0].PromptTPS, "decode_tps", got[0].DecodeTPS, "score_share", got[0].ScoreShare)
		kernelsOf(t, "h2o", got[0])
	})
}

// positive checks pairs of a name and a figure.
func positive(t *testing.T, where string, pairs ...any) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if v := pairs[i+1].(*float64); v == nil || !(*v > 0) || math.IsInf(*v, 0) {
			t.Errorf("%s: %s is not above 0", where, pairs[i])
		}
	}
}

// kernelsOf checks that the times of kernels are those of a step, and the share of scoring theirs.
func kernelsOf(t *testing.T, where string, r bench.Result) {
	t.Helper()
	all, own, names := 0.0, 0.0, []string{}
	for _, k := range r.Kernels {
		if k.MS < 0 || k.Dispatches < 1 {
			t.Errorf("%s: %+v", where, k)
		}
		all += k.MS
		if slices.Contains([]string{"shares", "score", "evict", "compact"}, k.Name) {
			own += k.MS
		}
		names = append(names, k.Name)
	}
	if !slices.Contains(names, "matmul") || slices.Contains(names, "count") != (r.KV == "full") || slices.Contains(names, "evict") != (r.KV == "h2o") || slices.Contains(names, "compact") != (r.KV == "h2o") {
		t.Errorf("%s: kernels %q", where, names)
	}
	if r.ScoreShare == nil || math.Abs(*r.ScoreShare-own/all) > 1e-9 {
		t.Errorf("%s: share of scoring %v, want %g", where, r.ScoreShare, own/all)
	}
}

func TestBenchPrintsTables(t *testing.T) {
	onFirstDriver(t, nil)
	args := append(slices.Clone(tiny), "--depth", "100", "--budget", "16")
	got := vkdecode(t, args...)
	got.want(t, exitOK)
	for _, part := range []string{"synthetic:llama-3m:q4_1 on ", "GB/s read", "policy  budget  depth  rows  slots  prompt tok/s", "\nfull    100%      100     1    106", "\nh2o     16        100     1     16", "of a step", "scoring", "J/token",
		"ms by kernel\n\npolicy  budget  depth  rows  ", "  matmul", "  chain"} {
		if !strings.Contains(got.stdout, part) {
			t.Errorf("%q is missing in:\n%s", part, got.stdout)
		}
	}
	got = vkdecode(t, append(args, "--markdown", "-n", "0", "--kv", "h2o")...)
	got.want(t, exitOK)
	if !strings.HasPrefix(strings.SplitN(got.stdout, "\n", 3)[2], "| policy | budget | depth | rows | slots | prompt tok/s |") || strings.Contains(got.stdout, "decode") {
		t.Errorf("%s", got.stdout)
	}
	got = vkdecode(t, append(args, "--prompt", "0", "--kv", "h2o")...)
	got.want(t, exitOK)
	if strings.Contains(got.stdout, "prompt") || !strings.Contains(got.stdout, "decode tok/s") {
		t.Errorf("%s", got.stdout)
	}
}

func TestBenchComparesWithAnOlderResult(t *testing.T) {
	onFirstDriver(t, nil)
	args := []string{"--depth", "50", "--budget", "16", "--kv", "h2o"}
	before := benched(t, args...)[0]
	half := *before.DecodeTPS / 2
	before.DecodeTPS, before.Device = &half, "another card"
	line, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	write(t, "old.json", string(line)+"\n")
	got := vkdecode(t, append(append(slices.Clone(tiny), args...), "--compare", "old.json", "--json", "--rows", "1,2")...)
	got.want(t, exitOK, "note: 1 of 2 results have none of the same settings in old.json", "another device: another card")
	lines := benchLines(t, got.stdout)
	positive(t, "compared", "prompt_ratio", lines[0].PromptRatio, "decode_ratio", lines[0].DecodeRatio)
	if want := *lines[0].DecodeTPS / half; math.Abs(*lines[0].DecodeRatio/want-1) > 1e-9 || lines[1].DecodeRatio != nil {
		t.Errorf("ratio %g, want %g; %v", *lines[0].DecodeRatio, want, lines[1].DecodeRatio)
	}
	got = vkdecode(t, append(append(slices.Clone(tiny), args...), "--compare", "old.json")...)
	got.want(t, exitOK)
	if strings.Count(got.stdout, "vs older") != 2 {
		t.Errorf("%s", got.stdout)
	}
}

func TestWrongBenchmarksAreRefused(t *testing.T) {
	onFirstDriver(t, map[string]string{"bad.json": "{}\n"})
	for line, part := range map[string]string{
		"":                                "accepts 1 arg",
		"builtin: --depth -1":             "--depth -1, want 0 to",
		"builtin: --depth deep":           `invalid argument "deep"`,
		"builtin: --depth 5,5":            "--depth 5 is given twice",
		"builtin: --depth=":               `invalid argument ""`,
		"builtin: --rows 0":               "--rows 0, want 1 to 64",
		"builtin: --rows 65":              "--rows 65, want 1 to 64",
		"builtin: --prompt -1":            "--prompt -1, want 0 to",
		"builtin: -n -1":                  "--tokens -1, want 0 to",
		"builtin: --prompt 0 -n 0":        "nothing is left to measure",
		"builtin: --repeat 0":             "--repeat 0, want 1 to",
		"builtin: --json --markdown":      "[json markdown]",
		"builtin: --kv windw":             `did you mean "window"?`,
		"builtin: --budget 200%":          "more than the whole context",
		"builtin: --kv snapkv --depth 10": "observation window",
		"synthetic:llama-9b:q4_0":         `shape "llama-9b"`,
		"synthetic:llama-7b":              "no weight type",
		"synthetic:llama-7b:q9_9":         `weight type "q9_9"`,
		"builtin: --kv h2o --prefill-policy tova --depth 100": "cannot follow",
	} {
		vkdecode(t, append([]string{"bench"}, strings.Fields(line)...)...).want(t, exitUsage, part, "--help")
	}
	for line, part := range map[string]string{
		"builtin: --compare none.json":             "none.json: no such file",
		"builtin: --compare bad.json":              "bad.json:1 is no result",
		"builtin: --csv .":                         "not a regular file",
		"none.gguf":                                "none.gguf: no such file",
		"synthetic:llama-14b:f32 --depth 16000000": "of weights to make",
		"synthetic:llama-7b:q4_0 --depth 16000000": "lower --depth, --budget or --rows",
	} {
		got := vkdecode(t, append([]string{"bench"}, strings.Fields(line)...)...)
		got.want(t, exitFailure, part)
	}
	vkdecode(t, "run", "synthetic:llama-3m:q4_0", "-p", "x").want(t, exitUsage, "only \"vkdecode bench\" makes")
}

func TestAnInterruptedBenchmarkTellsWhatThereIs(t *testing.T) {
	onFirstDriver(t, nil)
	ctx, cancel := context.WithCancel(inProcess(t))
	stdout := &after{writes: 2, then: cancel} // with the second result of the first depth
	var stderr bytes.Buffer
	code := run(ctx, append(slices.Clone(tiny), "--depth", "10,20,30", "--budget", "8", "--json", "--csv", "r.csv"), nil, stdout, &stderr)
	lines := benchLines(t, stdout.String())
	if code != exitInterrupted || len(lines) != 2 || lines[1].Depth != 10 {
		t.Errorf("exit code %d, %d results: %s%s", code, len(lines), stdout.String(), stderr.String())
	}
	if csv, err := os.ReadFile("r.csv"); err != nil || bytes.Count(csv, []byte("\n")) != 3 {
		t.Errorf("%v: %s", err, csv)
	}
	cancelled, stop := context.WithCancel(inProcess(t))
	stop()
	var nothing bytes.Buffer
	if code := run(cancelled, tiny, nil, &nothing, &stderr); code != exitInterrupted || nothing.Len() > 0 {
		t.Errorf("exit code %d, stdout %q", code, nothing.String())
	}
	noneLeft(t)
}

func TestModelsWithoutAFileAreCompleted(t *testing.T) {
	inFolder(t, nil)
	got := vkdecode(t, "__complete", "bench", "synthetic:llama-7b:q4")
	if got.code != exitOK || !strings.Contains(got.stdout, "synthetic:llama-7b:q4_0\n") || strings.Contains(got.stdout, "llama-1b") {
		t.Errorf("%+v", got)
	}
}
