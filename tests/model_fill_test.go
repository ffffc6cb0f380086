package tests

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// filledPolicies are the policies whose filled caches are compared with real ones, and whether positions alone decide who
// stays.
var filledPolicies = []struct {
	spec, budget  string
	chunk         int
	prefill, kind string // policy of prompts; type of K and V
	pinned        []h2o.Span
	positional    bool
}{
	{spec: "full", budget: "100%", chunk: 16, positional: true},
	{spec: "full", budget: "100%", chunk: 16, kind: "q4_0/q8_0", positional: true},
	{spec: "window", budget: "30", chunk: 16, positional: true},
	{spec: "streaming", budget: "30", chunk: 7, kind: "f16", positional: true},
	{spec: "strided", budget: "33", chunk: 16, pinned: []h2o.Span{{Begin: 5, End: 8}}, positional: true},
	{spec: "strided:every=5", budget: "33", chunk: 1, positional: true},
	{spec: "h2o", budget: "30", chunk: 16, kind: "q8_0"},
	{spec: "h2o", budget: "200", chunk: 16}, // more than there are tokens
	{spec: "h2o:score=layer", budget: "20%", chunk: 16, pinned: []h2o.Span{{Begin: 1, End: 4}}},
	{spec: "h2o:every=once", budget: "30", chunk: 16},
	{spec: "random", budget: "30", chunk: 16},
	{spec: "tova", budget: "30", chunk: 16},
	{spec: "snapkv:window=8", budget: "30", chunk: 16},
	{spec: "pyramidkv:window=4", budget: "40", chunk: 16},
	{spec: "h2o", budget: "30", chunk: 16, prefill: "streaming"},
	{spec: "h2o-tuned", budget: "30", chunk: 16, kind: "auto"},
}

// A filled cache is, in what it holds and has evicted and in what is protected, what a real prompt leaves; where positions
// decide it holds the very same tokens and scores. And decoding goes on with it as it does after the prompt.
func TestAFilledCacheIsLikeThatOfAPrompt(t *testing.T) {
	const depth, decoded = 150, 7
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		ids := passageIDs(t)[:depth]
		for _, c := range filledPolicies {
			settings := kv(c.spec, c.budget, 0.5, c.chunk)
			settings.Pinned = c.pinned
			if c.kind != "" {
				settings.Type = c.kind
			}
			if c.prefill != "" {
				settings.Prefill, _ = h2o.ParseSpec(c.prefill)
			}
			name := fmt.Sprintf("%s %s after %q, chunk %d, %s", c.spec, c.budget, c.prefill, c.chunk, settings.Type)
			real, filled := openSession(t, builtinOn(t, d), settings, depth+decoded), openSession(t, builtinOn(t, d), settings, depth+decoded)
			if err := real.Prompt(t.Context(), ids, model.Observer{}, nil); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time keys and values are there
				if err := filled.Fill(depth, 1); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			if err := alike(real, filled, c.positional); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			greedy(t, real, decoded)
			if n := len(greedy(t, filled, decoded)); n != decoded || len(filled.Tokens) != len(real.Tokens) {
				t.Errorf("%s: %d tokens decoded, %d in the session, want %d and %d", name, n, len(filled.Tokens), decoded, len(real.Tokens))
			}
			if err := alike(real, filled, c.positional); err != nil {
				t.Errorf("%s, %d tokens later: %v", name, decoded, err)
			}
			if logits, err := filled.Logits(); err != nil || slices.ContainsFunc(logits, func(v float32) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) }) {
				t.Errorf("%s: logits that are no numbers, %v", name, err)
			}
			real.Close()
			filled.Close()
		}
	})
}

// Heads that share a budget hold together as many tokens as after a prompt, and as many while decoding goes on.
func TestAFilledLayerHasItsBudgetWhereHeadsShareIt(t *testing.T) {
	const depth, decoded = 100, 5
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		settings := kv("adakv:window=8", "30", 0.5, 16)
		real, filled := openSession(t, builtinOn(t, d), settings, depth+decoded), openSession(t, builtinOn(t, d), settings, depth+decoded)
		if err := real.Prompt(t.Context(), passageIDs(t)[:depth], model.Observer{}, nil); err != nil {
			t.Fatal(err)
		}
		if err := filled.Fill(depth, 1); err != nil {
			t.Fatal(err)
		}
		for _, when := range []string{"after the prompt", "after decoding"} {
			want, err := real.Cache().Live(0)
			if err != nil {
				t.Fatal(err)
			}
			got, err := filled.Cache().Live(0)
			if err != nil || !slices.Equal(got, want) || got[0] == 0 {
				t.Errorf("%s: %v live slots by layer, want %v; %v", when, got, want, err)
			}
			if when == "after the prompt" {
				greedy(t, real, decoded)
				greedy(t, filled, decoded)
			}
		}
	})
}

// alike tells how the caches of two sessions differ, in what does not depend on attention; positional: nothing does.
func alike(a, b *model.Session, positional bool) error {
	x, err := a.Cache().State(0)
	if err != nil {
		return err
	}
	y, err := b.Cache().State(0)
	if err != nil {
		return err
	}
	plan := a.Plan()
	for layer := range x.Layers {
		for kv := range x.Layers[layer].Heads {
			want, got := x.Layers[layer].Heads[kv], y.Layers[layer].Heads[kv]
			recent := plan.Layers[layer].Recent
			if plan.Staged {
				recent = min(recent, plan.Layers[layer].Prompt) // the prompt's own window may be shorter
			}
			where := fmt.Sprintf("layer %d, head %d", layer, kv)
			if len(got.Positions) != len(want.Positions) || got.Evicted != want.Evicted || got.Budget != want.Budget {
				return fmt.Errorf("%s: %d live, %d evicted, budget %d; want %d, %d, %d", where, len(got.Positions), got.Evicted, got.Budget, len(want.Positions), want.Evicted, want.Budget)
			}
			if positional && (!slices.Equal(got.Positions, want.Positions) || !slices.Equal(got.Scores, want.Scores)) {
				return fmt.Errorf("%s: positions %v, want %v; scores %v, want %v", where, got.Positions, want.Positions, got.Scores, want.Scores)
			}
			for _, pos := range want.Positions {
				last := len(a.Tokens) - int(pos)
				pinned := slices.ContainsFunc(plan.Pinned, func(s h2o.Span) bool { return s.Begin <= int(pos) && int(pos) < s.End })
				if (int(pos) < plan.Sinks || pinned || last <= recent) && !slices.Contains(got.Positions, pos) {
					return fmt.Errorf("%s: position %d is protected and not there: %v", where, pos, got.Positions)
				}
			}
			first := y.Layers[layer].Heads[0]
			if heads := x.Layers[layer].Heads; slices.Equal(want.Positions, heads[0].Positions) && slices.Equal(want.Scores, heads[0].Scores) && plan.Evicts() && !slices.Equal(got.Positions, first.Positions) {
				return fmt.Errorf("%s: other positions than head 0", where)
			}
		}
	}
	return nil
}

// The comparison finds a cache that was filled otherwise: by a token less, under a smaller budget, another policy or
// without its pinned tokens.
func TestACacheThatIsFilledOtherwiseIsFound(t *testing.T) {
	const depth = 100
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		pinned := kv("strided", "30", 0.5, 16)
		pinned.Pinned = []h2o.Span{{Begin: 3, End: 9}}
		for _, c := range []struct {
			name        string
			real, other h2o.Settings
			depth       int
			positional  bool
			same        bool
		}{
			{"nothing", kv("strided", "30", 0.5, 16), kv("strided", "30", 0.5, 16), depth, true, true},
			{"a token", kv("h2o", "30", 0.5, 16), kv("h2o", "30", 0.5, 16), depth - 1, false, false},
			{"the budget", kv("h2o", "30", 0.5, 16), kv("h2o", "29", 0.5, 16), depth, false, false},
			{"the policy", kv("window", "30", 0.5, 16), kv("strided", "30", 0.5, 16), depth, true, false},
			{"what is pinned", pinned, kv("strided", "30", 0.5, 16), depth, false, false},
			{"the recent window", kv("h2o", "30", 0.9, 16), kv("h2o", "30", 0.1, 16), depth, false, false},
		} {
			real, filled := openSession(t, builtinOn(t, d), c.real, depth), openSession(t, builtinOn(t, d), c.other, depth)
			if err := real.Prompt(t.Context(), passageIDs(t)[:depth], model.Observer{}, nil); err != nil {
				t.Fatal(err)
			}
			if err := filled.Fill(c.depth, 1); err != nil {
				t.Fatal(err)
			}
			if err := alike(real, filled, c.positional); (err == nil) != c.same {
				t.Errorf("%s: %v", c.name, err)
			}
			real.Close()
			filled.Close()
		}
		s := openSession(t, builtinOn(t, d), fullKV(16), 10)
		wantError(t, s.Fill(11, 1), "11 tokens", "10")
		wantError(t, s.Fill(-1, 1), "-1 tokens")
	})
}
