package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model/builtin"
	"vkdecode/model/gguf"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// refused is a run that must fail and print nothing.
func refused(t *testing.T, code int, args []string, parts ...string) {
	t.Helper()
	got := vkdecode(t, append([]string{"run"}, args...)...)
	got.want(t, code, parts...)
	if got.stdout != "" {
		t.Errorf("%v: stdout holds %q", args, got.stdout)
	}
	if hint := strings.Contains(got.stderr, "--help"); hint != (code == exitUsage) {
		t.Errorf("%v: points to the help: %v", args, hint)
	}
	noneLeft(t)
}

func TestRunRefusesWhatIsNoModel(t *testing.T) {
	absurd := &gguf.Writer{ExtraTensors: 1 << 60}
	onFirstDriver(t, map[string]string{"empty": "", "text": "no model at all, but long enough", "absurd": string(absurd.Bytes())})
	for name, part := range map[string]string{"none": "no such file", ".": "not a regular file", "empty": "empty file", "text": `magic "no m", want "GGUF"`, "absurd": "tensors"} {
		refused(t, exitFailure, []string{name, "-p", "x"}, name, part)
	}
	refused(t, exitUsage, []string{"-p", "x"}, "accepts 1 arg")
}

func TestRunRefusesATruncatedModel(t *testing.T) {
	onFirstDriver(t, nil)
	n := len(builtin.Model)
	for _, size := range []int{1, 4, 8, 16, 23, 24, 100, 1000, 20_000, n - 726_000, n / 2, n - 1} {
		if err := os.WriteFile("cut.gguf", builtin.Model[:size], 0o666); err != nil {
			t.Fatal(err)
		}
		refused(t, exitFailure, []string{"cut.gguf", "-p", "x"}, "gguf", "cut.gguf")
	}
	if err := os.WriteFile("whole.gguf", builtin.Model, 0o666); err != nil {
		t.Fatal(err)
	}
	vkdecode(t, "run", "whole.gguf", "-p", "x", "-n", "0").want(t, exitOK)
}

func TestRunNamesWhatAModelHasThatItCannot(t *testing.T) {
	replace := func(name string, kind gguf.Type, shape ...int64) func(w *gguf.Writer, v *gguf.Tensor) {
		return func(w *gguf.Writer, v *gguf.Tensor) {
			if v.Name != name {
				w.Add(v.Name, v.Type, v.Shape, v.Data)
			} else if shape != nil {
				w.Add(name, kind, shape, make([]byte, shape[0]*shape[1]/kind.BlockSize()*kind.BlockBytes()))
			}
		}
	}
	const query = "blk.1.attn_q.weight"
	onFirstDriver(t, map[string]string{
		"arch":    variant(t, with("general.architecture", "mamba"), nil),
		"noarch":  variant(t, without("general.architecture"), nil),
		"nokey":   variant(t, without("llama.block_count"), nil),
		"key":     variant(t, with("llama.attention.head_count", "four"), nil),
		"type":    variant(t, nil, replace(query, gguf.Q8_1, 128, 128)),
		"shape":   variant(t, nil, replace(query, gguf.F32, 128, 96)),
		"missing": variant(t, nil, replace(query, gguf.F32)),
		"same":    variant(t, nil, replace(query, gguf.F32, 128, 128)),
	})
	for name, parts := range map[string][]string{
		"arch":    {`architecture "mamba" is not supported`, "llama"},
		"noarch":  {`"general.architecture" is missing`},
		"nokey":   {`"llama.block_count" is missing`},
		"key":     {"llama.attention.head_count"},
		"type":    {query, "weight type Q8_1 has no kernel", "Q4_1", "Q6_K"},
		"shape":   {query, "shape [128 96], want [128 128]"},
		"missing": {query, "is missing"},
	} {
		refused(t, exitFailure, []string{name, "-p", "x"}, parts...)
	}
	vkdecode(t, "run", "same", "-p", "x", "-n", "0").want(t, exitOK)
}

func TestRunRefusesWrongSettings(t *testing.T) {
	onFirstDriver(t, nil)
	for line, parts := range map[string][]string{
		"--kv h20":                            {`unknown policy "h20"`, `did you mean "h2o"?`},
		"--kv h2o,window":                     {"2 policies, want one"},
		"--kv h2o:colour=red":                 {`"h2o" has no option "colour"`},
		"--budget 0":                          {"keeps nothing"},
		"--budget -1":                         {"negative"},
		"--budget 101%":                       {"more than the whole context"},
		"--budget 1KiB":                       {"bytes", "chunk"},
		"--budget 3 --sinks 4":                {"budget of 3 slots per KV head is less than the 4 sinks"},
		"--kv streaming --budget 3":           {"less than the 4 sinks"},
		"--budget 8 --pin-first 9":            {"budget of 8 slots per KV head is less than the 9 sinks and pinned tokens"},
		"--budget 8 --pin-first -1":           {"--pin-first -1"},
		"--kv full --ctx 20 -n 8":             {"20", "policy full", "raise --ctx"},
		"--chunk 0":                           {"from 1"},
		"--chunk 513":                         {"chunk of 513 rows, want 1 to 512"},
		"--positions cached":                  {`"cached"`, "original, cache"},
		"--prefill-policy full --kv h2o":      {"one keeps every token, the other does not"},
		"--kv tova --prefill-policy snapkv":   {"keeps the same tokens in all heads of a layer"},
		"--kv h2o:decoy=0.9":                  {`has no option "decoy"`, `did you mean "decay"?`},
		"--kv snapkv:window=40 --budget 20":   {"less than the observation window of 40"},
		"--kv-layers 0-9:budget=8":            {`layers "0-9:budget=8"`, "the model has layers 0 to 2"},
		"--kv-layers 0:budget=8,0:budget=9":   {"layer 0 is in"},
		"-n -1":                               {"from 0"},
		"--temp -1":                           {"at least 0"},
		"--config none.toml":                  {"none.toml", "no such file"},
		"--record-each-step=maybe":            {"invalid argument"},
		"--device 0 --device= --validation=x": {"empty string"},
	} {
		refused(t, exitUsage, append([]string{builtinName, "--prompt-tokens", strings.Repeat("48,435,559,", 7)}, strings.Fields(line)...), parts...)
	}
	vkdecode(t, "run", builtinName, "--prompt-tokens", "1,2,3", "-n", "9", "--kv", "full", "--ctx", "11").want(t, exitOK)
}

func TestRunRefusesAWrongConfiguration(t *testing.T) {
	onFirstDriver(t, map[string]string{configName: "[kv]\n\nbudgt = \"20%\"\n"})
	refused(t, exitUsage, []string{builtinName, "-p", "x"}, configName+":3", `unknown key "kv.budgt"`, `did you mean "kv.budget"?`)
	if err := os.WriteFile(configName, []byte("[kv]\nbudget = \"0\"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	refused(t, exitUsage, []string{builtinName, "-p", "x"}, configName+":2", "keeps nothing")
	t.Setenv("VKDECODE_KV_BUDGT", "20%")
	refused(t, exitUsage, []string{builtinName, "-p", "x", "--config", os.DevNull}, "VKDECODE_KV_BUDGT", `"VKDECODE_KV_BUDGET"`)
}

func TestRunRefusesFilesItCannotWrite(t *testing.T) {
	onFirstDriver(t, map[string]string{"file": ""})
	for _, flag := range []string{"--evict-log", "--kv-state", "--logits"} {
		refused(t, exitFailure, append(prince[1:], "--json", flag, "file/x"), "file/x", "not a directory")
	}
	for _, flag := range []string{"--kv-state", "--logits"} {
		refused(t, exitFailure, append(prince[1:], "--json", flag, os.DevNull), os.DevNull, "not a regular file")
	}
	refused(t, exitFailure, append(prince[1:], "--json", "--evict-log", "/dev/full"), "eviction log", "no space left") // while it runs
	few := vkdecode(t, append(prince, "--json", "--evict-log", "/dev/full", "-n", "7")...)
	few.want(t, exitFailure, "eviction log", "no space left") // at the end: the work is not lost
	var r runJSON
	few.read(t, &r)
	if r.KV.Evicted == 0 {
		t.Errorf("%+v", r)
	}
}

func TestRunRefusesADeviceThatIsNotThere(t *testing.T) {
	onFirstDriver(t, nil)
	refused(t, exitFailure, []string{builtinName, "-p", "x", "--device", "no such card"}, `"no such card"`, "there are\n")
	t.Setenv("VK_DRIVER_FILES", "/nonexistent.json")
	t.Setenv("VK_ICD_FILENAMES", "/nonexistent.json")
	refused(t, exitFailure, []string{builtinName, "-p", "x"}, "no driver", "install")
}

// A file of the loader's name that is no library hides the real one.
func TestRunSaysWhenThereIsNoLoader(t *testing.T) {
	folder := onFirstDriver(t, map[string]string{"libvulkan.so.1": "no library"})
	t.Setenv("LD_LIBRARY_PATH", folder)
	cmd, stdout, stderr := program(t, prince...)
	cmd.Run()
	result{cmd.ProcessState.ExitCode(), "", stderr.String()}.want(t, exitFailure, `loader "libvulkan.so.1"`, "install", "libvulkan1")
	if stdout.Len() > 0 {
		t.Errorf("stdout %q", stdout.String())
	}
}

func TestRunSaysWhatFitsATooSmallDevice(t *testing.T) {
	eachDriver(t, func(t *testing.T) {
		refused(t, exitFailure, []string{builtinName, "-p", "x", "--kv", "full", "--ctx", fmt.Sprint(math.MaxInt32)}, "K of layer 0", "slots per KV head fit; try --ctx ", "--budget ")
	})
}

func TestOutOfMemorySaysWhatFits(t *testing.T) {
	plan := &h2o.Plan{Chunk: 256, Capacity: 1_000_000_000, Bytes: 768_000_000_000, Length: 7}
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		var slots, budget int
		err := room(fmt.Errorf("wrapped: %w", &vk.OutOfMemoryError{Buffer: "kv.k.0", Wants: 1 << 40}), plan, d)
		text := err.Error()[strings.Index(err.Error(), "; 715.3 GiB are planned"):]
		if n, scan := fmt.Sscanf(text, "; 715.3 GiB are planned for 1000000000 slots per KV head, about %d would fit: try --budget %d", &slots, &budget); n != 2 {
			t.Fatalf("%v: %v", err, scan)
		}
		if free := slices.MaxFunc(d.Heaps(), func(a, b vk.Heap) int { return int(a.Size - b.Size) }).Size; int64(slots)*768 > free || slots < 1000 || budget != slots-256 {
			t.Errorf("%d slots and a budget of %d, with %d bytes free", slots, budget, free)
		}
		if err := room(&vk.OutOfMemoryError{Buffer: "kv.k.0"}, &h2o.Plan{Chunk: 256, Capacity: 512, Bytes: 1 << 50}, d); !strings.Contains(err.Error(), "try --chunk") {
			t.Errorf("%v", err)
		}
		if err := room(&vk.OutOfMemoryError{Buffer: "rope.table"}, plan, d); !strings.Contains(err.Error(), "7 tokens: lower -n") {
			t.Errorf("%v", err)
		}
		if other := fmt.Errorf("other"); room(other, plan, d) != other || room(nil, plan, d) != nil {
			t.Error("another error was changed")
		}
	})
}

func TestAnUnwritableCacheIsOnlyANote(t *testing.T) {
	folder := onFirstDriver(t, map[string]string{"file": ""})
	t.Setenv("XDG_CACHE_HOME", folder+"/file")
	few := append(prince, "--chunk", "1", "-n", "2") // what is compiled is not kept
	if got := vkdecode(t, few...); got.code != exitOK || strings.Contains(got.stderr, "note") {
		t.Errorf("%+v", got)
	}
	got := vkdecode(t, append(few, "-v")...)
	got.want(t, exitOK, "note: vk: pipeline cache")
	if n := strings.Count(got.stderr, "note"); n != 1 {
		t.Errorf("%d notes: %s", n, got.stderr)
	}
}

func TestAValidationMessageFailsTheRun(t *testing.T) {
	onFirstDriver(t, nil)
	vkdecode(t, append(prince, "--validation")...).want(t, exitOK)
	// The layer's own advice on style, which nobody follows entirely.
	t.Setenv("VK_LAYER_ENABLES", "VK_VALIDATION_FEATURE_ENABLE_BEST_PRACTICES_EXT")
	vkdecode(t, append(prince, "--validation")...).want(t, exitFailure, "validation messages:\n", "BestPractices")
}
