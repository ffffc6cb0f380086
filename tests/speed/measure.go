package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// bench is what is measured.
type bench struct {
	program, model  string
	environment     []string // for the driver
	rounds, decoded int
	depths          []int // tokens of the prompt
	policies        []string
	backends        []backend // of the peer
}

// speed is one run, in tokens per second.
type speed struct{ prompt, decode float64 }

// environment makes the Vulkan loader see one driver only.
func environment(driver string) ([]string, error) {
	env := append(os.Environ(), "GGML_VK_VISIBLE_DEVICES=0") // the peer ignores CPU devices unless told
	pattern, advice := "", ""
	switch driver {
	case "auto":
		return env, nil
	case "lavapipe":
		pattern, advice = "/usr/share/vulkan/icd.d/lvp_icd*.json", "install mesa-vulkan-drivers"
	case "swiftshader":
		pattern, advice = "swiftshader/lib/vk_swiftshader_icd.json", "run swiftshader/fetch"
	default:
		return nil, fmt.Errorf("driver %q, want lavapipe, swiftshader or auto", driver)
	}
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		return nil, fmt.Errorf("no driver at %s; %s", pattern, advice)
	}
	path, err := filepath.Abs(found[0])
	return append(env, "VK_DRIVER_FILES="+path, "VK_ICD_FILENAMES="+path), err
}

// prompt is the same sequence of token ids in every run. Speed does not depend on what they say.
func prompt(tokens int) string {
	const least, most = 100, 40_000 // ordinary tokens of SmolLM2
	r := rand.New(rand.NewPCG(1, 2))
	ids := make([]string, tokens)
	for i := range ids {
		ids[i] = strconv.Itoa(least + r.IntN(most-least))
	}
	return strings.Join(ids, " ")
}

// vkdecode measures one run of our program: with a policy, and behind a slash with another precision than f32.
func (b bench) vkdecode(depth int, policy string) (s speed, err error) {
	policy, precision, _ := strings.Cut(policy, "/")
	ids, err := os.CreateTemp("", "speed-*.ids")
	if err != nil {
		return s, err
	}
	defer os.Remove(ids.Name())
	if _, err := ids.WriteString(prompt(depth)); err != nil {
		return s, err
	}
	if err := ids.Close(); err != nil {
		return s, err
	}
	var report struct {
		Timing struct {
			Prompt float64 `json:"prompt_tps"`
			Decode float64 `json:"decode_tps"`
		}
	}
	err = b.run(&report, "", b.program, "run", b.model, "--config", os.DevNull, "--prompt-tokens", "@"+ids.Name(), "--kv", policy, "--budget", "20%", "--precision", cmp.Or(precision, "f32"),
		"--temp", "0", "--ignore-eos", "-n", strconv.Itoa(b.decoded+1), "--json") // the first new token is the prompt's work
	return speed{report.Timing.Prompt, report.Timing.Decode}, err
}

// peer measures one run of tests/peer/speed.c.
func (b bench) peer(program, folder, backend string, depth int) (s speed, err error) {
	var report struct {
		Prompt float64 `json:"prompt_ms"`
		Decode float64 `json:"decode_ms"`
	}
	err = b.run(&report, prompt(depth), program, folder, b.model, strconv.Itoa(depth), strconv.Itoa(b.decoded), backend)
	return speed{prompt: 1000 * float64(depth) / report.Prompt, decode: 1000 * float64(b.decoded) / report.Decode}, err
}

// run executes a command and reads the JSON that it prints.
func (b bench) run(report any, stdin, program string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stdin = b.environment, strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, stderr.Bytes())
	}
	if err := json.Unmarshal(out, report); err != nil {
		return fmt.Errorf("%s: %w in %q", cmd, err, out)
	}
	return nil
}

// median takes the middle of each figure, of an even number the lower.
func median(runs []speed) speed {
	middle := func(figure func(speed) float64) float64 {
		sorted := slices.SortedFunc(slices.Values(runs), func(a, b speed) int { return cmp.Compare(figure(a), figure(b)) })
		return figure(sorted[(len(sorted)-1)/2])
	}
	return speed{middle(func(s speed) float64 { return s.prompt }), middle(func(s speed) float64 { return s.decode })}
}

// medianRatio compares run by run, so that what else the machine does matters less.
func medianRatio(runs, base []speed) speed {
	ratios := make([]speed, len(runs))
	for i := range runs {
		ratios[i] = speed{prompt: runs[i].prompt / base[i].prompt, decode: runs[i].decode / base[i].decode}
	}
	return median(ratios)
}
