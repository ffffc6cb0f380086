package bench

import (
	"math"
	"slices"

	"vkdecode/model"
)

// Result is what a setting at a depth came to. What was not measured, or what the device or the platform does not tell, is
// null. Rates are medians; low and high are the slowest and the quickest measurement.
type Result struct {
	Kind        string `json:"kind"` // "bench"
	Model       string `json:"model"`
	Device      string `json:"device"`
	Driver      string `json:"driver"`
	KV          string `json:"kv"`           // policy, as given
	Budget      string `json:"budget"`       // as given
	BudgetSlots int    `json:"budget_slots"` // per KV head after eviction, while decoding
	KVType      string `json:"kv_type"`
	Precision   string `json:"precision"` // that prompts are multiplied in
	Chunk       int    `json:"chunk"`     // as given
	Depth       int    `json:"depth"`     // tokens in the cache before
	Rows        int    `json:"rows"`      // in a step of decoding: sequences beside each other
	Prompt      int    `json:"prompt"`
	Tokens      int    `json:"tokens"`  // of each sequence decoded in a measurement
	Repeats     int    `json:"repeats"` // measurements of each figure

	PromptTPS    *float64 `json:"prompt_tps"`
	PromptLow    *float64 `json:"prompt_tps_low"`
	PromptHigh   *float64 `json:"prompt_tps_high"`
	PromptGFLOPS *float64 `json:"prompt_gflops"` // of the matrix products
	DecodeTPS    *float64 `json:"decode_tps"`
	DecodeLow    *float64 `json:"decode_tps_low"`
	DecodeHigh   *float64 `json:"decode_tps_high"`
	DecodeVsFull *float64 `json:"decode_vs_full"` // median of the ratios, round by round; null where full was not measured beside it
	PromptVsFull *float64 `json:"prompt_vs_full"`

	StepMS         *float64 `json:"step_ms"`
	StepBytes      *int64   `json:"step_bytes"` // that a step has to read: every weight once, and K and V of the live slots
	GBPS           *float64 `json:"gbps"`       // StepBytes in StepMS
	GFLOPS         *float64 `json:"gflops"`     // matrix products and attention of a step, in StepMS
	ReadGBPS       float64  `json:"read_gbps"`  // of the device's memory, measured
	CopyGBPS       float64  `json:"copy_gbps"`  // bytes read and written
	BandwidthShare *float64 `json:"bandwidth_share"`
	ScoreShare     *float64 `json:"score_share"` // of the kernels' time, what scoring and eviction take
	Kernels        []Kernel `json:"kernels" csv:"-"`

	KVBytes        *int64   `json:"kv_bytes"`   // K and V of all sequences on the device while decoding
	LiveSlots      *float64 `json:"live_slots"` // per KV head, the mean over heads and steps
	JoulesPerToken *float64 `json:"joules_per_token"`
	Complete       bool     `json:"complete"` // false: interrupted, fewer repeats or nothing

	PromptRatio *float64 `json:"prompt_ratio,omitempty"` // to the older result that it is compared with
	DecodeRatio *float64 `json:"decode_ratio,omitempty"`
}

// Kernel is what the dispatches of one kernel take in a step.
type Kernel struct {
	Name       string  `json:"kernel"`
	MS         float64 `json:"ms"`
	Dispatches int     `json:"dispatches"`
}

// upkeep are the kernels that score tokens and evict them: what a policy costs in a step.
var upkeep = []string{"shares", "score", "evict", "rank", "compact", "enter", "gather", "observe", "window", "pool", "share", "choose"}

// emit puts the results of a depth together: one for each setting and number of rows.
func (b *Bench) emit(prompts, decodes []*subject) error {
	if len(decodes) == 0 {
		for _, s := range prompts {
			if len(s.samples) == 0 {
				continue
			}
			if err := b.Emit(b.result(s, nil, prompts, nil)); err != nil {
				return err
			}
		}
		return nil
	}
	for i, s := range decodes {
		var prompt *subject
		if n := i % len(b.Settings); n < len(prompts) {
			prompt = prompts[n]
		}
		if len(s.samples) == 0 && (prompt == nil || len(prompt.samples) == 0) {
			continue // interrupted before there was anything to tell
		}
		group := decodes[i-i%len(b.Settings):][:len(b.Settings)]
		if err := b.Emit(b.result(prompt, s, prompts, group)); err != nil {
			return err
		}
	}
	return nil
}

// result tells of a prompt and of decoding, either of which may be nil, beside the others of their groups.
func (b *Bench) result(prompt, decode *subject, prompts, decodes []*subject) Result {
	either := decode
	if either == nil {
		either = prompt
	}
	info := b.Engine.Device.Info
	r := Result{Kind: "bench", Model: b.Name, Device: info.Name, Driver: info.Driver, KV: either.kv.Policy.String(), Budget: either.kv.Budget.String(), Chunk: either.kv.Chunk,
		Depth: either.depth, Prompt: b.Prompt, Tokens: b.Tokens, Precision: b.Model.Precision, Repeats: b.Repeats, ReadGBPS: b.Bandwidth.Read, CopyGBPS: b.Bandwidth.Copy, Complete: true}
	if plan, err := either.plan(b.Model.Geometry()); err == nil {
		r.BudgetSlots, r.KVType = plan.Budget, plan.Type
	}
	work := b.Model.Work()
	if prompt != nil {
		r.Complete = len(prompt.samples) == b.Repeats
		if len(prompt.samples) > 0 {
			t := spreadOf(prompt.rates())
			r.PromptTPS, r.PromptLow, r.PromptHigh = &t.Median, &t.Low, &t.High
			flops := 2 * (float64(work.Weights-work.HeadWeights)*float64(prompt.tokens) + float64(work.HeadWeights))
			r.PromptGFLOPS = of(flops / float64(prompt.tokens) * t.Median / 1e9)
			r.PromptVsFull = prompt.vsFull(prompts)
		}
	}
	if decode != nil {
		r.Rows = decode.rows
		r.Complete = r.Complete && len(decode.samples) == b.Repeats
		if len(decode.samples) > 0 {
			b.decoded(&r, decode, work)
			r.DecodeVsFull = decode.vsFull(decodes)
		}
	}
	return r
}

// decoded fills in what was measured while decoding.
func (b *Bench) decoded(r *Result, s *subject, work model.Work) {
	t := spreadOf(s.rates())
	r.DecodeTPS, r.DecodeLow, r.DecodeHigh = &t.Median, &t.Low, &t.High
	step := float64(s.rows) / t.Median // seconds
	slots, attention, heads := 0.0, 0.0, 0
	g := b.Model.Geometry()
	for i, l := range g.Layers {
		slots += s.live[i]
		attention += s.live[i] * float64(l.Query/l.KV) * float64(4*g.HeadDim) // q k and p v, a product and a sum for each dimension
		heads += l.KV
	}
	bytes := work.WeightBytes + int64(slots*float64(g.SlotBytes(s.of.Types)))
	r.StepMS, r.StepBytes, r.GBPS = of(1e3*step), &bytes, of(float64(bytes)/step/1e9)
	r.GFLOPS = of((2*float64(work.Weights)*float64(s.rows) + attention) / step / 1e9)
	if best := max(b.Bandwidth.Read, b.Bandwidth.Copy); best > 0 {
		r.BandwidthShare = of(*r.GBPS / best)
	}
	r.KVBytes, r.LiveSlots, r.Kernels = &s.held, of(slots/float64(heads*s.rows)), s.kernels
	all, own := 0.0, 0.0
	for _, k := range s.kernels {
		all += k.MS
		if slices.Contains(upkeep, k.Name) {
			own += k.MS
		}
	}
	if all > 0 {
		r.ScoreShare = of(own / all)
	}
	joules := make([]float64, len(s.samples))
	for i, one := range s.samples {
		joules[i] = one.joules / float64(s.tokens*s.sequences())
	}
	if j := spreadOf(joules).Median; !math.IsNaN(j) {
		r.JoulesPerToken = &j
	}
}

// rates are the samples in tokens per second.
func (s *subject) rates() (rates []float64) {
	for _, one := range s.samples {
		rates = append(rates, float64(s.tokens*s.sequences())/one.took.Seconds())
	}
	return rates
}

// vsFull is how many times as fast as full a subject was in the same round, the median over rounds; nil if its group has no
// other setting that keeps every token.
func (s *subject) vsFull(group []*subject) *float64 {
	i := slices.IndexFunc(group, func(o *subject) bool { return o.kv.Policy.Name == "full" })
	if i < 0 {
		return nil
	}
	mine, full := s.rates(), group[i].rates()
	n := min(len(mine), len(full))
	if n == 0 {
		return nil
	}
	ratios := make([]float64, n)
	for k := range ratios {
		ratios[k] = mine[k] / full[k]
	}
	return of(spreadOf(ratios).Median)
}

func of(v float64) *float64 { return &v }

// spread is a figure that was measured several times.
type spread struct{ Median, Low, High float64 }

// spreadOf sorts out measurements; of an even number the median is the mean of the two in the middle.
func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	if n == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	return spread{(v[(n-1)/2] + v[n/2]) / 2, v[0], v[n-1]}
}
