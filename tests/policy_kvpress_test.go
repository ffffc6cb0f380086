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
		Name   string
		Values [][]floats // by layer and KV head, or one for all heads: of the tokens before what always stays
	}
	Runs []pressRun
}

type pressRun struct {
	Policy string
	Budget int
	Layers []int        // budgets of all layers, where the policy does not have them by itself
	By     string       // kvpress or definition
	Scores int          // which of the prompt's
	Counts [][]int      // kept tokens by layer and KV head, of all layers
	Kept   [][][]uint32 // positions by layer and KV head, ascending
}

func pressPrompts(t testing.TB) (builtin, smollm2 *pressPrompt) {
	var r pressReference
	readJSON(t, "testdata/kvpress.json", &r)
	return &r.Prompts[0], &r.Prompts[1]
}

// settings are a run's, in chunks that do not divide the prompt or the windows.
func (r *pressRun) settings() h2o.Settings {
	s := kv(r.Policy, fmt.Sprint(r.Budget), 0.5, 27)
	s.Prompt = "exact"
	for layer, budget := range r.Layers {
		whole, err := h2o.ParseBudget(fmt.Sprint(budget - 1))
		if err != nil {
			panic(err)
		}
		s.Layers = append(s.Layers, h2o.LayerBudget{First: layer, Last: layer, Recent: kv("full", "1", 0, 1).Budget, Heavy: whole})
	}
	return s
}

// margin is how far scores may lie from the reference's, relative to them, and how many tokens of a run may be others
// because theirs lie as close to the cut.
type margin struct {
	error float64
	swaps int
}

// agreement is what a comparison with a run found.
type agreement struct {
	swaps  int     // tokens that stayed in the place of others whose scores are as good
	scores int     // compared
	most   float64 // largest relative difference of a score
}

// compareKept checks that every head keeps as many tokens as the reference's, and the same ones, but for those whose score
// in the reference lies within the error from the cut; and that the scores are the reference's.
func compareKept(h *history, p *pressPrompt, r *pressRun, m margin) (a agreement, err error) {
	last := h.steps[len(h.steps)-1]
	err = h.at(func(layer, kv int) error {
		if got, want := len(last.head(layer, kv).Positions), r.Counts[layer][kv]; got != want {
			return fmt.Errorf("%d tokens are kept, want %d", got, want)
		}
		i := slices.Index(p.Layers, layer)
		if i < 0 {
			return nil
		}
		values := p.Scores[r.Scores].Values[i]
		if err := a.compareHead(last, layer, kv, values[min(kv, len(values)-1)], r.Kept[i][kv], m.error); err != nil {
			return err
		}
		if a.swaps > m.swaps {
			return fmt.Errorf("%d tokens are not the reference's, want %d at most, however close their scores", a.swaps, m.swaps)
		}
		return nil
	})
	return a, err
}

func (a *agreement) compareHead(s historyStep, layer, kv int, scores floats, want []uint32, bound float64) error {
	kept := s.head(layer, kv)
	// The cut lies between the lowest score that stays in the reference and the highest that goes.
	stays, goes := math.Inf(1), math.Inf(-1)
	for pos, score := range scores {
		if _, in := slices.BinarySearch(want, uint32(pos)); in {
			stays = min(stays, float64(score))
		} else {
			goes = max(goes, float64(score))
		}
	}
	for pos := range uint32(len(scores)) {
		_, mine := slices.BinarySearch(kept.Positions, pos)
		_, theirs := slices.BinarySearch(want, pos)
		score := float64(scores[pos])
		near := score <= goes*(1+2*bound) && score >= stays*(1-2*bound)
		switch {
		case mine == theirs:
		case near && stays != goes: // of equal scores it is known who stays
			a.swaps++
		default:
			return fmt.Errorf("position %d: kept %v, want %v (its score is %g, the cut lies between %g and %g)", pos, mine, theirs, score, goes, stays)
		}
	}
	if always := want[len(want)-1]; len(scores) <= int(always) { // behind the scores all stay
		if n := len(kept.Positions); kept.Positions[n-1] != always || !slices.Equal(kept.Positions[n-int(always)-1+len(scores):], want[len(want)-int(always)-1+len(scores):]) {
			return fmt.Errorf("the last positions are not all kept: %v", kept.Positions)
		}
	}
	all := map[uint32]float32{}
	for i, pos := range kept.Positions {
		all[pos] = kept.Scores[i]
	}
	for _, v := range s.victims(layer, kv) {
		all[v.Position] = v.Score
	}
	for pos, score := range scores {
		e := math.Abs(float64(all[uint32(pos)])-float64(score)) / float64(score)
		if a.scores++; !(e <= bound) {
			return fmt.Errorf("position %d has the score %g, want %g within %g", pos, all[uint32(pos)], score, bound)
		}
		a.most = max(a.most, e)
	}
	return nil
}

// compareRuns compares all runs of a prompt.
func compareRuns(t *testing.T, m *model.Model, p *pressPrompt, bound margin) {
	most := 0.0
	for i := range p.Runs {
		r := &p.Runs[i]
		a, err := compareKept(watch(t, m, r.settings(), p.IDs, false), p, r, bound)
		if err != nil {
			t.Errorf("%s, budget %d, by %s: %v", r.Policy, r.Budget, r.By, err)
		}
		if a.swaps > 0 {
			t.Logf("%s, budget %d: %d tokens are not the reference's, their scores are as close to the cut as the error", r.Policy, r.Budget, a.swaps)
		}
		most = max(most, a.most)
	}
	t.Logf("%s: %d runs, scores differ by %.1e at most", p.Model, len(p.Runs), most)
}

func TestPromptsKeepWhatKvpressKeeps(t *testing.T) {
	builtin, _ := pressPrompts(t)
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		compareRuns(t, builtinOn(t, d), builtin, margin{error: scoreError, swaps: 0})
	})
}

func TestPromptsOfALargerModelKeepWhatKvpressKeeps(t *testing.T) {
	_, smollm2 := pressPrompts(t)
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		compareRuns(t, smollm2On(t, d), smollm2, margin{error: 1e-3, swaps: 4})
	})
}
