package tests

import (
	"slices"
	"testing"

	"vkdecode/h2o"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// Other settings than the reference's are found, each by what it changes.
func TestPromptsWithOtherSettingsKeepOthers(t *testing.T) {
	p, _ := pressPrompts(t)
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m := builtinOn(t, d)
		cases := []struct{ policy, instead string }{
			{"snapkv:window=16:kernel=5:pool=avg", "snapkv:window=17:kernel=5:pool=avg"},
			{"snapkv:window=16:kernel=5:pool=avg", "snapkv:window=16:kernel=7:pool=avg"},
			{"snapkv:window=16:kernel=5:pool=avg", "snapkv:window=16:kernel=5:pool=max"},
			{"snapkv:window=16:kernel=5:pool=avg", "snapkv:window=16:kernel=5:pool=avg:reduce=max"},
			{"adakv:window=16:kernel=5:pool=avg:alpha=0", "adakv:window=16:kernel=5:pool=avg:alpha=0.5"},
			{"pyramidkv:window=4:kernel=5:pool=avg:beta=4:rounding=exact", "pyramidkv:window=4:kernel=5:pool=avg:beta=5:rounding=exact"},
			{"tova:protect_last=1", "h2o"},
		}
		if slow(d) {
			cases = cases[:2]
		}
		for _, c := range cases {
			r := p.Runs[slices.IndexFunc(p.Runs, func(r pressRun) bool { return r.Policy == c.policy })]
			settings := r.settings(t)
			settings.Policy = kv(c.instead, "1", 0, 1).Policy
			a := agreement{bound: scoreError}
			if err := a.compareKept(watch(t, m, settings, p.IDs, false), p, &r); err == nil {
				t.Errorf("%s passes for %s", c.instead, c.policy)
			}
		}
	})
}

// Faults in what stays are found, and so is one in a score.
func TestForgedPromptsAreFound(t *testing.T) {
	p, _ := pressPrompts(t)
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		r := &p.Runs[0] // of SnapKV
		genuine := watch(t, builtinOn(t, d), r.settings(t), p.IDs, false)
		for _, f := range []struct {
			name   string
			change func(last *historyStep)
		}{
			{"none", func(*historyStep) {}},
			{"pooling shifted by a token", func(s *historyStep) {
				kept := s.head(1, 0).Positions
				for i := range kept[:len(kept)-16] {
					kept[i]++
				}
			}},
			{"heads exchanged", func(s *historyStep) {
				a, b := s.head(1, 0), s.head(1, 1)
				*a, *b = *b, *a
			}},
			{"a token of the window for another", func(s *historyStep) {
				kept := s.head(2, 1).Positions
				kept[len(kept)-16] = s.victims(2, 1)[0].Position
			}},
			{"the worst token for the best victim", func(s *historyStep) {
				kept, victims := s.head(2, 1), s.victims(2, 1)
				worst, best := 0, victims[len(victims)-1]
				for i, score := range kept.Scores[:len(kept.Scores)-16] {
					if score < kept.Scores[worst] {
						worst = i
					}
				}
				i := slices.IndexFunc(s.Evicted, func(e h2o.Eviction) bool { return e == best })
				s.Evicted[i].Position, s.Evicted[i].Score = kept.Positions[worst], kept.Scores[worst]
				kept.Positions[worst], kept.Scores[worst] = best.Position, best.Score
			}},
			{"one token too few", func(s *historyStep) {
				head := s.head(0, 0)
				head.Positions, head.Scores = head.Positions[1:], head.Scores[1:]
			}},
			{"a score a ten-thousandth larger", func(s *historyStep) { s.Evicted[5].Score *= 1.0001 }},
		} {
			h := genuine.clone()
			f.change(&h.steps[len(h.steps)-1])
			a := agreement{bound: scoreError}
			if err := a.compareKept(h, p, r); (err == nil) != (f.name == "none") {
				t.Errorf("%s: the comparison says %v", f.name, err)
			}
		}
	})
}

// Only tokens whose scores lie within the error from the cut may be others, and only a few.
func TestTokensNearTheCutMayBeOthers(t *testing.T) {
	scores := floats{5, 3.00001, 1, 3, 2.99999, 4, 3.1, 2.9}
	want := []uint32{0, 1, 5, 6, 8, 9}
	for _, c := range []struct {
		name   string
		scores floats
		got    []uint32
		others int // -1: refused
	}{
		{"the same", scores, want, 0},
		{"a neighbour of the cut", scores, []uint32{0, 3, 5, 6, 8, 9}, 2},
		{"one below it", scores, []uint32{0, 5, 6, 7, 8, 9}, -1},
		{"one above it", scores, []uint32{0, 1, 3, 5, 8, 9}, -1},
		{"one behind the scores", scores, []uint32{0, 1, 3, 5, 6, 9}, -1},
		{"equal scores", floats{5, 3, 1, 3, 2, 4, 3.1, 2}, []uint32{0, 3, 5, 6, 8, 9}, -1},
		{"too many", floats{5, 3, 1, 2.99999, 2.99998, 4, 3, 2}, []uint32{0, 3, 4, 5, 8, 9}, -1},
	} {
		a := agreement{bound: scoreError}
		err := a.comparePositions(c.got, want, c.scores, 10)
		if (err != nil) != (c.others < 0) || err == nil && a.others != c.others {
			t.Errorf("%s: %d tokens are others, %v; want %d", c.name, a.others, err, c.others)
		}
	}
}
