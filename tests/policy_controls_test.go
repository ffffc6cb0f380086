package tests

import (
	"math/rand/v2"
	"slices"
	"testing"

	"vkdecode/h2o"
	"vkdecode/ref"
	"vkdecode/replay"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// forgery changes a history into one that the named checks must refuse.
type forgery struct {
	name                  string
	change                func(h *history)
	victims, scores, mass bool // the checks that must fail
}

var forgeries = []forgery{
	{"none", func(*history) {}, false, false, false},
	{"shuffled scores", func(h *history) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, s := range h.steps {
			scores := s.head(1, 0).Scores
			r.Shuffle(len(scores), func(i, j int) { scores[i], scores[j] = scores[j], scores[i] })
		}
	}, true, true, false},
	{"reversed argmin", func(h *history) {
		for _, s := range h.steps {
			for i, v := range s.Evicted { // the highest scores that could go stand in the log, the victims are still there
				kept := s.head(v.Layer, v.Head)
				entry, best := ref.Head{Recent: h.plan.Recent}, -1
				for j, pos := range kept.Positions {
					if entry.Eligible(int(pos), s.Seen-1) && (best < 0 || kept.Scores[j] > kept.Scores[best]) {
						best = j
					}
				}
				if best >= 0 {
					s.Evicted[i].Position, kept.Positions[best] = kept.Positions[best], v.Position
					s.Evicted[i].Score, kept.Scores[best] = kept.Scores[best], v.Score
				}
			}
		}
	}, true, true, false},
	{"window one longer", func(h *history) { h.window(1) }, true, false, false},
	{"window one shorter", func(h *history) { h.window(-1) }, true, false, false},
	{"budget one larger", func(h *history) {
		for _, s := range h.steps {
			for i := range s.State.Layers {
				for j := range s.State.Layers[i].Heads {
					s.State.Layers[i].Heads[j].Budget++
				}
			}
		}
	}, true, false, false},
	{"one eviction not logged", func(h *history) {
		last := &h.steps[len(h.steps)-1]
		last.Evicted = last.Evicted[1:]
	}, true, false, true},
	{"one score a thousandth larger", func(h *history) { h.steps[len(h.steps)/2].head(2, 1).Scores[7] *= 1.001 }, false, true, false},
	{"queries counted twice", func(h *history) {
		for _, s := range h.steps {
			for i := range s.head(0, 1).Scores {
				s.head(0, 1).Scores[i] *= 2
			}
			for i := range s.Evicted {
				s.Evicted[i].Score *= 2
			}
		}
	}, false, true, true},
	{"heads exchanged", func(h *history) {
		for _, s := range h.steps {
			a, b := s.head(2, 0), s.head(2, 1)
			*a, *b = *b, *a
			for i := range s.Evicted {
				if s.Evicted[i].Layer == 2 {
					s.Evicted[i].Head ^= 1
				}
			}
		}
	}, false, true, false},
}

// The checks of the policies' histories can fail, each for the fault that it is there to find.
func TestForgedHistoriesAreFound(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:120]
		w, genuine := newTwin(t, m.Config), watch(t, m, kv("h2o", "24", 0.5, 1), ids, false)
		for _, f := range forgeries {
			h := genuine.clone()
			f.change(h)
			_, _, scores := checkScores(w, h)
			for _, c := range []struct {
				check string
				found error
				must  bool
			}{{"victims", checkVictims(h), f.victims}, {"scores", scores, f.scores}, {"mass", checkMass(h), f.mass}} {
				if (c.must || f.name == "none") && (c.found != nil) != c.must {
					t.Errorf("%s: the check of the %s says %v", f.name, c.check, c.found)
				}
			}
		}
	})
}

// window lies about the protected window.
func (h *history) window(by int) {
	for i := range h.plan.Layers {
		h.plan.Layers[i].Recent += by
		h.plan.Layers[i].Prompt += by
	}
}

// clone copies what a forgery changes.
func (h *history) clone() *history {
	plan := *h.plan
	plan.Layers = slices.Clone(plan.Layers)
	c := &history{ids: h.ids, plan: &plan, heads: h.heads, begin: h.begin}
	for _, s := range h.steps {
		state := &h2o.State{}
		for _, l := range s.State.Layers {
			var heads []h2o.HeadState
			for _, head := range l.Heads {
				heads = append(heads, h2o.HeadState{Positions: slices.Clone(head.Positions), Scores: slices.Clone(head.Scores), Evicted: head.Evicted, Budget: head.Budget})
			}
			state.Layers = append(state.Layers, h2o.LayerState{Heads: heads})
		}
		c.steps = append(c.steps, historyStep{replay.Step{Seen: s.Seen, Prompt: s.Prompt, Last: s.Last, State: state, Evicted: slices.Clone(s.Evicted)}, s.rows, s.place, s.logits})
	}
	return c
}
