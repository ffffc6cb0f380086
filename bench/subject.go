package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/runtime"
)

// subject is one thing that is measured: a prompt, or decoding, under a setting at a depth.
type subject struct {
	kv      h2o.Settings
	depth   int // tokens in the cache before
	rows    int // of a step; 0 = a prompt, whose steps are its chunks
	tokens  int // processed in a measurement
	context int // tokens that a budget in percent is of

	session *model.Session
	samples []sample
	live    []float64 // slots by layer, the mean over a measurement
	kernels []Kernel  // of a step, nil where the device has no timestamps
	held    int64     // bytes of K and V
	of      *h2o.Plan
}

// sample is one measurement.
type sample struct {
	took   time.Duration
	joules float64 // NaN where the platform does not tell
}

const (
	warmTokens = 4    // of decoding, to warm up
	seed       = 2306 // of made-up tokens and of caches that are filled
)

// options are what the subject's session is opened with.
func (s *subject) options() model.SessionOptions {
	o := model.SessionOptions{KV: s.kv, Length: s.depth + max(s.tokens, warmTokens+1), Context: s.context, Prompt: max(s.tokens, 1)}
	switch {
	case s.rows > 1:
		o.KV.Chunk, o.Prompt = s.rows, s.rows
		if o.KV.Prompt == "" || o.KV.Prompt == "auto" {
			o.KV.Prompt = "bounded" // a chunk of a prompt is one step only where it goes through all layers at once
		}
	case s.rows == 1:
		o.Prompt = min(s.kv.Chunk, max(s.depth, 1)) // what a run with such a prompt holds
	}
	if policy, err := h2o.Find(s.kv.Policy); err == nil && !policy.Evicts {
		o.Context = 0 // as long as all that is processed
	}
	return o
}

// plan is what the subject's cache comes to.
func (s *subject) plan(g h2o.Geometry) (*h2o.Plan, error) {
	o := s.options()
	p, err := h2o.NewPlan(o.KV, g, o.Context, o.Length, o.Prompt)
	switch {
	case err != nil:
		return nil, fmt.Errorf("bench: depth %d: %w", s.depth, err)
	case s.rows > 1 && p.Exact:
		return nil, fmt.Errorf("bench: --rows %d: --prefill exact takes a prompt layer by layer, and rows are measured as a chunk of one; give --prefill bounded", s.rows)
	case s.rows != 1 && s.depth > 0 && p.OneTurn():
		return nil, fmt.Errorf("bench: depth %d: policy %s cannot follow on what %s has left; give --depth 0, or --prompt 0 and --rows 1", s.depth, p.Prefill.Name, p.Policy.Name)
	}
	return p, nil
}

func (s *subject) open(ctx context.Context, m *model.Model) (err error) {
	if s.session, err = m.NewSession(ctx, s.options()); err != nil {
		return err
	}
	s.of, s.held = s.session.Plan(), s.session.Memory().Bytes("kv.")
	// The first replays are slower: caches are cold, and clocks low.
	if err := s.session.Fill(s.depth, seed); err != nil {
		return err
	}
	_, err = s.process(ctx, m, s.warm())
	return err
}

// warm is how many tokens are processed before the first measurement of a session.
func (s *subject) warm() int {
	switch s.rows {
	case 0:
		return min(s.tokens, s.kv.Chunk)
	case 1:
		return min(s.tokens, warmTokens)
	}
	return s.rows
}

// measure adds a sample.
func (s *subject) measure(ctx context.Context, b *Bench) error {
	if err := s.session.Fill(s.depth, seed); err != nil {
		return err
	}
	before, err := s.session.Cache().Live(0)
	if err != nil {
		return err
	}
	b.Meter.Start()
	took, err := s.process(ctx, b.Model, s.tokens)
	joules := b.Meter.Stop()
	if err == nil {
		err = ctx.Err() // what was cut short counts for nothing
	}
	if err != nil {
		return err
	}
	after, err := s.session.Cache().Live(0)
	if err != nil {
		return err
	}
	s.live = make([]float64, len(after))
	for i := range after {
		s.live[i] = float64(before[i]+after[i]) / 2
	}
	s.samples = append(s.samples, sample{took, joules})
	return nil
}

// process brings tokens through the model and tells how long that took.
func (s *subject) process(ctx context.Context, m *model.Model, tokens int) (took time.Duration, err error) {
	ids := made(tokens, m.Vocab)
	begin := time.Now()
	switch {
	case s.rows == 0:
		err = s.session.Prompt(ctx, ids, model.Observer{}, nil)
	case s.rows == 1:
		err = s.decode(ctx, m, tokens)
	default:
		for ; len(ids) > 0 && err == nil && ctx.Err() == nil; ids = ids[s.rows:] {
			err = s.session.Rows(ids[:s.rows])
		}
	}
	return time.Since(begin), err
}

// decode processes so many tokens one by one, beginning with any: an empty or filled session has no logits to go on from.
func (s *subject) decode(ctx context.Context, m *model.Model, tokens int) error {
	s.session.Pending = made(1, m.Vocab)[0]
	_, err := s.session.Generate(ctx, model.Generation{Tokens: tokens, Continue: true, Emit: func(int32) error { return nil }})
	return err
}

// made are token ids, the same in every run. Speed does not depend on what they say.
func made(n, vocab int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(uint64(i+1) * 2654435761 % uint64(vocab)) // Knuth's multiplicative hash
	}
	return ids
}

const timedSteps = 8 // whose kernels are timed, at most

// time finds what each kernel takes in a step of decoding. Timestamps stand between dispatches, each of which waits for the
// one before, so such steps are a little slower than others and in a session of their own.
func (s *subject) time(ctx context.Context, b *Bench) (err error) {
	if s.rows == 0 || b.Engine.Device.Info.Limits.TimestampPeriod == 0 {
		return nil
	}
	const timestamps = 2 // runtime.Engine
	b.Engine.Debug = timestamps
	defer func() { b.Engine.Debug = 0 }()
	if err := s.open(ctx, b.Model); err != nil {
		return err
	}
	defer closeAll([]*subject{s})
	if err := s.session.Fill(s.depth, seed); err != nil {
		return err
	}
	var steps [][]runtime.KernelTime
	for range min(timedSteps, s.tokens/s.rows) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		times := s.session.Times
		if s.rows > 1 {
			times = s.session.RowTimes
			err = s.session.Rows(made(s.rows, b.Model.Vocab))
		} else {
			err = s.decode(ctx, b.Model, 1)
		}
		if err != nil {
			return err
		}
		step, err := times()
		if err != nil {
			return err
		}
		steps = append(steps, step)
	}
	s.kernels = mediansOf(steps)
	return nil
}

// mediansOf takes the middle of each kernel's times.
func mediansOf(steps [][]runtime.KernelTime) (all []Kernel) {
	if len(steps) == 0 {
		return nil
	}
	for i, k := range steps[0] {
		times := make([]float64, len(steps))
		for n := range steps {
			times[n] = steps[n][i].Time.Seconds() * 1e3
		}
		all = append(all, Kernel{k.Kernel, spreadOf(times).Median, k.Dispatches})
	}
	slices.SortStableFunc(all, func(a, b Kernel) int { return int(math.Copysign(1, b.MS-a.MS)) })
	return all
}
