package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"io"

	"github.com/spf13/cobra"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/runtime"
)

// runReport is what `run --json` prints.
type runReport struct {
	Model        string           `json:"model"`
	Device       string           `json:"device"`
	Driver       string           `json:"driver"`
	PromptTokens []int32          `json:"prompt_tokens"`
	Tokens       []int32          `json:"tokens"`
	Text         string           `json:"text"`
	StopReason   model.StopReason `json:"stop_reason"`
	Seed         int64            `json:"seed"` // -1 when nothing was sampled
	KV           kvReport         `json:"kv"`
	Timing       timing           `json:"timing"`
	LogitsHash   string           `json:"logits_hash"` // SHA-256 of the last row's logits, f32 little-endian
}

type kvReport struct {
	Policy        h2o.Spec `json:"policy"`
	BudgetSlots   int      `json:"budget_slots"` // per KV head, after eviction
	CapacitySlots int      `json:"capacity_slots"`
	BytesPlanned  int64    `json:"bytes_planned"` // K and V
	BytesHeld     int64    `json:"bytes_held"`
	BytesFull     int64    `json:"bytes_full"` // what full would hold for the same tokens
	Seen          int      `json:"seen"`       // tokens processed
	Kept          int      `json:"kept"`       // live slots of the fullest KV head
	Evicted       int      `json:"evicted"`    // over all layers and heads
}

type timing struct {
	LoadMS    float64 `json:"load_ms"` // opening, loading, compiling
	PromptMS  float64 `json:"prompt_ms"`
	PromptTPS float64 `json:"prompt_tps"`
	DecodeMS  float64 `json:"decode_ms"`
	DecodeTPS float64 `json:"decode_tps"`
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (t *timing) prompt(tokens int, d time.Duration) {
	t.PromptMS, t.PromptTPS = milliseconds(d), rate(tokens, d)
}

func (t *timing) decode(tokens int, d time.Duration) {
	t.DecodeMS, t.DecodeTPS = milliseconds(d), rate(tokens, d)
}

func rate(tokens int, d time.Duration) float64 {
	if tokens <= 0 || d <= 0 {
		return 0
	}
	return float64(tokens) / d.Seconds()
}

// finish reads what the run left on the device, writes the files asked for and prints the report.
func (r *runReport) finish(cmd *cobra.Command, s *model.Session, f *runFlags) error {
	plan := s.Plan()
	counts, err := s.Cache().Counts(0)
	if err != nil {
		return err
	}
	r.KV = kvReport{plan.Settings.Policy, plan.Budget, plan.Capacity, plan.Bytes, s.Held(), plan.Full, len(s.Tokens), counts.Kept, counts.Evicted}
	if r.KV.BytesHeld != r.KV.BytesPlanned {
		return fmt.Errorf("run: the cache holds %d bytes, %d were planned", r.KV.BytesHeld, r.KV.BytesPlanned)
	}
	logits, err := s.Logits()
	if err != nil {
		return err
	}
	r.LogitsHash = hashLogits(logits)
	if f.kvState != "" {
		if err := writeState(f.kvState, s); err != nil {
			return err
		}
	}
	if *f.json {
		return printJSON(cmd.OutOrStdout(), r)
	}
	return r.print(cmd.ErrOrStderr())
}

func hashLogits(logits []float32) string {
	b := make([]byte, 0, 4*len(logits))
	for _, v := range logits {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// writeState writes the live slots of every layer and head.
func writeState(path string, s *model.Session) error {
	state, err := s.Cache().State(0)
	if err != nil {
		return err
	}
	b, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o666)
}

// print writes the figures for a person.
func (r *runReport) print(w io.Writer) error {
	fmt.Fprintf(w, "prompt   %d tokens, %.1f tok/s\n", len(r.PromptTokens), r.Timing.PromptTPS)
	fmt.Fprintf(w, "decode   %d tokens, %.1f tok/s, stopped by %s", len(r.Tokens), r.Timing.DecodeTPS, r.StopReason)
	if r.Seed >= 0 {
		fmt.Fprintf(w, ", seed %d", r.Seed)
	}
	k := r.KV
	fmt.Fprintf(w, "\nkv       %s: %s of %s full (%.0f %%), %d slots per head kept of %d tokens seen, %d evictions\n",
		k.Policy, binarySize(k.BytesHeld), binarySize(k.BytesFull), 100*float64(k.BytesHeld)/float64(k.BytesFull), k.Kept, k.Seen, k.Evicted)
	_, err := fmt.Fprintf(w, "device   %s, loaded in %.1f s\n", r.Device, r.Timing.LoadMS/1000)
	return err
}

// printTimes writes what each kernel took in the last decode step.
func printTimes(w io.Writer, s *model.Session) error {
	times, err := s.Times()
	if err != nil {
		return err
	}
	slices.SortFunc(times, func(a, b runtime.KernelTime) int { return int(b.Time - a.Time) })
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "kernel\tdispatches\tms\t")
	for _, k := range times {
		fmt.Fprintf(t, "%s\t%d\t%.3f\t\n", k.Kernel, k.Dispatches, milliseconds(k.Time))
	}
	return t.Flush()
}
