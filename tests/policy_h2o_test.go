package tests

import (
	"fmt"
	"reflect"
	"testing"

	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

func TestH2OEvictsTheLowestScoresOverAPassage(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, all, budgets := builtinOn(t, d), passageIDs(t), []int{16, 64, 256}
		if slow(d) {
			all, budgets = all[:300], budgets[:2]
		}
		for _, chunk := range []int{1, 32} {
			for _, budget := range budgets {
				for _, ratio := range []float64{0, 0.5, 1} {
					t.Run(fmt.Sprintf("chunk %d, budget %d, recent %g", chunk, budget, ratio), func(t *testing.T) {
						ids := all
						if !*whole && (budget != 64 || ratio != 0.5) { // one in each chunk goes on to the end
							ids = ids[:min(len(ids), budget+300)]
						}
						h := watch(t, m, kv("h2o", fmt.Sprint(budget), ratio, chunk), ids, false)
						t.Parallel() // the checks need no device
						if err := checkVictims(h); err != nil {
							t.Error(err)
						}
						if err := checkMass(h); err != nil {
							t.Error(err)
						}
						scores, _, err := checkScores(newTwin(t, m.Config), h)
						if err != nil {
							t.Error(err)
						}
						t.Logf("%d scores within %.1e", scores.count, scores.most)
					})
				}
			}
		}
	})
}

// Two runs over the passage, and one over its beginning that records every step anew, leave the same scores, victims and
// log, bit for bit.
func TestH2OIsTheSameInEveryRun(t *testing.T) {
	const anewTokens = 160 // whole chunks
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, ids, e := builtinOn(t, d), passageIDs(t), engineOf(d).Engine
		if slow(d) {
			ids = ids[:300]
		}
		for _, chunk := range []int{1, 32} {
			settings := kv("h2o", "64", 0.5, chunk)
			first, second := watch(t, m, settings, ids, false), watch(t, m, settings, ids, false)
			e.Anew = true
			anew := watch(t, m, settings, ids[:anewTokens], false)
			e.Anew = false
			for _, other := range []*history{second, anew} {
				for i, step := range other.steps {
					step.Last = first.steps[i].Last // the shorter prompt is over
					if !reflect.DeepEqual(step, first.steps[i]) {
						t.Fatalf("chunk %d, %d tokens seen: runs differ", chunk, step.Seen)
					}
				}
			}
			if last := anew.steps[len(anew.steps)-1]; len(second.steps) != len(first.steps) || last.Seen != anewTokens || len(last.Evicted) == 0 {
				t.Errorf("chunk %d: %d and %d steps; nothing was evicted, or %d tokens seen", chunk, len(first.steps), len(second.steps), last.Seen)
			}
		}
	})
}
