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
	depth   int // tokens in each cache before
	rows    int // of a step, each of a sequence of its own; 0 = a prompt, whose steps are its chunks
	tokens  int // of each sequence processed in a measurement
	context int // tokens that a budget in percent is of

	sessions []*model.Session // one for each sequence, none while they are closed
	batch    *model.Batch     // of several
	samples  []sample
	live     []float64 // slots by layer, of all sequences, the mean over a measurement
	kernels  []Kernel  // of a step, nil where the device has no timestamps
	held     int64     // bytes of K and V, of all sequences
	of       *h2o.Plan
}

// sequences is how many there are.
func (s *subject) sequences() int { return max(s.rows, 1) }

// sample is one measurement.
type sample struct {
	took   time.Duration
	joules float64 // NaN where the platform does not tell
}

const (
	warmTokens = 4    // of decoding, to warm up
	seed       = 2306 // of made-up tokens and of caches that are filled
)

// options are what the subject's sessions are opened with.
func (s *subject) options() model.SessionOptions {
	o := model.SessionOptions{KV: s.kv, Length: s.depth + max(s.tokens, warmTokens+1), Context: s.context, Prompt: max(s.tokens, 1)}
	if s.rows > 0 {
		o.Prompt = min(s.kv.Chunk, max(s.depth, 1)) // what a run with such a prompt holds
	}
	if policy, err := h2o.Find(s.kv.Policy); err == nil && !policy.Evicts {
		o.Context = 0 // as long as all that is processed
	}
	return o
}

// plan is what the subject's caches come to, each of them.
func (s *subject) plan(g h2o.Geometry) (*h2o.Plan, error) {
	o := s.options()
	p, err := h2o.NewPlan(o.KV, g, o.Context, o.Length, o.Prompt)
	switch {
	case err != nil:
		return nil, fmt.Errorf("bench: depth %d: %w", s.depth, err)
	case s.rows == 0 && s.depth > 0 && p.OneTurn():
		return nil, fmt.Errorf("bench: depth %d: policy %s cannot follow on what %s has left; give --depth 0, or --prompt 0", s.depth, p.Prefill.Name, p.Policy.Name)
	}
	return p, nil
}

func (s *subject) open(ctx context.Context, m *model.Model) (err error) {
	s.held = 0
	for range s.sequences() {
		session, err := m.NewSession(ctx, s.options())
		if err != nil {
			return err
		}
		s.sessions = append(s.sessions, session)
		s.held += session.Memory().Bytes("kv.")
	}
	s.of = s.sessions[0].Plan()
	if s.rows > 1 {
		if s.batch, err = m.NewBatch(ctx, s.sessions); err != nil {
			return err
		}
	}
	// The first replays are slower: caches are cold, and clocks low.
	if err := s.fill(); err != nil {
		return err
	}
	_, err = s.process(ctx, m, s.warm())
	return err
}

// close closes what is open and tells whether anything was.
func (s *subject) close() bool {
	open := len(s.sessions) > 0
	if s.batch != nil {
		s.batch.Close()
	}
	for _, o := range s.sessions {
		o.Close()
	}
	s.batch, s.sessions = nil, nil
	return open
}

// fill brings every sequence to the depth.
func (s *subject) fill() error {
	for i, o := range s.sessions {
		if err := o.Fill(s.depth, seed+uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

// count adds half of the live slots of every layer, of all sequences.
func (s *subject) count() error {
	for _, o := range s.sessions {
		slots, err := o.Cache().Live(0)
		if err != nil {
			return err
		}
		for layer, n := range slots {
			s.live[layer] += float64(n) / 2
		}
	}
	return nil
}

// warm is how many tokens of each sequence are processed before the first measurement.
func (s *subject) warm() int {
	if s.rows == 0 {
		return min(s.tokens, s.kv.Chunk)
	}
	return min(s.tokens, warmTokens)
}

// measure adds a sample.
func (s *subject) measure(ctx context.Context, b *Bench) error {
	if err := s.fill(); err != nil {
		return err
	}
	s.live = make([]float64, len(b.Model.Layers)) // the mean of before and after
	if err := s.count(); err != nil {
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
	s.samples = append(s.samples, sample{took, joules})
	return s.count()
}

// process brings so many tokens of every sequence through the model and tells how long that took.
func (s *subject) process(ctx context.Context, m *model.Model, tokens int) (took time.Duration, err error) {
	ids := made(tokens, m.Vocab)
	begin := time.Now()
	if s.rows == 0 {
		err = s.sessions[0].Prompt(ctx, ids, model.Observer{}, nil)
	} else {
		err = s.decode(ctx, m, tokens)
	}
	return time.Since(begin), err
}

// decode processes so many tokens of every sequence one by one, beginning with any: an empty or filled session has no logits
// to go on from.
func (s *subject) decode(ctx context.Context, m *model.Model, tokens int) (err error) {
	for i, id := range made(len(s.sessions), m.Vocab) {
		s.sessions[i].Pending = id
	}
	if s.batch != nil {
		_, err = s.batch.Decode(ctx, tokens, runtime.Sampling{})
		return err
	}
	_, err = s.sessions[0].Generate(ctx, model.Generation{Tokens: tokens, Continue: true, Emit: func(int32) error { return nil }})
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
// one before, so such steps are a little slower than others and in sessions of their own.
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
	defer s.close()
	if err := s.fill(); err != nil {
		return err
	}
	times := s.sessions[0].Times
	if s.batch != nil {
		times = s.batch.Times
	}
	var steps [][]runtime.KernelTime
	for range min(timedSteps, s.tokens) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.decode(ctx, b.Model, 1); err != nil {
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
