package tests

import (
	"fmt"
	"testing"

	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

func TestH2OEvictsTheLowestScoresOverAPassage(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, ids, budgets := builtinOn(t, d), passageIDs(t), []int{16, 64, 256}
		if slow(d) {
			ids, budgets = ids[:300], []int{16, 64}
		}
		for _, chunk := range []int{1, 32} {
			for _, budget := range budgets {
				for _, ratio := range []float64{0, 0.5, 1} {
					t.Run(fmt.Sprintf("chunk %d, budget %d, recent %g", chunk, budget, ratio), func(t *testing.T) {
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
