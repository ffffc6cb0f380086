package h2o

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestLayersHaveRangesAndWhatIsTheirOwn(t *testing.T) {
	none := Budget{}
	for text, want := range map[string][]LayerSettings{
		"":                              nil,
		"  ":                            nil,
		"3:budget=8%":                   {{3, 3, budget(t, "8%"), -1}},
		"0-9:recent_ratio=0.25":         {{0, 9, none, 0.25}},
		"0-9:budget=8%,10:budget=64":    {{0, 9, budget(t, "8%"), -1}, {10, 10, budget(t, "64"), -1}},
		" 4-4:budget=1 , 1-2:budget=1%": {{4, 4, budget(t, "1"), -1}, {1, 2, budget(t, "1%"), -1}},
		"5:recent_ratio=1:budget= 2 ":   {{5, 5, budget(t, "2"), 1}},
		"0:budget=3:recent_ratio=0":     {{0, 0, budget(t, "3"), 0}},
	} {
		got, err := ParseLayers(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
}

func budget(t testing.TB, text string) Budget {
	t.Helper()
	b, err := ParseBudget(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestLayerRefusalsSayWhatIsWrong(t *testing.T) {
	for text, why := range map[string]string{
		"0-9":                                "nothing of their own",
		"0:budget=1,":                        `"" is no layer`,
		",":                                  `"" is no layer`,
		"a:budget=1":                         `"a" is no layer`,
		":budget=1":                          `"" is no layer`,
		"-1:budget=1":                        `"" is no layer`,
		"+1:budget=1":                        `"+1" is no layer`,
		"1.5:budget=1":                       `"1.5" is no layer`,
		"3-1:budget=1":                       "from 3 to 1 is no range",
		"3-:budget=1":                        `"" is no layer`,
		"3-+4:budget=1":                      `"+4" is no layer`,
		"0-1-2:budget=1":                     `"1-2" is no layer`,
		"99999999999999999999:budget=1":      "is no layer",
		"0:budget=0":                         "keeps nothing",
		"0:budget=":                          "empty",
		"0:budget=101%":                      "more than the whole context",
		"0:budget=lots":                      "not a number",
		"0:budget=1MiB":                      "their budget is in bytes",
		"0:budget=20%B":                      "their budget is in bytes",
		"0:budget=1:budget=2":                "budget is given twice",
		"0:20%":                              `"20%" is unknown, want budget or recent_ratio`,
		"0:budgets=1":                        `"budgets" is unknown; did you mean "budget"?`,
		"0:recent_ration=0.5":                `did you mean "recent_ratio"?`,
		"0:recent_ratio=1.5":                 `recent_ratio "1.5", want a number from 0 to 1`,
		"0:recent_ratio=-1":                  `recent_ratio "-1", want a number from 0 to 1`,
		"0:recent_ratio=nan":                 `recent_ratio "nan", want a number from 0 to 1`,
		"0:recent_ratio=":                    `recent_ratio "", want a number from 0 to 1`,
		"0-3:budget=1,2:recent_ratio=1":      `layers "2:recent_ratio=1": layer 2 is in "0-3:budget=1", too`,
		"7:budget=1,0:budget=2,4-9:budget=3": `layer 7 is in "7:budget=1", too`,
	} {
		got, err := ParseLayers(text)
		if err == nil {
			t.Errorf("ParseLayers(%q) = %v, want an error", text, got)
			continue
		}
		for _, part := range []string{"h2o: layers \"", why} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("ParseLayers(%q): %q does not say %q", text, err, part)
			}
		}
	}
}

// What can be read can be written and read again.
func FuzzParseLayers(f *testing.F) {
	for _, text := range []string{"0-9:budget=8%:recent_ratio=0.7,10:budget=64", "3:recent_ratio=1e-3", "0:budget=0", "-1:budget=1", ",", "1-0:budget=1MiB"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		layers, err := ParseLayers(text)
		if err != nil {
			return
		}
		if again, err := ParseLayers(LayersText(layers)); err != nil || !slices.Equal(again, layers) {
			t.Errorf("%q was written as %q: %v", text, LayersText(layers), err)
		}
		written, err := json.Marshal(layers)
		if err != nil {
			t.Fatal(err)
		}
		var read []LayerSettings
		if err := json.Unmarshal(written, &read); err != nil || !slices.Equal(read, layers) {
			t.Errorf("%q in JSON is %s: %v", text, written, err)
		}
	})
}

// A range has its own budget, its own recent ratio or both; the rest is what all layers have.
func TestLayersKeepWhatIsTheirOwn(t *testing.T) {
	layers, err := ParseLayers("0-4:budget=40%,5:budget=96:recent_ratio=0.75,6-9:recent_ratio=0.1,29:budget=1000:recent_ratio=0.9")
	if err != nil {
		t.Fatal(err)
	}
	s := settings(t, "h2o", "20%")
	s.Layers = layers
	p, err := NewPlan(s, smol(), 0, 1000, 900)
	if err != nil {
		t.Fatal(err)
	}
	for layer, want := range map[int]LayerPlan{
		0:  {Budget: 400, Recent: 200, Prompt: 200},
		4:  {Budget: 400, Recent: 200, Prompt: 200},
		5:  {Budget: 96, Recent: 72, Prompt: 72},
		6:  {Budget: 200, Recent: 20, Prompt: 20},
		9:  {Budget: 200, Recent: 20, Prompt: 20},
		10: {Budget: 200, Recent: 100, Prompt: 100},
		29: {Budget: 1000, Recent: 900, Prompt: 900},
	} {
		got := p.Layers[layer]
		want.Capacity = min(want.Budget+256, 1000)
		want.Most = want.Capacity
		if got != want {
			t.Errorf("layer %d: %+v, want %+v", layer, got, want)
		}
	}
}

// A recent ratio alone shifts no budget: where all tokens fit nothing is evicted, and a policy may share the budget by itself.
func TestARecentRatioAloneShiftsNoBudget(t *testing.T) {
	for _, policy := range []string{"h2o", "adakv:window=8:alpha=1", "pyramidkv:window=8"} {
		s := settings(t, policy, "100%")
		s.Layers = []LayerSettings{{0, 9, Budget{}, 0.9}}
		if p, err := NewPlan(s, smol(), 0, 1000, 900); err != nil || p.Evicts() {
			t.Errorf("%s, a budget of the context: %v", policy, err)
		}
		s.Budget = budget(t, "10%")
		p, err := NewPlan(s, smol(), 0, 1000, 900)
		if err != nil {
			t.Fatal(err)
		}
		if l, below := p.Layers[9], p.Layers[10]; l.Recent != int(0.9*float64(l.Budget)) || below.Recent != max(p.Policy.Last, below.Budget/2) {
			t.Errorf("%s: %+v and %+v", policy, l, below)
		}
	}
}

// Settings come from saved sessions and logs, too.
func TestPlansRefuseLayersThatNobodyCanGive(t *testing.T) {
	own := budget(t, "10%")
	for why, layers := range map[string][]LayerSettings{
		"from -1 to 3 is no range":                          {{-1, 3, own, -1}},
		"from 3 to 2 is no range":                           {{3, 2, own, -1}},
		"nothing of their own":                              {{0, 1, Budget{}, -1}},
		"recent ratio 2, want 0 to 1":                       {{0, 1, own, 2}},
		"recent ratio -0.5, want 0 to 1":                    {{0, 1, own, -0.5}},
		"recent ratio NaN, want 0 to 1":                     {{0, 1, own, math.NaN()}},
		"in bytes":                                          {{0, 1, budget(t, "1MiB"), -1}},
		"layer 1 is in":                                     {{0, 1, own, -1}, {1, 2, own, -1}},
		"\"0-30:budget=10%\": the model has layers 0 to 29": {{0, 30, own, -1}},
		"less than the 4 sinks":                             {{3, 3, budget(t, "3"), -1}},
	} {
		s := settings(t, "streaming", "20%")
		s.Layers = layers
		if _, err := NewPlan(s, smol(), 0, 1000, 900); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v: %v, want %q", layers, err, why)
		}
	}
	s := settings(t, "adakv", "20%")
	s.Layers = []LayerSettings{{0, 9, own, -1}}
	if _, err := NewPlan(s, smol(), 0, 1000, 900); err == nil || !strings.Contains(err.Error(), "give one of them") {
		t.Errorf("two ways to share: %v", err)
	}
}
