package tests

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"vkdecode/h2o"
)

// program is a session and what is done in it, drawn at random.
type program struct {
	model string
	kv    h2o.Settings
	steps []operation
	waits bool // the run that it is compared with waits for every step, too
}

// operation is one of the things that can be done.
type operation struct {
	kind   operationKind
	tokens int
	seed   uint64 // of the tokens
}

type operationKind string

const (
	prompts  operationKind = "prompt"
	decodes  operationKind = "decode"
	samples  operationKind = "sample"
	takes    operationKind = "take"    // tokens that are given
	restores operationKind = "restore" // the session is saved, and restored in another one that has done something else
	tries    operationKind = "try"     // some tokens are decoded and taken back
	resets   operationKind = "reset"
)

var operationKinds = []operationKind{decodes, prompts, samples, takes, restores, tries, resets}

func (p program) String() string {
	k := p.kv
	text := fmt.Sprintf("%s, %s", p.model, k.Policy)
	if k.Prefill.Name != "" {
		text += fmt.Sprintf(", prompts %s", k.Prefill)
	}
	text += fmt.Sprintf(", prefill %s, budget %s, layers %q, recent %g, sinks %d, pinned %v, %s, positions %s, chunk %d:", k.Prompt, k.Budget, h2o.LayersText(k.Layers), k.RecentRatio, k.Sinks, k.Pinned, k.Type, k.Positions, k.Chunk)
	for _, o := range p.steps {
		text += " " + string(o.kind)
		if o.tokens > 0 {
			text += fmt.Sprintf(" %d", o.tokens)
		}
	}
	return text
}

// GoString is what the library prints of a program that it has drawn.
func (p program) GoString() string { return p.String() }

// ids are the tokens of an operation.
func (o operation) ids(vocab int) []int32 {
	r, ids := rand.New(rand.NewPCG(o.seed, 0)), make([]int32, o.tokens)
	for i := range ids {
		ids[i] = r.Int32N(int32(vocab))
	}
	return ids
}

// lengths are what its session is opened for: the most tokens between two resets, and those of the longest prompt. Beside
// that prompt there is room for what is decoded before another one.
func (p program) lengths() (length, longest int) {
	seen, decoded, most := 0, 0, 0
	for _, o := range p.steps {
		switch seen, decoded = seen+o.tokens, decoded+o.tokens; o.kind {
		case resets:
			seen, decoded = 0, 0
		case prompts:
			longest, decoded = max(longest, o.tokens), 0
		}
		length, most = max(length, seen), max(most, decoded)
	}
	return max(length, longest+most), longest
}

// drawProgram draws one for one of the models.
func drawProgram(t *rapid.T, models map[string]h2o.Geometry) program {
	p := program{model: rapid.SampledFrom(slices.Sorted(maps.Keys(models))).Draw(t, "model"), waits: rapid.Bool().Draw(t, "waits")}
	empty := true
	for range rapid.IntRange(1, 7).Draw(t, "operations") {
		o := operation{kind: prompts, seed: rapid.Uint64Range(0, 99).Draw(t, "seed")}
		if !empty {
			o.kind = rapid.SampledFrom(operationKinds).Draw(t, "kind")
		}
		switch empty = o.kind == resets; o.kind {
		case prompts:
			o.tokens = rapid.IntRange(1, 60).Draw(t, "prompt")
		case decodes, samples, takes, tries:
			o.tokens = rapid.IntRange(1, 12).Draw(t, "tokens")
		}
		p.steps = append(p.steps, o)
	}
	g := models[p.model]
	length, longest := p.lengths()
	p.kv = drawSettings(t, len(g.Layers))
	// What cannot be kept to is made possible, one thing after the other.
	for _, change := range []func(){
		func() {},
		func() { p.kv.Layers = nil },
		func() { p.kv.Prefill = h2o.Spec{} },
		func() { p.kv.Budget = parsed(h2o.ParseBudget, "24") },
		func() { p.kv.Budget = parsed(h2o.ParseBudget, "48") },
		func() { p.kv.Pinned, p.kv.Sinks = nil, -1 },
	} {
		change()
		if _, err := h2o.NewPlan(p.kv, g, 0, length, longest); err == nil {
			return p
		}
	}
	t.Skip("no such plan")
	return p
}

func parsed[T any](parse func(string) (T, error), text string) T {
	v, err := parse(text)
	if err != nil {
		panic(err)
	}
	return v
}

func drawSettings(t *rapid.T, layers int) h2o.Settings {
	s := h2o.Settings{
		Policy:      drawPolicy(t),
		Prompt:      rapid.SampledFrom([]string{"auto", "bounded", "exact"}).Draw(t, "prefill"),
		RecentRatio: rapid.SampledFrom([]float64{0.5, 0, 0.25, 0.9, 1}).Draw(t, "recent"),
		Sinks:       rapid.IntRange(-1, 3).Draw(t, "sinks"),
		Type:        rapid.SampledFrom([]string{"f32", "f32", "f32", "f32", "auto", "f16", "q8_0", "q4_0", "q8_0/q4_0", "f16/q8_0"}).Draw(t, "type"),
		Positions:   rapid.SampledFrom([]string{"auto", "original", "cache"}).Draw(t, "positions"),
		Chunk:       rapid.IntRange(1, 24).Draw(t, "chunk"),
		Budget:      drawBudget(t),
	}
	if rapid.IntRange(0, 3).Draw(t, "own policy of prompts") == 3 {
		s.Prefill = drawPolicy(t)
	}
	for range rapid.IntRange(-3, 2).Draw(t, "spans") {
		begin := rapid.IntRange(0, 40).Draw(t, "begin")
		s.Pinned = append(s.Pinned, h2o.Span{Begin: begin, End: begin + rapid.IntRange(0, 5).Draw(t, "pinned")})
	}
	if rapid.IntRange(0, 3).Draw(t, "own layers") == 3 {
		l := h2o.LayerSettings{First: rapid.IntRange(0, layers-1).Draw(t, "first"), RecentRatio: 0.75}
		l.Last = rapid.IntRange(l.First, layers-1).Draw(t, "last")
		if rapid.Bool().Draw(t, "own budget") {
			l.Budget = drawBudget(t)
		}
		s.Layers = append(s.Layers, l)
	}
	return s
}

func drawBudget(t *rapid.T) h2o.Budget {
	if rapid.Bool().Draw(t, "share") {
		return parsed(h2o.ParseBudget, fmt.Sprintf("%d%%", rapid.IntRange(1, 100).Draw(t, "percent")))
	}
	return parsed(h2o.ParseBudget, fmt.Sprint(rapid.IntRange(1, 40).Draw(t, "slots")))
}

// optionValues are what programs give to the policies' options.
var optionValues = map[string][]string{
	"score": {"head", "max", "layer", "guide"}, "reduce": {"sum", "mean", "max"}, "decay": {"1", "0.999", "0.9", "0.5"}, "norm": {"none", "lifetime"},
	"admit": {"compete", "always"}, "grace": {"0", "2", "12"}, "protect_last": {"0", "1", "6"}, "every": {"1", "2", "5", "once"}, "seed": {"0", "9"},
	"window": {"8", "1", "4", "16"}, "kernel": {"7", "1", "3"}, "pool": {"max", "avg"}, "decode": {"h2o", "grow"}, "beta": {"20", "1", "3"},
	"rounding": {"exact", "published"}, "alpha": {"0.2", "0", "0.5", "1"},
}

// drawPolicy draws a policy and up to three of its options. Those that observe get a short window: programs are short, too.
func drawPolicy(t *rapid.T) h2o.Spec {
	policy := rapid.SampledFrom(h2o.Policies).Draw(t, "policy")
	text := policy.Name
	var keys []string
	for _, o := range policy.Parameters {
		if o.Key == "window" {
			text += ":window=" + rapid.SampledFrom(optionValues["window"]).Draw(t, "window")
			continue
		}
		keys = append(keys, o.Key)
	}
	for range rapid.IntRange(0, 3).Draw(t, "options") {
		if len(keys) == 0 {
			break
		}
		key := rapid.SampledFrom(keys).Draw(t, "option")
		longer := text + ":" + key + "=" + rapid.SampledFrom(optionValues[key]).Draw(t, key)
		if spec, err := h2o.ParseSpec(longer); err == nil && !strings.Contains(text, ":"+key+"=") {
			if _, err := h2o.Find(spec); err == nil {
				text = longer
			}
		}
	}
	return parsed(h2o.ParseSpec, text)
}
