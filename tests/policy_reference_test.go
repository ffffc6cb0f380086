package tests

import (
	"fmt"
	"slices"
	"testing"

	"vkdecode/h2o"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// streamReference is H2O by its definition on the built-in model, in float64; tests/reference/h2o.py is what ran.
type streamReference struct {
	IDs  []int32
	Runs []streamRun
}

type streamRun struct {
	Chunk, Budget, Recent int
	LastPositions         []int          `json:"last_positions"` // of every step that evicted
	Victims               [][][][]uint32 // by step, layer, KV head: ascending
	Gaps                  [][][]*float64 // relative distance of the scores to choose between, nil = no choice
	LastLogits            floats         `json:"last_logits"`
}

// compareVictims checks that a run evicts the reference's victims, up to the first choice that is too close to be sure of.
// It returns how many evicting steps were compared.
func compareVictims(h *history, r streamRun) (compared int, err error) {
	steps := slices.DeleteFunc(slices.Clone(h.steps), func(s historyStep) bool { return len(s.Evicted) == 0 })
	if len(steps) != len(r.Victims) {
		return 0, fmt.Errorf("%d steps evicted something, want %d", len(steps), len(r.Victims))
	}
	for i, step := range steps {
		if step.Seen-1 != r.LastPositions[i] {
			return i, fmt.Errorf("step %d ends at position %d, want %d", i, step.Seen-1, r.LastPositions[i])
		}
		for layer, heads := range r.Gaps[i] {
			for kv, gap := range heads {
				if gap != nil && *gap < 2*scoreError {
					return i, nil
				}
				var got []uint32
				for _, v := range step.victims(layer, kv) {
					got = append(got, v.Position)
				}
				if slices.Sort(got); !slices.Equal(got, r.Victims[i][layer][kv]) {
					return i, fmt.Errorf("%d tokens seen, layer %d, KV head %d: %v went, want %v", step.Seen, layer, kv, got, r.Victims[i][layer][kv])
				}
			}
		}
	}
	return len(steps), nil
}

func TestH2OEvictsTheReferencesVictims(t *testing.T) {
	var r streamReference
	readJSON(t, "testdata/h2o.json", &r)
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m := builtinOn(t, d)
		for i, run := range r.Runs {
			if slow(d) && i%5 > 0 {
				continue // each chunk, budget and window is in one
			}
			name := fmt.Sprintf("chunk %d, budget %d, recent %d", run.Chunk, run.Budget, run.Recent)
			settings := kv("h2o", fmt.Sprint(run.Budget), float64(run.Recent)/float64(run.Budget), run.Chunk)
			h := watch(t, m, settings, r.IDs, true)
			compared, err := compareVictims(h, run)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if compared < len(run.Victims) {
				t.Logf("%s: %d of %d evicting steps compared", name, compared, len(run.Victims))
				continue
			}
			last := h.steps[len(h.steps)-1].logits
			if e := nmse(last[len(last)-m.Vocab:], run.LastLogits); !(e <= errorF32) {
				t.Errorf("%s: NMSE of the last logits %.1e, want %.0e at most", name, e, errorF32)
			}
		}
	})
}

// The reference's victims are those of its own settings only.
func TestH2OWithOtherSettingsEvictsOthers(t *testing.T) {
	var r streamReference
	readJSON(t, "testdata/h2o.json", &r)
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		run := r.Runs[slices.IndexFunc(r.Runs, func(r streamRun) bool { return r.Chunk == 1 && r.Recent == r.Budget/2 })]
		for name, change := range map[string]func(*h2o.Settings){
			"a shorter window": func(s *h2o.Settings) { s.RecentRatio = float64(run.Recent-1) / float64(run.Budget) },
			"a sink":           func(s *h2o.Settings) { s.Sinks = 1 },
			"another policy":   func(s *h2o.Settings) { s.Policy = kv("window", "1", 0, 1).Policy },
		} {
			settings := kv("h2o", fmt.Sprint(run.Budget), float64(run.Recent)/float64(run.Budget), run.Chunk)
			change(&settings)
			if _, err := compareVictims(watch(t, builtinOn(t, d), settings, r.IDs, false), run); err == nil {
				t.Errorf("%s evicts the same victims", name)
			}
		}
	})
}
