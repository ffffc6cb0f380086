package h2o

import (
	"strings"
	"testing"
)

// smol is SmolLM2-135M's cache.
func smol() Geometry {
	g := Geometry{HeadDim: 64}
	for range 30 {
		g.Layers = append(g.Layers, Heads{Query: 9, KV: 3})
	}
	return g
}

func settings(t *testing.T, policy, budget string) Settings {
	t.Helper()
	spec, err := ParseSpec(policy)
	if err != nil {
		t.Fatal(err)
	}
	b, err := ParseBudget(budget)
	if err != nil {
		t.Fatal(err)
	}
	return Settings{Policy: spec, Budget: b, RecentRatio: 0.5, Sinks: -1, Type: "f16", Positions: "auto", Chunk: 256}
}

func TestPlanHoldsBudgetAndChunk(t *testing.T) {
	for _, c := range []struct {
		policy, budget            string
		length, prompt            int
		wantBudget, wantCapacity  int
		wantRecent, wantSinks     int
		wantBytesPerSlotOfOneHead int64
	}{
		{"h2o", "20%", 2048, 2000, 410, 666, 205, 0, 256},
		{"h2o", "20%", 2048, 100, 410, 510, 205, 0, 256}, // a chunk is never longer than the prompt
		{"h2o", "100%", 2048, 2000, 2048, 2048, 0, 0, 256},
		{"full", "20%", 2048, 2000, 2048, 2048, 0, 0, 256},
		{"window", "410", 2048, 2000, 410, 666, 0, 0, 256},
		{"streaming", "410", 2048, 2000, 410, 666, 0, 4, 256},
		{"h2o", "1", 2048, 1, 1, 2, 0, 0, 256},
	} {
		p, err := NewPlan(settings(t, c.policy, c.budget), smol(), 0, c.length, c.prompt)
		if err != nil {
			t.Errorf("%s %s: %v", c.policy, c.budget, err)
			continue
		}
		if p.Budget != c.wantBudget || p.Capacity != c.wantCapacity || p.Recent != c.wantRecent || p.Sinks != c.wantSinks {
			t.Errorf("%s %s: budget %d capacity %d recent %d sinks %d, want %d %d %d %d", c.policy, c.budget,
				p.Budget, p.Capacity, p.Recent, p.Sinks, c.wantBudget, c.wantCapacity, c.wantRecent, c.wantSinks)
		}
		if want := 90 * c.wantBytesPerSlotOfOneHead * int64(c.wantCapacity); p.Bytes != want {
			t.Errorf("%s %s: %d bytes, want %d", c.policy, c.budget, p.Bytes, want)
		}
	}
}

func TestPlanMayRunPastTheContextOnlyWhenItEvicts(t *testing.T) {
	if _, err := NewPlan(settings(t, "full", "20%"), smol(), 1000, 1500, 500); err == nil || !strings.Contains(err.Error(), "1000") {
		t.Errorf("full: error %v, want one that names the context", err)
	}
	p, err := NewPlan(settings(t, "h2o", "20%"), smol(), 1000, 1500, 500)
	if err != nil || p.Budget != 200 || p.Capacity != 456 {
		t.Errorf("h2o: %+v, %v; want a budget of 200 and a capacity of 456", p, err)
	}
	p, err = NewPlan(settings(t, "h2o", "100%"), smol(), 1000, 1500, 500)
	if err != nil || p.Budget != 1000 || p.Capacity != 1256 || !p.Evicts() {
		t.Errorf("h2o 100%%: %+v, %v; want a budget of 1000 and a capacity of 1256", p, err)
	}
}

func TestPlanRecentWindowGivesWayToWhatIsPinned(t *testing.T) {
	s := settings(t, "h2o", "100")
	s.Sinks, s.RecentRatio, s.Pinned = 10, 1, []Span{{5, 30}, {50, 60}}
	p, err := NewPlan(s, smol(), 0, 1000, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if p.Recent != 60 { // 0..29 and 50..59 are held
		t.Errorf("recent window of %d, want 60", p.Recent)
	}
}

func TestPlanProtectsOnlyTheObservationWindowOfAPrompt(t *testing.T) {
	for policy, want := range map[string]int{"snapkv:window=16": 16, "pyramidkv:window=16": 16, "adakv": 32, "h2o": 50} {
		p, err := NewPlan(settings(t, policy, "100"), smol(), 0, 1000, 900)
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range p.Layers {
			decode := l.Budget / 2
			if policy == "adakv" {
				decode = 32 + (100-32)/5 // what a head has at least
			}
			if l.Prompt != want || l.Recent != max(decode, p.Policy.Last) {
				t.Errorf("%s, layer %d: %d positions protected in prompts and %d in decode, want %d and %d", policy, i, l.Prompt, l.Recent, want, max(decode, p.Policy.Last))
			}
		}
	}
}

func TestPlanRefusesWhatCannotBe(t *testing.T) {
	for want, change := range map[string]func(*Settings){
		"unknown policy":         func(s *Settings) { s.Policy.Name = "h20" },
		"did you mean \"h2o\"":   func(s *Settings) { s.Policy.Name = "h20" },
		"has no option":          func(s *Settings) { s.Policy.Options = []Option{{"scores", "guide"}} },
		"KV type":                func(s *Settings) { s.Type = "q3" },
		"positions":              func(s *Settings) { s.Positions = "cached" },
		"chunk of 0":             func(s *Settings) { s.Chunk = 0 },
		"chunk of 513":           func(s *Settings) { s.Chunk = MaxChunk + 1 },
		"recent ratio":           func(s *Settings) { s.RecentRatio = 1.5 },
		"less than the 17 sinks": func(s *Settings) { s.Sinks = 17 },
		"sinks and pinned":       func(s *Settings) { s.Sinks, s.Pinned = 8, []Span{{10, 19}} },
		"2 at most":              func(s *Settings) { s.Pinned = make([]Span, 3) },
		"pinned span":            func(s *Settings) { s.Pinned = []Span{{5, 3}} },
	} {
		s := settings(t, "h2o", "16")
		change(&s)
		if _, err := NewPlan(s, smol(), 0, 1000, 1000); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, err := NewPlan(settings(t, "h2o", "16"), smol(), 0, 1000, 1000); err != nil {
		t.Errorf("nothing changed: %v", err)
	}
}

func TestTypesOfKAndV(t *testing.T) {
	for text, want := range map[string]Types{"f16": {"f16", "f16"}, "q8_0/q4_0": {"q8_0", "q4_0"}, "f32/f32": {"f32", "f32"}} {
		if got, err := ParseTypes(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "/", "f61", "f16/", "/f16", "f16/f16/f16", "F16", "f16 / f16"} {
		if got, err := ParseTypes(text); err == nil || !strings.Contains(err.Error(), "want f16, f32, q4_0, q8_0, or two as K/V") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	words := TypeWords()
	if len(words) != 16 || len(layouts) != 4 {
		t.Errorf("%d words for %d types", len(words), len(layouts))
	}
	for _, word := range words {
		if _, err := ParseTypes(word); err != nil {
			t.Error(err)
		}
	}
}

// The size of a head of K and V, and of the whole cache in whole uvec4.
func TestTypesSayHowManyBytesTheyTake(t *testing.T) {
	for _, c := range []struct {
		dim       int
		types     string
		pad       int
		slot, all int64 // of one KV head; of 30 layers of 3 heads with 5 slots
	}{
		{64, "f32", 64, 512, 90 * 5 * 512}, {64, "f16", 64, 256, 90 * 5 * 256}, {64, "q8_0", 64, 2 * 68, 60 * (15*68 + 4)}, {64, "q4_0", 64, 2 * 36, 60 * (15*36 + 4)},
		{64, "q8_0/q4_0", 64, 68 + 36, 30 * (15*68 + 4 + 15*36 + 4)}, {64, "f16/q4_0", 64, 128 + 36, 30 * (15*128 + 15*36 + 4)},
		{20, "f16", 24, 96, 90 * 5 * 96}, {20, "f16/q8_0", 32, 64 + 36, 30 * (15*64 + 15*36 + 4)}, {80, "q8_0", 96, 2 * (96 + 8), 60 * (15*104 + 8)},
		{128, "q4_0", 128, 2 * (64 + 8), 60 * (15*72 + 8)},
	} {
		g := smol()
		g.HeadDim = c.dim
		types, err := ParseTypes(c.types)
		if err != nil {
			t.Fatal(err)
		}
		if pad, slot, all := g.HeadPad(types), g.SlotBytes(types), g.Bytes(types, 5); pad != c.pad || slot != c.slot || all != c.all {
			t.Errorf("%s of %d: padded to %d, %d bytes a slot, %d in all; want %d, %d, %d", c.types, c.dim, pad, slot, all, c.pad, c.slot, c.all)
		}
	}
}

// A share of the bytes is of the context in f16, whatever the type: 20 % of them are 20 % of the slots in f16, and more in
// smaller types.
func TestPlanTakesAShareOfTheBytes(t *testing.T) {
	for types, want := range map[string]int{"f16": 409, "f32": 204, "q8_0": 770, "q8_0/q4_0": 1008, "q4_0": 1456} {
		s := settings(t, "h2o", "20%B")
		s.Type = types
		p, err := NewPlan(s, smol(), 0, 2048, 2048)
		if err != nil {
			t.Fatal(err)
		}
		if p.Budget != want {
			t.Errorf("%s: %d slots, want %d", types, p.Budget, want)
		}
	}
}
