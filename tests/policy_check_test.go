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
	state   *h2o.State
	evicted []h2o.Eviction
	logits  []float32 // (rows of the step, vocab), nil unless asked for
}

// watch processes ids in a session of their own and records what the cache did, with the logits if asked for.
func watch(t testing.TB, m *model.Model, settings h2o.Settings, ids []int32, logits bool) *history {
	t.Helper()
	s, err := m.NewSession(model.SessionOptions{KV: settings, Length: len(ids)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h := &history{ids: ids, plan: s.Plan(), heads: m.Geometry().Layers}
	before := 0
	err = s.Prompt(t.Context(), ids, model.Observer{Logits: logits, Evictions: true, Step: func(step model.Step) error {
		state, err := s.Cache().State(0)
		if err != nil {
			return err
		}
		h.steps = append(h.steps, historyStep{step.Seen, step.Seen - before, state, step.Evicted, step.Logits})
		before = step.Seen
		return err
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return h
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

// protected tells whether a position cannot be evicted once so many tokens were seen.
func protected(p *h2o.Plan, pos uint32, seen int) bool {
	for _, span := range p.Pinned {
		if int(pos) >= span.Begin && int(pos) < span.End {
			return true
		}
	}
	return int(pos) < p.Sinks || int(pos) >= seen-p.Recent
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
			rank := func(pos uint32, score float32) slot {
				if h.plan.Policy.Admit && int(pos) >= seen-step.rows-h.plan.Recent {
					score = float32(math.Inf(1))
				}
				return slot{pos, score}
			}
			for i, pos := range kept.Positions {
				if !protected(h.plan, pos, seen) {
					candidates = append(candidates, rank(pos, kept.Scores[i]))
				}
			}
			for _, v := range victims {
				if protected(h.plan, v.Position, seen) {
					return fmt.Errorf("%d tokens seen: position %d went, which is protected", seen, v.Position)
				}
				candidates, victimSlots = append(candidates, rank(v.Position, v.Score)), append(victimSlots, rank(v.Position, v.Score))
				all = append(all, v.Position)
			}
			if slices.Sort(all); !slices.Equal(all, live) {
				return fmt.Errorf("%d tokens seen: kept and evicted positions are %v, want %v", seen, all, live)
			}
			excess := max(0, len(live)-h.plan.Budget)
			if every := h.plan.Policy.Every; excess < every && every > 0 && h.plan.Chunk == 1 && seen < len(h.ids) {
				excess = 0 // waits for more
			}
			if gone += excess; len(victims) != excess || kept.Evicted != gone {
				return fmt.Errorf("%d tokens seen: %d evicted and %d in all, want %d and %d", seen, len(victims), kept.Evicted, excess, gone)
			}
			slices.SortFunc(candidates, compareSlots)
			slices.SortFunc(victimSlots, compareSlots)
			for i, v := range victimSlots {
				if want := candidates[i]; v != want {
					return fmt.Errorf("%d tokens seen: position %d (score %g) went, want %d (score %g)", seen, v.pos, v.score, want.pos, want.score)
				}
			}
			live = slices.Clone(kept.Positions)
		}
		return nil
	})
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
	for _, step := range h.steps {
		x := w.process(h.ids[len(w.ids):step.seen])
		if step.logits != nil {
			logits = max(logits, math.Sqrt(nmse(step.logits, w.logits(x))))
		}
		err := h.at(func(layer, kv int) error {
			of, kept := &w.layers[layer].heads[kv], step.head(layer, kv)
			of.score(ruleOf(h.plan.Policy.Rule), &w.layers[layer], layer, kv)
			for i, pos := range kept.Positions {
				scores.add(kept.Scores[i], of.scores[pos])
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
