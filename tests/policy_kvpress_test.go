package tests

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// pressReference is what stays of prompts whose keys and values are held until their end: by the presses of kvpress where
// it has the setting, by the definitions otherwise; tests/reference/kvpress.py is what ran.
type pressReference struct{ Prompts []pressPrompt }

// pressPrompt are the runs over one prompt of one model. Scores and kept positions are of the named layers.
type pressPrompt struct {
	Model  string
	IDs    []int32
	Layers []int
	Scores []struct {
		Values [][]floats // by layer and KV head, or one for all heads; what lies behind always stays
	}
	Runs []pressRun
}

type pressRun struct {
	Policy string
	Budget int
	Layers []int        // budgets of all layers, where the policy does not choose them itself
	By     string       // kvpress or definition
	Scores int          // which of the prompt's
	Counts [][]int      // kept tokens of all layers, by KV head
	Kept   [][][]uint32 // positions by layer and KV head, ascending
}

func pressPrompts(t testing.TB) (builtin, smollm2 *pressPrompt) {
	t.Helper()
	var r pressReference
	readJSON(t, "testdata/kvpress.json", &r)
	return &r.Prompts[0], &r.Prompts[1]
}

// settings are a run's, in chunks that divide neither the prompts nor the windows.
func (r *pressRun) settings(t testing.TB) h2o.Settings {
	t.Helper()
	s := kv(r.Policy, fmt.Sprint(r.Budget), 0.5, 27)
	s.Prompt = "exact"
	for layer, budget := range r.Layers {
		own, err := h2o.ParseLayers(fmt.Sprintf("%d:budget=%d", layer, budget))
		if err != nil {
			t.Fatal(err)
		}
		s.Layers = append(s.Layers, own...)
	}
	return s
}

// agreement is how near a run came to the reference.
type agreement struct {
	bound  float64 // most that a score may differ, relative
	others int     // tokens that stayed, or went, unlike the reference's, their scores being as near to the cut as the bound
	most   float64 // relative difference of a score
}

// most tokens of a run that may be others.
const mostOthers = 2

// compareKept checks that every head keeps as many tokens as in the reference, and the same ones but for those whose score
// is too near to the cut to be sure of, and that the scores are the reference's.
func (a *agreement) compareKept(h *history, p *pressPrompt, r *pressRun) error {
	last := h.steps[len(h.steps)-1]
	return h.at(func(layer, kv int) error {
		if got, want := len(last.head(layer, kv).Positions), r.Counts[layer][kv]; got != want {
			return fmt.Errorf("%d tokens are kept, want %d", got, want)
		}
		i := slices.Index(p.Layers, layer)
		if i < 0 {
			return nil
		}
		scores := p.Scores[r.Scores].Values[i]
		of := scores[min(kv, len(scores)-1)]
		if err := a.compareScores(last.head(layer, kv), last.victims(layer, kv), of); err != nil {
			return err
		}
		return a.comparePositions(last.head(layer, kv).Positions, r.Kept[i][kv], of, len(h.ids))
	})
}

// compareScores compares the scores of tokens that stayed and that went.
func (a *agreement) compareScores(kept *h2o.HeadState, victims []h2o.Eviction, want floats) error {
	all := map[uint32]float32{}
	for i, pos := range kept.Positions {
		all[pos] = kept.Scores[i]
	}
	for _, v := range victims {
		all[v.Position] = v.Score
	}
	for pos, score := range want {
		got, found := all[uint32(pos)]
		e := math.Abs(float64(got)/float64(score) - 1)
		if !found || !(e <= a.bound) {
			return fmt.Errorf("position %d has the score %g, want %g within %g", pos, got, score, a.bound)
		}
		a.most = max(a.most, e)
	}
	return nil
}

// comparePositions compares what stayed of so many tokens. The cut lies between the lowest score that stays in the
// reference and the highest that goes; of two equal scores there it is known who stays.
func (a *agreement) comparePositions(got, want []uint32, scores floats, tokens int) error {
	stays, goes := math.Inf(1), math.Inf(-1)
	in := func(kept []uint32, pos int) bool { return slices.Contains(kept, uint32(pos)) }
	for pos, score := range scores {
		if in(want, pos) {
			stays = min(stays, float64(score))
		} else {
			goes = max(goes, float64(score))
		}
	}
	for pos := range tokens {
		if in(got, pos) == in(want, pos) {
			continue
		}
		if pos >= len(scores) {
			return fmt.Errorf("position %d: kept %v, want %v; it lies behind the scores", pos, in(got, pos), in(want, pos))
		}
		score := float64(scores[pos])
		near := score <= goes*(1+2*a.bound) && score >= stays*(1-2*a.bound)
		if a.others++; !near || goes == stays || a.others > mostOthers {
			return fmt.Errorf("position %d: kept %v, want %v; its score is %g, the cut lies between %g and %g, and of %d tokens a choice is not the reference's",
				pos, in(got, pos), in(want, pos), score, goes, stays, a.others)
		}
	}
	return nil
}

// compareRuns compares every step-th run of a prompt.
func compareRuns(t *testing.T, m *model.Model, p *pressPrompt, bound float64, step int) {
	runs, others, most := 0, 0, 0.0
	for i := 0; i < len(p.Runs); i += step {
		r, a := &p.Runs[i], agreement{bound: bound}
		if err := a.compareKept(watch(t, m, r.settings(t), p.IDs, false), p, r); err != nil {
			t.Errorf("%s, budget %d, by %s: %v", r.Policy, r.Budget, r.By, err)
		}
		runs, others, most = runs+1, others+a.others, max(most, a.most)
	}
	t.Logf("%s: %d runs, %d tokens as near to the cut as the error are not the reference's, scores differ by %.1e at most", p.Model, runs, others, most)
}

func TestPromptsKeepWhatKvpressKeeps(t *testing.T) {
	builtin, _ := pressPrompts(t)
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		step := 1
		if slow(d) {
			step = 3
		}
		compareRuns(t, builtinOn(t, d), builtin, scoreError, step)
	})
}

func TestPromptsOfSmolLM2KeepWhatKvpressKeeps(t *testing.T) {
	_, smollm2 := pressPrompts(t)
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		if slow(d) {
			return // the built-in model runs the same kernels
		}
		compareRuns(t, smollm2On(t, d), smollm2, 5*scoreError, 2) // 30 layers
	})
}
