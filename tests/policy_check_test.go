package tests

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/ref"
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
	s, err := m.NewSession(model.SessionOptions{KV: settings, Length: length, Prompt: longest})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h, before := &history{plan: s.Plan(), heads: m.Geometry().Layers}, 0
	if h.begin, err = s.Cache().State(0); err != nil {
		t.Fatal(err)
	}
	decoding, place := false, 0
	o := model.Observer{Logits: logits, Evictions: true, Step: func(step model.Step) error {
		state, err := s.Cache().State(0)
		if err != nil {
			return err
		}
		rows := step.Seen - before
		place += rows
		h.steps = append(h.steps, historyStep{replay.Step{Seen: step.Seen, Prompt: !decoding, State: state, Evicted: step.Evicted}, rows, place, step.Logits})
		before = step.Seen
		return err
	}}
	for _, turn := range turns {
		decoding, place = false, 0
		if err := s.Prompt(t.Context(), turn.prompt, o, nil); err != nil {
			t.Fatal(err)
		}
		h.steps[len(h.steps)-1].Last = true
		decoding = true
		if turn.decode > 0 {
			generated(t, s, model.Generation{Tokens: turn.decode + 1, Observer: o}) // the last one is not processed
		}
	}
	h.ids = slices.Clone(s.Tokens)
	if h.plan.Exact {
		h.joinPrompts()
	}
	return h
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

// rules are the policy of a step, and whether it is cut at the end of a stage.
func (h *history) rules(s historyStep) (policy *h2o.Policy, staged bool) {
	if s.Prompt {
		return h.plan.Prefill, h.plan.Staged
	}
	return h.plan.Policy, false
}

// checkVictims tells whether every step evicted what the twin chooses by the scores read back from the device, and kept all
// others.
func checkVictims(h *history) error {
	err := h.at(func(layer, kv int) error {
		if got, want := h.begin.Layers[layer].Heads[kv].Budget, h.plan.Layers[layer].Budget; h.plan.Policy.Evicts && got != want {
			return fmt.Errorf("begins with a budget of %d slots, want %d", got, want)
		}
		return nil
	})
	twin := replay.NewTwin(h.plan, h.begin, 0)
	for _, s := range h.steps {
		twin.Step(s.Step)
	}
	if c := twin.First; c != nil {
		err = fmt.Errorf("%d tokens seen, layer %d, KV head %d: %s: %v went, the twin chooses %v", c.Step, c.Layer, c.Head, c.Reason, c.Device, c.Expected)
	}
	return err
}

// scoreErrors are the relative differences between scores and the twin's.
type scoreErrors struct {
	count, above int     // scores compared, and those more than scoreError apart
	most         float64 // the largest
}

// scoreError is how far a score may lie from the twin's, relative to it. The model itself is in f32, and where logits of
// attention are large their rounding alone comes near it: one score in 100,000 may lie up to twice as far apart.
const scoreError = 1e-5

func (s *scoreErrors) add(got float32, want float64) {
	const tiny = 1e-30 // what f32 makes of a probability below is as good as nothing
	e := math.Abs(float64(got)-want) / max(math.Abs(want), tiny)
	s.count++
	if s.most = max(s.most, e); !(e <= scoreError) {
		s.above++
	}
}

func (s *scoreErrors) check() error {
	if s.above > 1+s.count/100_000 || !(s.most <= 2*scoreError) {
		return fmt.Errorf("%d of %d scores lie more than %g from the twin's, one %.1e", s.above, s.count, scoreError, s.most)
	}
	return nil
}

// checkScores runs the twin on the same tokens, dropping what the cache dropped, and compares every score after every
// step, and the logits where there are any.
func checkScores(w *twin, h *history) (scores scoreErrors, logits float64, err error) {
	w.reset()
	w.renumber = h.plan.Renumber
	for _, step := range h.steps {
		x := w.process(h.ids[len(w.ids):step.Seen])
		if step.logits != nil {
			logits = max(logits, math.Sqrt(nmse(step.logits, w.logits(x))))
		}
		err := h.at(func(layer, kv int) error {
			of, kept := &w.layers[layer].heads[kv], step.head(layer, kv)
			policy, staged := h.rules(step)
			if staged && step.place == step.rows { // a prompt begins with what its policy would have given
				rule := replay.RuleOf(policy.Rule)
				for pos, score := range of.scores {
					of.scores[pos] = float64(rule.Begin(float32(score), pos, h.plan.Policy.Measures()))
				}
			}
			if staged && policy.Observation.Window > 0 {
				of.observe(policy, w, layer, kv, step.place)
			} else {
				of.score(replay.RuleOf(policy.Rule), &w.layers[layer], kv, h.number(layer, kv))
			}
			for i, pos := range kept.Positions {
				if judged, known := replay.Judged(h.plan, step.Step, h.number(layer, kv), ref.Slot{Pos: int(pos), Score: kept.Scores[i]}); known {
					scores.add(judged, of.scores[pos])
				}
				if staged && step.Last { // decoding begins with what the prompt left
					of.scores[pos] = float64(kept.Scores[i])
				}
			}
			for _, v := range step.victims(layer, kv) {
				scores.add(v.Score, of.scores[v.Position])
				of.gone[v.Position] = true
			}
			return scores.check()
		})
		if err != nil {
			return scores, logits, fmt.Errorf("%d tokens seen: %w", step.Seen, err)
		}
	}
	return scores, logits, nil
}

// score brings the scores of a head's tokens up to date with the rows that the layer has just processed.
func (h *twinHead) score(rule ref.Rule, l *twinLayer, kv, number int) {
	rows := slices.Clone(l.given)
	if group := len(rows[0].Probabilities) / len(l.heads); !rule.Layer {
		for i := range rows {
			rows[i].Probabilities = rows[i].Probabilities[kv*group : (kv+1)*group]
		}
	}
	for pos := range h.scores {
		if pos >= rows[0].Pos {
			h.scores[pos] = float64(rule.Born(pos))
		}
		h.scores[pos] = rule.Next(h.scores[pos], pos, pos, number, rows)
	}
}

// observe makes the scores of a head's tokens from what the last queries of a prompt, of which so many tokens are processed,
// give them and their neighbours.
func (h *twinHead) observe(policy *h2o.Policy, w *twin, layer, kv, place int) {
	l, window := &w.layers[layer], policy.Observation.Window
	var order []int // live tokens
	for pos, gone := range h.gone {
		if !gone {
			order = append(order, pos)
		}
	}
	given := l.observed(w, w.Layers[layer].Query, kv, min(window, place))
	for i, sums := range given {
		given[i] = nil
		for _, pos := range order {
			given[i] = append(given[i], sums[pos])
		}
	}
	o := ref.Observation{Window: window, Kernel: policy.Kernel, Average: policy.Average}
	for i, score := range o.Scores(given, int(policy.Reduce)) {
		h.scores[order[i]] = score
	}
}

// checkMass tells whether every query handed out a probability of one: the scores of all tokens ever, kept and evicted,
// sum to the number of queries.
func checkMass(h *history) error {
	return h.at(func(layer, kv int) error {
		var evicted float64
		for _, step := range h.steps {
			for _, v := range step.victims(layer, kv) {
				evicted += float64(v.Score)
			}
			sum := evicted
			for _, s := range step.head(layer, kv).Scores {
				sum += float64(s)
			}
			want := float64(step.Seen * h.heads[layer].Query / h.heads[layer].KV)
			if !(math.Abs(sum/want-1) <= 1e-4) {
				return fmt.Errorf("%d tokens seen: the scores sum to %g, want %g", step.Seen, sum, want)
			}
		}
		return nil
	})
}
