package h2o

import (
	"fmt"
	"slices"

	"vkdecode/runtime"
)

// Heads are one layer's attention heads.
type Heads struct{ Query, KV int }

// Geometry is the shape of the cache that a model asks for.
type Geometry struct {
	Layers  []Heads
	HeadDim int // dimensions of a head in K and V
}

// KVHeads counts the KV heads of all layers.
func (g Geometry) KVHeads() (n int) {
	for _, l := range g.Layers {
		n += l.KV
	}
	return n
}

// TableBytes is the size of a slot's position and score.
const TableBytes = 8

// MaxChunk is the largest number of rows between two evictions: those of one step.
const MaxChunk = runtime.StepRows

// Span is a range of positions [Begin, End).
type Span struct{ Begin, End int }

// Settings are what a user chooses.
type Settings struct {
	Policy      Spec
	Budget      Budget
	RecentRatio float64 // share of the budget that is the protected recent window
	Sinks       int     // first positions never evicted; -1 = the policy's own default
	Pinned      []Span  // positions never evicted, at most two spans
	Type        string  // of K and V, as ParseTypes reads it
	Positions   string  // "auto" or "original"
	Chunk       int     // most rows of a prompt between two evictions
}

// Plan is what settings come to for a model and a context.
type Plan struct {
	Settings
	Policy   *Policy
	Types    Types // of K and V
	Context  int   // tokens that a percentage is of
	Length   int   // tokens that will be processed, at most
	Chunk    int   // most rows of a prompt between two evictions
	Added    int   // most tokens added between two evictions: a chunk behind decode steps that have not evicted yet
	Budget   int   // slots per KV head after eviction
	Capacity int   // slots per KV head allocated: min(Budget + Added, Context)
	Recent   int   // last positions never evicted
	Sinks    int   // first positions never evicted
	Bytes    int64 // K and V of all layers
	Full     int64 // the same for a cache that keeps the whole context
}

// NewPlan resolves settings for a run over length tokens, of which the first prompt arrive in chunks. A percentage is of
// context tokens, 0 = length. A policy that evicts may run past the context, full may not.
func NewPlan(s Settings, g Geometry, context, length, prompt int) (*Plan, error) {
	policy, err := Find(s.Policy)
	if err != nil {
		return nil, err
	}
	if context == 0 {
		context = length
	}
	if context < 1 || length < 1 {
		return nil, fmt.Errorf("h2o: context of %d tokens, want at least 1", min(context, length))
	}
	if !policy.Evicts && length > context {
		return nil, fmt.Errorf("h2o: policy %s keeps every token, and %d prompt and new tokens are more than the context of %d; raise --ctx, lower -n or choose a policy that evicts", policy.Name, length, context)
	}
	types, err := ParseTypes(s.Type)
	if err != nil {
		return nil, err
	}
	if s.Positions != "auto" && s.Positions != "original" {
		return nil, fmt.Errorf("h2o: positions %q, want original: keys keep the rotation of their true position", s.Positions)
	}
	if s.Chunk < 1 || s.Chunk > MaxChunk {
		return nil, fmt.Errorf("h2o: chunk of %d rows, want 1 to %d", s.Chunk, MaxChunk)
	}
	if !(s.RecentRatio >= 0 && s.RecentRatio <= 1) {
		return nil, fmt.Errorf("h2o: recent ratio %g, want 0 to 1", s.RecentRatio)
	}
	p := &Plan{Settings: s, Policy: policy, Types: types, Context: context, Length: length, Chunk: max(1, min(s.Chunk, prompt)), Sinks: s.Sinks}
	perSlot := int64(g.KVHeads()) * g.SlotBytes(types)
	p.Budget, p.Capacity = context, context
	if policy.Evicts {
		if p.Added = p.Chunk + policy.Every - 1; policy.Every == 0 {
			p.Added = p.Chunk + length - prompt
		}
		if p.Budget, p.Capacity, err = s.Budget.Without(int64(len(g.Layers))*types.Waste()).Fit(context, p.Added, perSlot); err != nil {
			return nil, err
		}
		if p.Capacity == context && length > context { // the budget leaves less than what is added below the context
			p.Capacity = min(p.Budget+p.Added, length)
		}
	}
	p.Bytes, p.Full = g.Bytes(types, p.Capacity), g.Bytes(types, max(context, length))
	if p.Sinks < 0 {
		p.Sinks = policy.Sinks
	}
	return p, p.protect()
}

// Evicts tells whether the run can evict anything: otherwise it is the same as one with the policy full.
func (p *Plan) Evicts() bool { return p.Policy.Evicts && p.Budget < p.Length }

// protect checks that what is never evicted leaves room and sets the recent window, which gives way to it.
func (p *Plan) protect() error {
	if !p.Evicts() {
		return nil
	}
	if len(p.Pinned) > 2 {
		return fmt.Errorf("h2o: %d pinned spans, 2 at most", len(p.Pinned))
	}
	spans := append([]Span{{0, p.Sinks}}, p.Pinned...)
	slices.SortFunc(spans, func(a, b Span) int { return a.Begin - b.Begin })
	held, end := 0, 0
	for _, s := range spans {
		if s.Begin < 0 || s.End < s.Begin {
			return fmt.Errorf("h2o: pinned span of positions %d to %d", s.Begin, s.End)
		}
		held += max(0, s.End-max(s.Begin, end))
		end = max(end, s.End)
	}
	switch {
	case p.Sinks > p.Budget:
		return fmt.Errorf("h2o: budget of %d slots per KV head is less than the %d sinks; raise --budget or lower --sinks", p.Budget, p.Sinks)
	case held > p.Budget:
		return fmt.Errorf("h2o: budget of %d slots per KV head is less than the %d sinks and pinned tokens; raise --budget or pin less", p.Budget, held)
	}
	if p.Policy.Window {
		p.Recent = int(float64(p.Budget) * p.RecentRatio)
	}
	p.Recent = min(max(p.Recent, p.Policy.Last), p.Budget-held)
	return nil
}
