package tests

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/replay"
)

// history is what a run's cache did, step by step: all that the checks look at.
type history struct {
	ids   []int32
	plan  *h2o.Plan
	heads []h2o.Heads // by layer
	begin *h2o.State
	steps []historyStep
}

type historyStep struct {
	replay.Step
	rows   int       // tokens of the step
	place  int       // tokens of the prompt after the step
	logits []float32 // (rows of the step, vocab), nil unless asked for
}

// watch processes ids in a session of their own and records what the cache did, with the logits if asked for.
func watch(t testing.TB, m *model.Model, settings h2o.Settings, ids []int32, logits bool) *history {
	t.Helper()
	return watchTurns(t, m, settings, logits, exchange{prompt: ids})
}

// exchange is a prompt, and tokens decoded after it.
type exchange struct {
	prompt []int32
	decode int
}

// watchTurns is watch over several turns of one session.
func watchTurns(t testing.TB, m *model.Model, settings h2o.Settings, logits bool, turns ...exchange) *history {
	t.Helper()
	length, longest := 0, 0
	for _, turn := range turns {
		length, longest = length+len(turn.prompt)+turn.decode, max(longest, len(turn.prompt))
	}
	s, err := m.NewSession(t.Context(), model.SessionOptions{KV: settings, Length: length, Prompt: longest})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := record(s, m.Geometry())
	if err != nil {
		t.Fatal(err)
	}
	r.logits = logits
	for _, turn := range turns {
		err = r.prompt(t.Context(), turn.prompt)
		if err == nil && turn.decode > 0 {
			err = r.decode(t.Context(), model.Generation{Tokens: turn.decode + 1}) // the last one is not processed
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return r.history()
}

// recorder notes what a session's cache does.
type recorder struct {
	h         history
	session   *model.Session
	logits    bool
	blind     bool // notes nothing but the tokens: nobody waits for the steps
	prompting bool
	place     int // tokens of the prompt so far
}

// record begins with an empty session.
func record(s *model.Session, g h2o.Geometry) (r *recorder, err error) {
	r = &recorder{h: history{plan: s.Plan(), heads: g.Layers}, session: s}
	r.h.begin, err = s.Cache().State(0)
	return r, err
}

func (r *recorder) observer() model.Observer {
	if r.blind {
		return model.Observer{}
	}
	return model.Observer{Logits: r.logits, Evictions: true, Step: func(step model.Step) error {
		state, err := r.session.Cache().State(0)
		rows := step.Seen
		if n := len(r.h.steps); n > 0 {
			rows -= r.h.steps[n-1].Seen
		}
		r.place += rows
		r.h.steps = append(r.h.steps, historyStep{replay.Step{Seen: step.Seen, Prompt: r.prompting, State: state, Evicted: step.Evicted}, rows, r.place, slices.Clone(step.Logits)})
		return err
	}}
}

func (r *recorder) prompt(ctx context.Context, ids []int32) error {
	r.prompting, r.place = true, 0
	err := r.session.Prompt(ctx, ids, r.observer(), nil)
	if err == nil && !r.blind {
		r.h.steps[len(r.h.steps)-1].Last = true
	}
	return err
}

func (r *recorder) decode(ctx context.Context, g model.Generation) error {
	r.prompting = false
	g.Observer, g.Emit = r.observer(), func(int32) error { return nil }
	_, err := r.session.Generate(ctx, g)
	return err
}

// history is what was noted.
func (r *recorder) history() *history {
	h := r.h
	if h.ids = slices.Clone(r.session.Tokens); h.plan.Exact {
		h.joinPrompts()
	}
	return &h
}

// joinPrompts makes one step of the chunks of each prompt: in a plan that is exact they are cut together.
func (h *history) joinPrompts() {
	var joined []historyStep
	rows := 0
	for _, s := range h.steps {
		if rows += s.rows; s.Prompt && !s.Last {
			continue
		}
		s.rows, rows = rows, 0
		joined = append(joined, s)
	}
	h.steps = joined
}

// at calls f for every layer and KV head.
func (h *history) at(f func(layer, kv int) error) error {
	for layer, l := range h.heads {
		for kv := range l.KV {
			if err := f(layer, kv); err != nil {
				return fmt.Errorf("layer %d, KV head %d: %w", layer, kv, err)
			}
		}
	}
	return nil
}

// number is that of a KV head in the model.
func (h *history) number(layer, kv int) int {
	return h2o.Geometry{Layers: h.heads[:layer]}.KVHeads() + kv
}

// victims are the evictions of one head.
func (s historyStep) victims(layer, kv int) (all []h2o.Eviction) {
	for _, e := range s.Evicted {
		if e.Layer == layer && e.Head == kv {
			all = append(all, e)
		}
	}
	return all
}

func (s historyStep) head(layer, kv int) *h2o.HeadState { return &s.State.Layers[layer].Heads[kv] }
