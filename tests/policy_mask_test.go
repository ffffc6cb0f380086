package tests

import (
	"math"
	"testing"

	"vkdecode/model"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// maskError is how far logits may lie from the twin's, or from those at another offset: the root of the NMSE.
const maskError = 1e-5

// Dropping a token is the same as giving it -inf for all queries that come later.
func TestEvictionEqualsAMask(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:200]
		if slow(d) {
			ids = ids[:100]
		}
		w := newTwin(t, m.Config)
		for _, settings := range []struct {
			policy, budget string
			ratio          float64
			chunk          int
			positions      string
		}{
			{"full", "100%", 0, 32, "original"}, {"h2o", "32", 0.5, 1, "original"}, {"h2o", "48", 0.25, 32, "original"}, {"window", "24", 0, 7, "original"},
			{"streaming", "24", 0, 1, "original"}, {"streaming", "24", 0, 1, "cache"}, {"streaming", "24", 0, 32, "cache"}, {"h2o", "32", 0.5, 1, "cache"},
			{"h2o:every=5", "32", 0.5, 1, "cache"}, {"tova", "48", 0, 7, "cache"}, {"full", "100%", 0, 32, "cache"},
		} {
			s := kv(settings.policy, settings.budget, settings.ratio, settings.chunk)
			s.Positions = settings.positions
			h := watch(t, m, s, ids, true)
			if e := compareLogits(w, h); !(e <= maskError) {
				t.Errorf("%v: logits differ by %.1e, want %.0e at most", settings, e, maskError)
			}
		}
	})
}

// compareLogits runs the twin over a history under the mask of its evictions: the largest difference of a step's logits.
func compareLogits(w *twin, h *history) (most float64) {
	w.reset()
	w.renumber = h.plan.Renumber
	for _, step := range h.steps {
		x := w.process(h.ids[len(w.ids):step.Seen])
		most = max(most, math.Sqrt(nmse(step.logits, w.logits(x))))
		for _, v := range step.Evicted {
			w.layers[v.Layer].heads[v.Head].gone[v.Position] = true
		}
	}
	return most
}

// Queries and keys that are renumbered differently are found.
func TestWrongRanksAreFound(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:60]
		s := kv("h2o", "16", 0.5, 1)
		s.Positions = "cache"
		h, w := watch(t, m, s, ids, true), newTwin(t, m.Config)
		h.plan.Renumber = false
		if e := compareLogits(w, h); e <= maskError {
			t.Errorf("logits differ by %.1e only", e)
		}
	})
}

// A mask that comes a step late, one that leaves out a head, and queries turned by another position's angle are found.
func TestWrongMasksAndAnglesAreFound(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:100]
		for name, spoil := range map[string]func(*history, *twin){
			"late mask": func(h *history, _ *twin) {
				for i := len(h.steps) - 1; i > 0; i-- {
					h.steps[i].Evicted = h.steps[i-1].Evicted
				}
			},
			"a head without mask": func(h *history, _ *twin) {
				for i := range h.steps {
					h.steps[i].Evicted = h.steps[i].Evicted[:max(0, len(h.steps[i].Evicted)-1)]
				}
			},
			"unshifted rotation": func(_ *history, w *twin) { w.turn = func(pos int) int { return min(pos, 16) } },
		} {
			h, w := watch(t, m, kv("h2o", "16", 0.5, 1), ids, true), newTwin(t, m.Config)
			spoil(h, w)
			if e := compareLogits(w, h); e <= maskError {
				t.Errorf("%s: logits differ by %.1e only", name, e)
			}
		}
	})
}

// Rotations are relative: a text whose cache holds nothing but itself gives the same logits wherever it stands. With a
// window of B a token's logits depend on the layers * B tokens before it, so that those further into the text than that
// know nothing of what came before.
func TestTextGivesTheSameLogitsAtAnyOffset(t *testing.T) {
	const budget, offset = 8, 300
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)
		text, reach := ids[1000:1100], len(m.Layers)*budget
		moved := append(append([]int32{}, ids[:offset]...), text...)
		run := func(ids []int32) []float32 {
			s, err := m.NewSession(t.Context(), model.SessionOptions{KV: kv("window", "8", 0, 1), Length: len(moved)})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			return promptLogits(t, s, ids)
		}
		here, there := run(text), run(moved)[offset*m.Vocab:]
		for i := range text {
			e := math.Sqrt(nmse(there[i*m.Vocab:(i+1)*m.Vocab], here[i*m.Vocab:(i+1)*m.Vocab]))
			if i >= reach && !(e <= maskError) {
				t.Errorf("token %d of the text: logits differ by %.1e, want %.0e at most", i, e, maskError)
			}
			if i == 0 && e <= maskError {
				t.Errorf("the first token of the text knows nothing of the tokens before it")
			}
		}
	})
}
