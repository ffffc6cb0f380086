package h2o

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

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

// alike tells whether all layers have the same heads.
func (g Geometry) alike() bool {
	return !slices.ContainsFunc(g.Layers, func(l Heads) bool { return l != g.Layers[0] })
}

// TableBytes is the size of a slot's position and score.
const TableBytes = 8

// MaxChunk is the largest number of rows between two evictions: those of one step.
const MaxChunk = runtime.StepRows

// Span is a range of positions [Begin, End).
type Span struct {
	Begin int `json:"begin"`
	End   int `json:"end"`
}

// Settings are what a user chooses. In JSON they are what was given, so that a file can be opened with the same again.
type Settings struct {
	Policy      Spec            `json:"policy"`
	Prefill     Spec            `json:"prefill_policy"` // the policy of prompts; the zero Spec = Policy
	Prompt      string          `json:"prefill"`        // "bounded": a prompt is cut to the budget chunk by chunk; "exact": once, at its end; "auto" or "": the policy's own
	Budget      Budget          `json:"budget"`
	RecentRatio float64         `json:"recent_ratio"`     // share of the budget that is the protected recent window
	Sinks       int             `json:"sinks"`            // first positions never evicted; -1 = the policy's own default
	Pinned      []Span          `json:"pinned,omitempty"` // positions never evicted, at most two spans
	Layers      []LayerSettings `json:"layers,omitempty"` // what some layers have of their own
	Type        string          `json:"type"`             // of K and V, as ParseTypes reads it, or "auto", the policy's own
	Positions   string          `json:"positions"`        // "original", "cache" (renumbered inside it), or "auto", the policy's own
	Chunk       int             `json:"chunk"`            // most rows of a prompt between two evictions
}

// Plan is what settings come to for a model and a context.
type Plan struct {
	Settings
	Policy    *Policy     // who goes in decode
	Prefill   *Policy     // who goes in a prompt
	Types     Types       // of K and V
	Context   int         // tokens that a percentage is of
	Length    int         // tokens that will be processed, at most
	Chunk     int         // most rows of a prompt between two evictions
	Added     int         // most tokens added to a pool between two evictions
	Budget    int         // slots per KV head after eviction, the mean over layers
	Capacity  int         // slots per KV head allocated, the mean over layers
	Layers    []LayerPlan // by layer
	Recent    int         // last positions never evicted, of a layer with the mean budget
	Sinks     int         // first positions never evicted
	Staged    bool        // prompts are processed in a pool of their own, whose survivors are copied into the layer's
	Exact     bool        // prompts are processed layer by layer and cut to the budget once
	Work      int         // slots per KV head of that pool, one for all layers
	Renumber  bool        // positions are renumbered inside the cache
	Bytes     int64       // K and V of all layers and of the work pool
	WorkBytes int64       // those of the work pool
	Kept      int64       // K and V of what evictions leave
	Full      int64       // K and V of a cache that keeps the whole context
}

// LayerPlan is one layer of a Plan; slots are per KV head, the mean where heads differ.
type LayerPlan struct {
	Budget   int // slots after eviction
	Capacity int // slots allocated
	Most     int // live slots of one head, at most
	Recent   int // last positions never evicted in decode
	Prompt   int // the same in prompts
}

// NewPlan resolves settings for a run over length tokens, of which the first prompt arrive in chunks. A percentage is of
// context tokens, 0 = length. A policy that evicts may run past the context, full may not. A budget in bytes is the largest
// number of slots that it holds.
func NewPlan(s Settings, g Geometry, context, length, prompt int) (*Plan, error) {
	if context == 0 {
		context = length
	}
	p := &Plan{Settings: s, Context: context, Length: length, Chunk: max(1, min(s.Chunk, prompt)), Sinks: s.Sinks}
	if err := p.policies(); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	if !p.Policy.Evicts {
		return p.with(g, context, prompt)
	}
	if !s.Budget.InBytes() {
		slots, err := s.Budget.Slots(context)
		if err != nil {
			return nil, err
		}
		return p.with(g, slots, prompt)
	}
	fits := p.most(g, prompt)
	if fits == 0 {
		q, err := p.with(g, 1, prompt)
		if err == nil {
			err = fmt.Errorf("h2o: budget %s: one slot of every layer and KV head and the %d that a prompt adds take %d bytes; raise it or lower --chunk", s.Budget, max(q.Added, q.Work-1), q.Bytes)
		}
		return nil, err
	}
	return p.with(g, fits, prompt)
}

// most is the largest number of slots that a budget in bytes holds, 0 = none. What a plan takes grows with them, but for two
// steps down: a pyramid becomes flat, and a cache that keeps every token has no pool for prompts.
func (p *Plan) most(g Geometry, prompt int) int {
	flat := 1
	if p.Prefill.Share == Pyramid {
		held, _ := p.held() // with tells of errors
		flat = min(p.Prefill.Window+held+prompt/2+1, p.Length)
	}
	end := max(p.Context, p.Length)
	for _, begin := range []int{p.Length, flat, 1} {
		fits := sort.Search(end-begin+1, func(n int) bool {
			q, err := p.with(g, begin+n, prompt)
			return err == nil && !p.Settings.Budget.holds(q, g)
		})
		if fits > 0 {
			return begin + fits - 1
		}
		end = begin - 1
	}
	return 0
}

// with is the plan that keeps so many slots per KV head.
func (p Plan) with(g Geometry, budget, prompt int) (*Plan, error) {
	p.Budget = budget
	if p.Policy.Evicts {
		p.Staged = p.Evicts() && (p.Exact || p.Prefill.Observation.Window > 0 || p.Prefill.Rule != p.Policy.Rule)
		if p.Added = p.Policy.Every; p.Policy.Every == 0 {
			p.Added = 1 + p.Length - prompt
		}
		if !p.Staged {
			p.Added += p.Chunk - 1
		}
	}
	p.Exact, p.Renumber = p.Exact && p.Staged, p.Renumber && p.Evicts() // where all stay, places are positions
	if err := p.layers(g, prompt); err != nil {
		return nil, err
	}
	p.count(g, prompt)
	return &p, nil
}

// policies finds the policies and how they are to be run.
func (p *Plan) policies() (err error) {
	if p.Policy, err = Find(p.Settings.Policy); err != nil {
		return err
	}
	p.Prefill = p.Policy
	if p.Settings.Prefill.Name != "" {
		if p.Prefill, err = Find(p.Settings.Prefill); err != nil {
			return err
		}
		if p.Prefill.Evicts != p.Policy.Evicts {
			return fmt.Errorf("h2o: policy %s for prompts and %s for decoding: one keeps every token, the other does not; choose two that evict, or one", p.Prefill.Name, p.Policy.Name)
		}
	}
	if p.Sinks < 0 {
		p.Sinks = max(p.Policy.Sinks, p.Prefill.Sinks)
	}
	if p.Type == "" || p.Type == "auto" {
		p.Type = cmp.Or(p.Policy.Type, "f16")
	}
	if p.Types, err = ParseTypes(p.Type); err != nil {
		return err
	}
	switch p.Prompt {
	case "", "auto":
		p.Exact = p.Prefill.Observation.Window > 0
	case "exact":
		p.Exact = true
	case "bounded":
	default:
		return fmt.Errorf("h2o: prefill %q, want bounded, exact or auto", p.Prompt)
	}
	switch p.Positions {
	case "", "auto":
		p.Renumber = p.Policy.Renumbers
	case "cache":
		p.Renumber = true
	case "original":
	default:
		return fmt.Errorf("h2o: positions %q, want original, cache or auto", p.Positions)
	}
	if p.Policy.Layer && !p.Prefill.alike() {
		return fmt.Errorf("h2o: policy %s keeps the same tokens in all heads of a layer, and %s would leave different ones in each; choose another for prompts", p.Policy.Name, p.Prefill.Name)
	}
	return nil
}

// check refuses what cannot be meant.
func (p *Plan) check() error {
	switch {
	case p.Context < 1 || p.Length < 1:
		return fmt.Errorf("h2o: context of %d tokens, want at least 1", min(p.Context, p.Length))
	case !p.Policy.Evicts && p.Length > p.Context:
		return fmt.Errorf("h2o: policy %s keeps every token, and %d prompt and new tokens are more than the context of %d; raise --ctx, lower -n or choose a policy that evicts", p.Policy.Name, p.Length, p.Context)
	case p.Settings.Chunk < 1 || p.Settings.Chunk > MaxChunk:
		return fmt.Errorf("h2o: chunk of %d rows, want 1 to %d", p.Settings.Chunk, MaxChunk)
	case p.Prefill.Share != Uniform && p.shifted():
		return fmt.Errorf("h2o: policy %s shares the budget by itself, and layers have budgets of their own; give one of them", p.Prefill.Name)
	case !(p.RecentRatio >= 0 && p.RecentRatio <= 1):
		return fmt.Errorf("h2o: recent ratio %g, want 0 to 1", p.RecentRatio)
	}
	return checkLayers(p.Settings.Layers)
}

// Stepwise tells whether a text goes through the cache token by token, like a decode, which cuts it back, too.
func (p *Plan) Stepwise() bool {
	return p.Chunk == 1 && !p.Staged && (p.Policy.Every > 0 || !p.Evicts())
}

// Evicts tells whether the run can evict anything: otherwise it is the same as one with the policy full.
func (p *Plan) Evicts() bool {
	return p.Policy.Evicts && (p.Budget < p.Length || p.shifted())
}

// layers gives every layer its budget and what it protects.
func (p *Plan) layers(g Geometry, prompt int) error {
	n := len(g.Layers)
	p.Layers = make([]LayerPlan, n)
	held, err := p.held()
	if err != nil {
		return err
	}
	for _, own := range p.Settings.Layers {
		if own.Last >= n {
			return fmt.Errorf("h2o: layers %q: the model has layers 0 to %d", own, n-1)
		}
	}
	budgets := make([]int, n)
	for i := range budgets {
		budgets[i] = p.Budget
	}
	if p.Staged && p.Prefill.Share == Pyramid {
		budgets = p.Prefill.pyramid(n, p.Budget, p.Prefill.Window+held, prompt)
	}
	for i := range p.Layers {
		l := &p.Layers[i]
		budget, ratio, err := p.own(i, budgets[i])
		if err != nil {
			return err
		}
		*l = LayerPlan{Budget: budget, Recent: p.recent(p.Policy, budget, ratio), Prompt: p.recentOfPrompt(budget, ratio)}
		if l.Recent, l.Prompt, err = p.protect(l, held); err != nil {
			return err
		}
		if p.Staged && p.Prefill.Share == PerHead {
			l.Recent = min(l.Recent, p.Prefill.leastShare(l.Budget, p.Prefill.Window+held)-held)
		}
		l.Capacity = min(l.Budget+p.Added, max(p.Context, p.Length))
		if l.Most = l.Capacity; p.Staged && p.Prefill.Share == PerHead {
			l.Capacity = l.Budget + p.Added // each head has room for all that may be added: shaders/share.comp
			l.Most = min(l.Budget*g.Layers[i].KV+p.Added, p.Length)
		}
	}
	if p.Evicts() {
		p.Recent = min(p.recent(p.Policy, p.Budget, p.RecentRatio), p.Budget-held)
	}
	return nil
}

// OneTurn tells whether only one prompt can be processed: its policy keeps the same tokens in all heads of a layer, that of
// decoding does not.
func (p *Plan) OneTurn() bool { return p.Staged && p.Prefill.Layer && !p.Policy.alike() }

// recent is the window that a policy protects of a budget.
func (p *Plan) recent(policy *Policy, budget int, ratio float64) (n int) {
	if policy.Rule.Recent {
		n = int(float64(budget) * ratio)
	}
	return max(n, policy.Last)
}

// recentOfPrompt is the same while a prompt is processed: where its last queries judge the rest, they alone are protected.
func (p *Plan) recentOfPrompt(budget int, ratio float64) int {
	if p.Prefill.Observation.Window > 0 {
		return p.Prefill.Last
	}
	return p.recent(p.Prefill, budget, ratio)
}

// held counts the positions that are never evicted: sinks and pinned spans.
func (p *Plan) held() (held int, err error) {
	if !p.Evicts() {
		return 0, nil
	}
	if len(p.Pinned) > 2 {
		return 0, fmt.Errorf("h2o: %d pinned spans, 2 at most", len(p.Pinned))
	}
	spans := append([]Span{{0, p.Sinks}}, p.Pinned...)
	slices.SortFunc(spans, func(a, b Span) int { return a.Begin - b.Begin })
	end := 0
	for _, s := range spans {
		if s.Begin < 0 || s.End < s.Begin {
			return 0, fmt.Errorf("h2o: pinned span of positions %d to %d", s.Begin, s.End)
		}
		held += max(0, s.End-max(s.Begin, end))
		end = max(end, s.End)
	}
	return held, nil
}

// protect checks that what is never evicted leaves room and sets the recent window, which gives way to it, but for an
// observation window.
func (p *Plan) protect(l *LayerPlan, held int) (recent, prompt int, err error) {
	switch {
	case !p.Evicts():
		return 0, 0, nil
	case p.Sinks > l.Budget:
		err = fmt.Errorf("h2o: budget of %d slots per KV head is less than the %d sinks; raise --budget or lower --sinks", l.Budget, p.Sinks)
	case held > l.Budget:
		err = fmt.Errorf("h2o: budget of %d slots per KV head is less than the %d sinks and pinned tokens; raise --budget or pin less", l.Budget, held)
	case p.Prefill.Window+held > l.Budget:
		err = fmt.Errorf("h2o: budget of %d slots per KV head is less than the observation window of %d and %d sinks and pinned tokens; raise --budget or try %s:window=%d",
			l.Budget, p.Prefill.Window, held, p.Prefill.Name, max(1, (l.Budget-held)/2))
	}
	return min(l.Recent, l.Budget-held), min(l.Prompt, l.Budget-held), err
}

// count sums up what the layers take.
func (p *Plan) count(g Geometry, prompt int) {
	budgets, capacities, most := 0, 0, 0
	for i, l := range p.Layers {
		budgets += l.Budget
		p.Kept += g.layerBytes(p.Types, g.Layers[i].KV*l.Budget)
		most = max(most, l.Most)
		capacities += l.Capacity
		p.Bytes += g.layerBytes(p.Types, g.Layers[i].KV*l.Capacity)
	}
	p.Budget, p.Capacity = ceil(budgets, len(p.Layers)), ceil(capacities, len(p.Layers))
	if p.Staged {
		if p.Work = most + p.Chunk; p.Exact {
			p.Work = most + prompt
		}
		p.Work = min(p.Work, p.Length)
		p.WorkBytes = g.layerBytes(p.Types, g.mostKV()*p.Work)
		p.Bytes += p.WorkBytes
	}
	p.Full = g.Bytes(p.Types, max(p.Context, p.Length))
}
