package h2o

import (
	"strings"
	"testing"
)

func TestLayersHaveRangesAndTwoParts(t *testing.T) {
	for text, want := range map[string][]LayerBudget{
		"":                         nil,
		"  ":                       nil,
		"3:8%+12%":                 {{3, 3, budget(t, "8%"), budget(t, "12%")}},
		"0-9:8%+12%,10:64+32":      {{0, 9, budget(t, "8%"), budget(t, "12%")}, {10, 10, budget(t, "64"), budget(t, "32")}},
		" 0-0:1+1 , 1-2:100%+0.5%": {{0, 0, budget(t, "1"), budget(t, "1")}, {1, 2, budget(t, "100%"), budget(t, "0.5%")}},
		"5:1+ 2 ":                  {{5, 5, budget(t, "1"), budget(t, "2")}},
		"0-1:1+2,1-3:3+4":          {{0, 1, budget(t, "1"), budget(t, "2")}, {1, 3, budget(t, "3"), budget(t, "4")}}, // the later one counts
	} {
		got, err := ParseLayers(text)
		if err != nil || len(got) != len(want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
			continue
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%q: %v, want %v", text, got[i], want[i])
			}
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
		"0-9":                      "not a range with two parts",
		"0-9:20%":                  "not a range with two parts",
		"8%+12%":                   "not a range with two parts",
		"0:1+1,":                   "not a range with two parts",
		",":                        "not a range with two parts",
		"a:1+1":                    `"a" is no layer`,
		":1+1":                     `"" is no layer`,
		"-1:1+1":                   `"" is no layer`,
		"+1:1+1":                   `"+1" is no layer`,
		"1.5:1+1":                  `"1.5" is no layer`,
		"3-1:1+1":                  `"1" is no layer from 3 on`,
		"3-:1+1":                   `"" is no layer from 3 on`,
		"3-+4:1+1":                 `"+4" is no layer from 3 on`,
		"0-1-2:1+1":                `"1-2" is no layer from 0 on`,
		"99999999999999999999:1+1": "is no layer",
		"0:0+1":                    "keeps nothing",
		"0:1+0%":                   "keeps nothing",
		"0:1+101%":                 "more than the whole context",
		"0:1+":                     "empty",
		"0:+1":                     "empty",
		"0:1+1+1":                  "not a number",
		"0:lots+1":                 "not a number",
		"0:1MiB+1":                 "not in bytes",
		"0:1+20%B":                 "not in bytes",
	} {
		got, err := ParseLayers(text)
		if err == nil {
			t.Errorf("ParseLayers(%q) = %v, want an error", text, got)
			continue
		}
		for _, part := range []string{"h2o: layer budget", why, "like 0-9:8%+12%"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("ParseLayers(%q): %q does not say %q", text, err, part)
			}
		}
	}
}

// What can be read can be written and read again.
func FuzzParseLayers(f *testing.F) {
	for _, text := range []string{"0-9:8%+12%,10:64+32", "3:1+1", "0:0+1", "-1:1+1", ",", "1-0:1MiB+2"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		layers, err := ParseLayers(text)
		if err != nil {
			return
		}
		var written []string
		for _, l := range layers {
			if l.First < 0 || l.Last < l.First {
				t.Errorf("%q: layers %d to %d", text, l.First, l.Last)
			}
			written = append(written, l.String())
		}
		again, err := ParseLayers(strings.Join(written, ","))
		if err != nil || len(again) != len(layers) {
			t.Fatalf("%q was written as %q: %v", text, written, err)
		}
		for i := range layers {
			if again[i] != layers[i] {
				t.Errorf("%q was written as %q", text, written)
			}
		}
	})
}

func TestLayersDivideTheirBudgets(t *testing.T) {
	layers, err := ParseLayers("0-9:8%+12%,5:64+32,29:90%+90%")
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
		0:  {Budget: 200, Recent: 80, Prompt: 80},
		5:  {Budget: 96, Recent: 64, Prompt: 64}, // the later range counts
		9:  {Budget: 200, Recent: 80, Prompt: 80},
		10: {Budget: 200, Recent: 100, Prompt: 100}, // the others share by the recent ratio
		29: {Budget: 1000, Recent: 900, Prompt: 900},
	} {
		got := p.Layers[layer]
		want.Capacity = min(want.Budget+256, 1000)
		want.Most = want.Capacity
		if got != want {
			t.Errorf("layer %d: %+v, want %+v", layer, got, want)
		}
	}
	s.Layers[0].Last = 30
	if _, err := NewPlan(s, smol(), 0, 1000, 900); err == nil || !strings.Contains(err.Error(), "layers 0 to 30, the model has layers 0 to 29") {
		t.Errorf("a layer too many: %v", err)
	}
	s.Policy.Name, s.Layers[0].Last = "adakv", 9
	if _, err := NewPlan(s, smol(), 0, 1000, 900); err == nil || !strings.Contains(err.Error(), "give one of them") {
		t.Errorf("two ways to share: %v", err)
	}
}
