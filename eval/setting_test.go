package eval

import (
	"fmt"
	"slices"
	"testing"

	"vkdecode/h2o"
	"vkdecode/runtime"
)

func budget(t *testing.T, text string) h2o.Budget {
	t.Helper()
	b, err := h2o.ParseBudget(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEveryPolicyMeetsEveryBudgetButFull(t *testing.T) {
	policies, err := h2o.ParseSpecs("window,full,h2o,window")
	if err != nil {
		t.Fatal(err)
	}
	base := h2o.Settings{RecentRatio: 0.25, Sinks: -1, Type: "f32", Positions: "auto", Chunk: 3}
	all, err := Settings(base, policies, []h2o.Budget{budget(t, "10%"), budget(t, "32"), budget(t, "10%")})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range all {
		names = append(names, fmt.Sprint(s.Policy, " ", s.Budget))
		if s.RecentRatio != 0.25 || s.Chunk != 3 || s.Type != "f32" {
			t.Errorf("%+v", s)
		}
	}
	if want := []string{"window 10%", "window 32", "full 100%", "h2o 10%", "h2o 32"}; !slices.Equal(names, want) {
		t.Errorf("settings %q, want %q", names, want)
	}
	if _, err := Settings(base, []h2o.Spec{{Name: "fulll"}}, nil); err == nil {
		t.Error("an unknown policy passes")
	}
}

func TestASettingSaysWhatThePlanCameTo(t *testing.T) {
	g := h2o.Geometry{Layers: []h2o.Heads{{Query: 4, KV: 2}}, HeadDim: 32}
	for policy, want := range map[string]Setting{
		"h2o":       {Policy: "h2o", Budget: "20%", BudgetSlots: 20, KVType: "f16", Positions: "original", Chunk: 8, PrefillPolicy: "h2o", Prefill: "bounded", RecentRatio: 0.5},
		"streaming": {Policy: "streaming", Budget: "20%", BudgetSlots: 20, KVType: "f16", Positions: "cache", Chunk: 8, PrefillPolicy: "streaming", Prefill: "bounded", RecentRatio: 0.5, Sinks: 4},
		"full":      {Policy: "full", Budget: "20%", BudgetSlots: 100, KVType: "f16", Positions: "original", Chunk: 8},
	} {
		spec, err := h2o.ParseSpec(policy)
		if err != nil {
			t.Fatal(err)
		}
		p, err := h2o.NewPlan(h2o.Settings{Policy: spec, Budget: budget(t, "20%"), RecentRatio: 0.5, Sinks: -1, Type: "f16", Positions: "auto", Chunk: 8}, g, 100, 99, 99)
		if err != nil {
			t.Fatal(err)
		}
		if got := SettingOf(p, runtime.F32); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// With chunks of 8 the cache is cut back after 8, 16, 24 … tokens, once more than the budget are there.
func TestEvictionsBehindTheLastTokenAreTold(t *testing.T) {
	g := h2o.Geometry{Layers: []h2o.Heads{{Query: 4, KV: 2}}, HeadDim: 32}
	for _, c := range []struct {
		policy, budget string
		processed      int
		want           bool
	}{
		{"h2o", "5", 8, true}, {"h2o", "5", 9, false}, {"h2o", "8", 16, true}, {"h2o", "8", 17, false}, {"h2o", "7", 9, false},
		{"h2o", "40", 40, false}, {"full", "5", 8, false}, // nothing is evicted, as everybody would think
	} {
		spec, err := h2o.ParseSpec(c.policy)
		if err != nil {
			t.Fatal(err)
		}
		p, err := h2o.NewPlan(h2o.Settings{Policy: spec, Budget: budget(t, c.budget), Sinks: -1, Type: "f16", Positions: "auto", Chunk: 8}, g, c.processed+1, c.processed, c.processed)
		if err != nil {
			t.Fatal(err)
		}
		if got := Spared(p); got != c.want {
			t.Errorf("%s with %s slots after %d tokens: %t", c.policy, c.budget, c.processed, got)
		}
	}
}
