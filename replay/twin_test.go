package replay

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/model/tokenizer"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

var encodeNothing = tokenizer.EncodeOptions{}

func nextUp(v float32) float32 { return math.Float32frombits(math.Float32bits(v) + 1) }

// recordedSteps are those of a run.
func recordedSteps(t testing.TB, l *loaded, settings h2o.Settings, prompt []int32, tokens int) (*h2o.Plan, *h2o.State, []Step) {
	t.Helper()
	s := l.open(t, model.SessionOptions{KV: settings, Length: len(prompt) + tokens, Prompt: len(prompt)})
	begin, err := s.Cache().State(0)
	if err != nil {
		t.Fatal(err)
	}
	var steps []Step
	observe := func(isPrompt bool) model.Observer {
		return model.Observer{Evictions: true, Step: func(step model.Step) error {
			if s.Plan().Exact && step.Seen < len(prompt) {
				return nil
			}
			state, err := s.Cache().State(0)
			steps = append(steps, Step{step.Seen, isPrompt, step.Seen == len(prompt), state, step.Evicted})
			return err
		}}
	}
	if err := s.Prompt(t.Context(), prompt, observe(true), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Generate(t.Context(), model.Generation{Tokens: tokens, Observer: observe(false), Emit: func(int32) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	return s.Plan(), begin, steps
}

// judged lets a twin look at steps.
func judged(plan *h2o.Plan, begin *h2o.State, steps []Step) *Twin {
	t := NewTwin(plan, begin, 0)
	for _, s := range steps {
		t.Step(s)
	}
	return t
}

// The twin finds what it is there to find: in decoding, in chunks of a prompt, and where heads share their budget.
func TestTheTwinFindsWrongChoices(t *testing.T) {
	forgeries := map[string]struct {
		change func(plan *h2o.Plan, s *Step)
		reason string
	}{
		"nothing": {func(*h2o.Plan, *Step) {}, ""},
		"a victim and a survivor exchanged": {func(_ *h2o.Plan, s *Step) {
			e := &s.Evicted[0]
			h := &s.State.Layers[e.Layer].Heads[e.Head]
			e.Position, h.Positions[1] = h.Positions[1], e.Position
			e.Score, h.Scores[1] = h.Scores[1], e.Score
		}, "other tokens have the lowest scores"},
		"a survivor's score below the victim's": {func(_ *h2o.Plan, s *Step) {
			e := &s.Evicted[0]
			s.State.Layers[e.Layer].Heads[e.Head].Scores[1] = math.Nextafter32(e.Score, -1)
		}, "other tokens have the lowest scores"},
		"a victim not told": {func(_ *h2o.Plan, s *Step) { s.Evicted = s.Evicted[1:] }, "kept and evicted tokens are not those"},
		"a victim still there": {func(_ *h2o.Plan, s *Step) {
			e := &s.Evicted[0]
			h := &s.State.Layers[e.Layer].Heads[e.Head]
			h.Positions, h.Scores = append(h.Positions, e.Position), append(h.Scores, e.Score)
		}, "kept and evicted tokens are not those"},
		"a window one longer":     {func(p *h2o.Plan, _ *Step) { p.Layers[0].Recent++; p.Layers[0].Prompt++ }, "other tokens have the lowest scores"},
		"a sink":                  {func(p *h2o.Plan, _ *Step) { p.Sinks = 3 }, "other tokens have the lowest scores"},
		"an eviction not counted": {func(_ *h2o.Plan, s *Step) { s.State.Layers[0].Heads[1].Evicted-- }, "evictions counted, and"},
		"another head's budget":   {func(_ *h2o.Plan, s *Step) { s.State.Layers[1].Heads[1].Budget++ }, "slots, the twin gives"},
	}
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		l := modelOn(t, d)
		for _, c := range []struct {
			settings h2o.Settings
			at       int // step that is forged
		}{{kv("h2o", "", "auto", "12", 16), 3}, {kv("h2o", "", "auto", "12", 16), 8}, {kv("h2o", "window", "bounded", "12", 16), 4}, {kv("adakv:window=4", "", "bounded", "12", 16), 4}} {
			plan, begin, steps := recordedSteps(t, l, c.settings, l.prompt(70), 20)
			for name, f := range forgeries {
				changed := *plan
				changed.Layers = slices.Clone(plan.Layers)
				forged := slices.Clone(steps)
				forged[c.at] = clone(t, steps[c.at])
				f.change(&changed, &forged[c.at])
				w := judged(&changed, begin, forged)
				if f.reason == "" && (w.Wrong > 0 || w.Checked == 0 || w.Unchecked > 0) {
					t.Errorf("%s, step %d: genuine: %+v, %+v", c.settings.Policy, c.at, w.First, w)
				}
				if f.reason != "" && c.settings.Prefill.Name == "window" && strings.Contains(name, "score") {
					continue // those are told from the positions
				}
				if f.reason != "" && (w.First == nil || !strings.Contains(w.First.Reason, f.reason) && !strings.Contains(w.First.Reason, "slots, the twin gives")) {
					t.Errorf("%s, step %d: %s: %+v", c.settings.Policy, c.at, name, w.First)
				}
			}
		}
	})
}

func clone(t testing.TB, s Step) (c Step) {
	t.Helper()
	if err := json.Unmarshal([]byte(toJSON(t, s)), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheTwinKnowsThatFullEvictsNothing(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		plan, begin, steps := recordedSteps(t, modelOn(t, d), kv("full", "", "auto", "100%", 16), modelOn(t, d).prompt(20), 3)
		if w := judged(plan, begin, steps); w.Wrong > 0 || w.Checked > 0 {
			t.Errorf("%+v", w)
		}
		forged := clone(t, steps[1])
		h := &forged.State.Layers[0].Heads[1]
		forged.Evicted = []h2o.Eviction{{Step: forged.Seen, Head: 1, Position: h.Positions[0], Score: h.Scores[0]}}
		h.Positions, h.Scores = h.Positions[1:], h.Scores[1:]
		if w := judged(plan, begin, []Step{steps[0], forged}); w.First == nil || w.First.Reason != "the policy evicts nothing" {
			t.Errorf("%+v", w.First)
		}
	})
}
