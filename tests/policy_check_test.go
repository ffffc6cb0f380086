package tests

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/ref"
)

// history is what a run's cache did, step by step: all that the checks look at.
type history struct {
	ids   []int32
	plan  *h2o.Plan
	heads []h2o.Heads // by layer
	steps []historyStep
}

type historyStep struct {
	seen    int // tokens after the step
	rows    int // tokens of the step
	prompt  bool
	ends    bool // a prompt
	place   int  // tokens of the prompt after the step
	state   *h2o.State
	evicted []h2o.Eviction
	logits  []float32 // (rows of the step, vocab), nil unless asked for
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
	decoding, place := false, 0
	o := model.Observer{Logits: logits, Evictions: true, Step: func(step model.Step) error {
		state, err := s.Cache().State(0)
		if err != nil {
			return err
		}
		rows := step.Seen - before
		place += rows
		h.steps = append(h.steps, historyStep{step.Seen, rows, !decoding, false, place, state, step.Evicted, step.Logits})
		before = step.Seen
		return err
	}}
	for _, turn := range turns {
		decoding, place = false, 0
		if err := s.Prompt(t.Context(), turn.prompt, o, nil); err != nil {
			t.Fatal(err)
		}
		h.steps[len(h.steps)-1].ends = true
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
		if rows += s.rows; s.prompt && !s.ends {
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

// victims are the evictions of one head.
func (s historyStep) victims(layer, kv int) (all []h2o.Eviction) {
	for _, e := range s.evicted {
		if e.Layer == layer && e.Head == kv {
			all = append(all, e)
		}
	}
	return all
}

func (s historyStep) head(layer, kv int) *h2o.HeadState { return &s.state.Layers[layer].Heads[kv] }

// slot is a token that competes for its place.
type slot struct {
	pos   uint32
	score float32
}

func compareSlots(a, b slot) int {
	return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.pos, b.pos))
}

// protected tells whether a position cannot be evicted once so many tokens were seen, of which the last ones are recent.
func protected(p *h2o.Plan, pos uint32, seen, recent int) bool {
	for _, span := range p.Pinned {
		if int(pos) >= span.Begin && int(pos) < span.End {
			return true
		}
	}
	return int(pos) < p.Sinks || int(pos) >= seen-recent
}

// rules are the policy of a step, the positions that it protects in a layer, and whether it is cut at the end of a stage.
func (h *history) rules(s historyStep, layer int) (policy *h2o.Policy, recent int, staged bool) {
	l := h.plan.Layers[layer]
	if s.prompt {
		return h.plan.Prefill, l.Prompt, h.plan.Staged
	}
	return h.plan.Policy, l.Recent, false
}

// judged is the score by which a kept token was judged: at the end of a prompt it may have been exchanged for what the
// policy of decoding begins with, and then is not always known.
func (h *history) judged(s historyStep, layer, kv int, pos uint32, score float32) (judged float32, known bool) {
	policy, _, staged := h.rules(s, layer)
	if !staged || !s.ends {
		return score, true
	}
	rule := ruleOf(policy.Rule)
	switch rule.Update {
	case ref.UpdateNone:
		return rule.Born(int(pos)), true
	case ref.UpdateHash:
		return float32(ref.Hash(rule.Seed, s.seen, layer*h.heads[layer].KV+kv, int(pos))), true
	}
	return score, h.plan.Policy.Update != h2o.UpdateNone
}

// checkVictims tells whether every step evicted exactly the tokens of lowest score among those that may go, by the scores
// read back from the device, the older of equal ones first, and kept all others. A policy that admits what leaves the
// window takes it last.
func checkVictims(h *history) error {
	return h.at(func(layer, kv int) error {
		var live []uint32
		seen, gone := 0, 0
		for _, step := range h.steps {
			for ; seen < step.seen; seen++ {
				live = append(live, uint32(seen))
			}
			kept, victims := step.head(layer, kv), step.victims(layer, kv)
			var candidates, victimSlots []slot
			all := slices.Clone(kept.Positions)
			policy, recent, staged := h.rules(step, layer)
			knowsAll := true
			rank := func(pos uint32, score float32) slot {
				if policy.Admit && !staged && int(pos) >= seen-step.rows-recent {
					score = float32(math.Inf(1))
				}
				return slot{pos, score}
			}
			for i, pos := range kept.Positions {
				judged, known := h.judged(step, layer, kv, pos, kept.Scores[i])
				if knowsAll = knowsAll && known; !protected(h.plan, pos, seen, recent) {
					candidates = append(candidates, rank(pos, judged))
				}
			}
			for _, v := range victims {
				if protected(h.plan, v.Position, seen, recent) {
					return fmt.Errorf("%d tokens seen: position %d went, which is protected", seen, v.Position)
				}
				candidates, victimSlots = append(candidates, rank(v.Position, v.Score)), append(victimSlots, rank(v.Position, v.Score))
				all = append(all, v.Position)
			}
			if slices.Sort(all); !slices.Equal(all, live) {
				return fmt.Errorf("%d tokens seen: kept and evicted positions are %v, want %v", seen, all, live)
			}
			budget, want := kept.Budget, h.plan.Layers[layer].Budget
			if !h.plan.Policy.Evicts {
				budget = want
			}
			if h.plan.Prefill.Share != h2o.PerHead && budget != want {
				return fmt.Errorf("%d tokens seen: budget of %d slots, want %d", seen, budget, want)
			}
			excess := max(0, len(live)-budget)
			if every := h.plan.Policy.Every; !staged && (every == 0 && !step.prompt || excess < every && (!step.prompt || h.plan.Chunk == 1 && !step.ends)) {
				excess = 0 // waits for more
			}
			if gone += excess; len(victims) != excess || kept.Evicted != gone {
				return fmt.Errorf("%d tokens seen: %d evicted and %d in all, want %d and %d", seen, len(victims), kept.Evicted, excess, gone)
			}
			slices.SortFunc(candidates, compareSlots)
			slices.SortFunc(victimSlots, compareSlots)
			for i, v := range victimSlots {
				if want := candidates[i]; v != want && knowsAll {
					return fmt.Errorf("%d tokens seen: position %d (score %g) went, want %d (score %g)", seen, v.pos, v.score, want.pos, want.score)
				}
			}
			live = slices.Clone(kept.Positions)
		}
		return nil
	})
}

// scoreErrors are the differences between scores and the twin's, relative to it.
type scoreErrors struct {
	count, above int     // scores compared, and those more than scoreError apart
	most         float64 // the largest
	far          int     // scores that lie more than scoreError apart relative to them, or for those below 1 absolutely
}

// scoreError is how far a score may lie from the twin's, relative to it. The model itself is in f32, and where logits of
// attention are large their rounding alone comes near it: of the scores below 1, which are sums of few or of small
// probabilities, one in 100,000 may lie up to twice as far apart.
const scoreError = 1e-5

func (s *scoreErrors) add(got float32, want float64) {
	const tiny = 1e-30 // what f32 makes of a probability below is as good as nothing
	d := math.Abs(float64(got) - want)
	e := d / max(math.Abs(want), tiny)
	s.count++
	if s.most = max(s.most, e); !(e <= scoreError) {
		s.above++
	}
	if !(d <= scoreError*max(math.Abs(want), 1)) {
		s.far++
	}
}

func (s *scoreErrors) check() error {
	if s.far > 0 || s.above > 1+s.count/100_000 || !(s.most <= 2*scoreError) {
		return fmt.Errorf("%d of %d scores lie more than %g from the twin's and %d are far from it, one %.1e", s.above, s.count, scoreError, s.far, s.most)
	}
	return nil
}

// checkScores runs the twin on the same tokens, dropping what the cache dropped, and compares every score after every
// step, and the logits where there are any.
func checkScores(w *twin, h *history) (scores scoreErrors, logits float64, err error) {
	w.reset()
	w.renumber = h.plan.Renumber
	for _, step := range h.steps {
		x := w.process(h.ids[len(w.ids):step.seen])
		if step.logits != nil {
			logits = max(logits, math.Sqrt(nmse(step.logits, w.logits(x))))
		}
		err := h.at(func(layer, kv int) error {
			of, kept := &w.layers[layer].heads[kv], step.head(layer, kv)
			policy, _, staged := h.rules(step, layer)
			if staged && step.place == step.rows { // a prompt begins with what its policy would have given
				of.begin(ruleOf(policy.Rule), h.plan.Policy.Rule)
			}
			if staged && policy.Observation.Window > 0 {
				of.observe(policy, w, layer, kv, step.place)
			} else {
				of.score(ruleOf(policy.Rule), &w.layers[layer], layer, kv)
			}
			for i, pos := range kept.Positions {
				if judged, known := h.judged(step, layer, kv, pos, kept.Scores[i]); known {
					scores.add(judged, of.scores[pos])
				}
				if staged && step.ends { // decoding begins with what the prompt left
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
			return scores, logits, fmt.Errorf("%d tokens seen: %w", step.seen, err)
		}
	}
	return scores, logits, nil
}

// begin makes of the scores that decoding left what a prompt's policy begins with.
func (h *twinHead) begin(prompt ref.Rule, decode h2o.Rule) {
	for pos := range h.scores {
		switch {
		case prompt.Update == ref.UpdateNone:
			h.scores[pos] = float64(prompt.Born(pos))
		case decode.Update != h2o.UpdateAdd && decode.Update != h2o.UpdateLast:
			h.scores[pos] = 0
		}
	}
}

// score brings the scores of a head's tokens up to date with the rows that the layer has just processed.
func (h *twinHead) score(rule ref.Rule, l *twinLayer, layer, kv int) {
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
		h.scores[pos] = rule.Next(h.scores[pos], pos, pos, layer*len(l.heads)+kv, rows)
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
	before, half := max(0, len(order)-window), policy.Kernel/2
	sums := l.observed(w, w.Layers[layer].Query, kv, min(window, place))
	for i, pos := range order {
		h.scores[pos] = 0
		for _, sum := range sums {
			pooled, most := 0.0, 0.0
			for n := max(0, i-half); n < min(before, i+half+1); n++ {
				pooled += sum[order[n]]
				most = max(most, sum[order[n]])
			}
			switch {
			case i >= before:
				pooled = sum[pos]
			case policy.Average:
				pooled /= float64(policy.Kernel)
			default:
				pooled = most
			}
			switch policy.Reduce {
			case h2o.ReduceMax:
				h.scores[pos] = max(h.scores[pos], pooled)
			case h2o.ReduceMean:
				h.scores[pos] += pooled / float64(len(sums))
			default:
				h.scores[pos] += pooled
			}
		}
	}
}

// ruleOf is a policy's rule as its twin has it.
func ruleOf(r h2o.Rule) ref.Rule {
	return ref.Rule{Birth: int(r.Birth), Update: int(r.Update), Reduce: int(r.Reduce), Layer: r.Layer, Selfless: r.Selfless, Lifetime: r.Lifetime, Admit: r.Admit, Decay: r.Decay, Seed: r.Seed}
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
			want := float64(step.seen * h.heads[layer].Query / h.heads[layer].KV)
			if !(math.Abs(sum/want-1) <= 1e-4) {
				return fmt.Errorf("%d tokens seen: the scores sum to %g, want %g", step.seen, sum, want)
			}
		}
		return nil
	})
}
