package tests

import (
	"fmt"
	"math"
	"slices"

	"vkdecode/h2o"
	"vkdecode/ref"
	"vkdecode/replay"
)

// rules are the policy of a step, and whether it is cut at the end of a stage.
func (h *history) rules(s historyStep) (policy *h2o.Policy, staged bool) {
	if s.Prompt && h.plan.Staged {
		return h.plan.Prefill, true
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

// checkMass tells whether every query handed out a probability of one, where scores are sums of all of it: those of all tokens
// ever, kept and evicted, sum to the number of queries.
func checkMass(h *history) error {
	rule := h.plan.Policy.Rule
	if rule.Update != h2o.UpdateAdd || rule.Reduce == h2o.ReduceMax || rule.Decay != 1 || rule.Lifetime || rule.Selfless || h.plan.Staged {
		return nil
	}
	return h.at(func(layer, kv int) error {
		queries := h.heads[layer].Query
		if !rule.Layer {
			queries /= h.heads[layer].KV
		}
		if rule.Reduce == h2o.ReduceMean {
			queries = 1
		}
		var evicted float64
		for _, step := range h.steps {
			for _, v := range step.victims(layer, kv) {
				evicted += float64(v.Score)
			}
			sum := evicted
			for _, s := range step.head(layer, kv).Scores {
				sum += float64(s)
			}
			want := float64(step.Seen * queries)
			if !(math.Abs(sum/want-1) <= 1e-4) {
				return fmt.Errorf("%d tokens seen: the scores sum to %g, want %g", step.Seen, sum, want)
			}
		}
		return nil
	})
}
