package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/runtime"
)

// runReport is what `run --json` prints.
type runReport struct {
	Model         string           `json:"model"`
	Device        string           `json:"device"`
	Driver        string           `json:"driver"`
	SessionTokens int              `json:"session_tokens,omitempty"` // of the session that was loaded
	PromptTokens  []int32          `json:"prompt_tokens"`
	Tokens        []int32          `json:"tokens"`
	Text          string           `json:"text"`
	StopReason    model.StopReason `json:"stop_reason"`
	Seed          int64            `json:"seed"` // noSeed when nothing was drawn
	KV            kvReport         `json:"kv"`
	Stats         *runStats        `json:"stats,omitempty"` // with --stats
	Timing        timing           `json:"timing"`
	LogitsHash    string           `json:"logits_hash"` // SHA-256 of the last row's logits, f32 little-endian; empty if the prompt was cut short

	OwnLayers int   `json:"gpu_layers"` // whose weights lie in the device's own memory
	HostBytes int64 `json:"host_bytes"` // of weights that the device reads from the host's

	plan *h2o.Plan
}

// noSeed is the seed of a run that drew nothing.
const noSeed = -1

type kvReport struct {
	Policy        h2o.Spec   `json:"policy"`
	Type          string     `json:"type"`         // of K and V
	BudgetSlots   int        `json:"budget_slots"` // per KV head, after eviction
	CapacitySlots int        `json:"capacity_slots"`
	BytesPlanned  int64      `json:"bytes_planned"` // K and V
	BytesHeld     int64      `json:"bytes_held"`
	BytesFull     int64      `json:"bytes_full"`       // what full would hold for the same tokens
	Seen          int        `json:"seen"`             // tokens processed
	Kept          int        `json:"kept"`             // live slots of the fullest KV head
	Evicted       int        `json:"evicted"`          // over all layers and heads
	Pinned        []h2o.Span `json:"pinned,omitempty"` // positions that are never evicted
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

// read takes from the session what the run left there. stats may be nil.
func (r *runReport) read(s *model.Session, stats *statsCollector) error {
	counts, err := s.Cache().Counts(0)
	if err != nil {
		return err
	}
	p := r.plan
	r.KV = kvReport{p.Settings.Policy, p.Type, p.Budget, p.Capacity, p.Bytes, s.Held(), p.Full, len(s.Tokens), counts.Kept, counts.Evicted, p.Pinned}
	if r.KV.BytesHeld != r.KV.BytesPlanned {
		return fmt.Errorf("run: the cache holds %d bytes, %d were planned", r.KV.BytesHeld, r.KV.BytesPlanned)
	}
	if stats != nil {
		if r.Stats, err = stats.report(s); err != nil {
			return err
		}
	}
	if len(s.Tokens) < r.SessionTokens+len(r.PromptTokens) {
		return nil // no logits were wanted yet
	}
	logits, err := s.Logits()
	if err != nil {
		return err
	}
	r.LogitsHash = hashLogits(logits)
	return nil
}

func hashLogits(logits []float32) string {
	b := make([]byte, 0, 4*len(logits))
	for _, v := range logits {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// write prints the report: JSON for a program on standard output, figures for a person on standard error.
func (r *runReport) write(cmd *cobra.Command, asJSON bool) error {
	if asJSON {
		return printJSON(cmd.OutOrStdout(), r)
	}
	return r.print(cmd.ErrOrStderr())
}

// stops is how a run ended, in words.
var stops = map[model.StopReason]string{
	model.StopLength:    "as many as asked for",
	model.StopEnd:       "ended by the model",
	model.StopCancelled: "interrupted",
}

func (r *runReport) print(w io.Writer) error {
	t, p, k := r.Timing, r.plan, r.KV
	prompted := min(k.Seen-r.SessionTokens, len(r.PromptTokens))
	fmt.Fprintln(w)
	if r.SessionTokens > 0 {
		fmt.Fprintf(w, "session  %d tokens\n", r.SessionTokens)
	}
	if len(r.PromptTokens) > 0 {
		fmt.Fprintf(w, "prompt   %d tokens in %s, %.1f tok/s", prompted, seconds(t.PromptMS), t.PromptTPS)
		if prompted < len(r.PromptTokens) {
			fmt.Fprintf(w, ", interrupted before %d more", len(r.PromptTokens)-prompted)
		}
		fmt.Fprintln(w)
	}
	if len(r.Tokens) > 0 {
		fmt.Fprintf(w, "decode   %d tokens in %s, %.1f tok/s, %s", len(r.Tokens), seconds(t.DecodeMS), t.DecodeTPS, stops[r.StopReason])
		if r.Seed != noSeed {
			fmt.Fprintf(w, ", seed %d", r.Seed)
		}
		fmt.Fprintln(w)
	}
	if p.Evicts() {
		fmt.Fprintf(w, "kv       %s, budget %s: %d slots per head for a context of %d tokens, %d with a chunk\n", k.Policy, p.Settings.Budget, k.BudgetSlots, p.Context, k.CapacitySlots)
	} else {
		fmt.Fprintf(w, "kv       %s: every token keeps its slot, %d per head for a context of %d tokens\n", k.Policy, k.CapacitySlots, p.Context)
	}
	for _, span := range k.Pinned {
		fmt.Fprintf(w, "pinned   positions %d to %d\n", span.Begin, span.End-1)
	}
	fmt.Fprintf(w, "memory   %s of K and V, %.1f%% of the %s of a full cache\n", binarySize(k.BytesHeld), 100*float64(k.BytesHeld)/float64(k.BytesFull), binarySize(k.BytesFull))
	fmt.Fprintf(w, "evicted  %d over all layers and heads; %d slots per head live after %d tokens\n", k.Evicted, k.Kept, k.Seen)
	if _, err := fmt.Fprintf(w, "device   %s, loaded in %s\n", r.Device, seconds(t.LoadMS)); err != nil || r.Stats == nil {
		return err
	}
	return r.Stats.print(w)
}

func seconds(milliseconds float64) string {
	if milliseconds < 1000 {
		return fmt.Sprintf("%.3g ms", milliseconds)
	}
	return fmt.Sprintf("%.2f s", milliseconds/1000)
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
