package tests

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// checkKept tells whether every head keeps exactly the positions that want gives for the tokens seen.
func checkKept(h *history, want func(seen int) []uint32) error {
	return h.at(func(layer, kv int) error {
		for _, step := range h.steps {
			if got := step.head(layer, kv).Positions; !slices.Equal(got, want(step.Seen)) {
				return fmt.Errorf("%d tokens seen: kept %v, want %v", step.Seen, got, want(step.Seen))
			}
		}
		return nil
	})
}

// lastOf are the first sinks positions and the last budget - sinks of those seen; all of them while they fit.
func lastOf(budget, sinks int) func(seen int) []uint32 {
	return func(seen int) (all []uint32) {
		for pos := range seen {
			if seen <= budget || pos < sinks || pos >= seen-(budget-sinks) {
				all = append(all, uint32(pos))
			}
		}
		return all
	}
}

// What each policy keeps where that is known without scores. Chunks of 13 do not divide the 100 tokens.
func TestPoliciesKeepWhatTheyPromise(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:100]
		for _, c := range []struct {
			name     string
			settings h2o.Settings
			want     func(seen int) []uint32
		}{
			{"full", kv("full", "1", 0, 13), lastOf(100, 0)},
			{"window", kv("window", "20", 0.5, 1), lastOf(20, 0)},
			{"window in chunks", kv("window", "20", 0, 13), lastOf(20, 0)},
			{"window of a share", kv("window", "7.5%", 0, 1), lastOf(8, 0)},
			{"window with sinks", sinks(kv("window", "20", 0, 13), 3), lastOf(20, 3)},
			{"streaming", kv("streaming", "20", 0.5, 1), lastOf(20, 4)},
			{"streaming in chunks", kv("streaming", "20", 0, 13), lastOf(20, 4)},
			{"streaming with as many sinks as slots", kv("streaming", "4", 0, 13), lastOf(4, 4)},
			{"h2o with a window of all slots", kv("h2o", "20", 1, 1), lastOf(20, 0)},
			{"h2o with a window of all slots in chunks", kv("h2o", "20", 1, 13), lastOf(20, 0)},
			{"h2o with a window and sinks", sinks(kv("h2o", "20", 1, 13), 4), lastOf(20, 4)},
			{"window of one slot", kv("window", "1", 0, 1), lastOf(1, 0)},
			{"window of one slot in chunks", kv("window", "1", 0, 13), lastOf(1, 0)},
			{"h2o of one recent slot", kv("h2o", "1", 1, 1), lastOf(1, 0)},
		} {
			h := watch(t, m, c.settings, ids, false)
			if err := checkKept(h, c.want); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if err := checkVictims(h); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if c.name == "window" && checkKept(h, lastOf(19, 0)) == nil {
				t.Error("a window of another length passes for it")
			}
		}
	})
}

func sinks(s h2o.Settings, n int) h2o.Settings {
	s.Sinks = n
	return s
}

func pinned(s h2o.Settings, spans ...h2o.Span) h2o.Settings {
	s.Pinned = spans
	return s
}

// Sinks and pinned spans survive every policy that evicts, also where they meet or leave no slot for a window.
func TestPinnedTokensSurvive(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:120]
		spans := [][]h2o.Span{{{Begin: 3, End: 9}}, {{Begin: 0, End: 8}, {Begin: 30, End: 42}}, {{Begin: 2, End: 20}, {Begin: 15, End: 24}}}
		for _, policy := range []string{"h2o", "window", "streaming"} {
			for i, span := range spans {
				for _, chunk := range []int{1, 32} {
					h := watch(t, m, pinned(kv(policy, "24", 0.5, chunk), span...), ids, false)
					if err := checkVictims(h); err != nil {
						t.Errorf("%s, spans %d, chunk %d: %v", policy, i, chunk, err)
					}
					last := h.steps[len(h.steps)-1]
					err := h.at(func(layer, kv int) error {
						for _, s := range span {
							for pos := s.Begin; pos < s.End; pos++ {
								if !slices.Contains(last.head(layer, kv).Positions, uint32(pos)) {
									return fmt.Errorf("pinned position %d is gone", pos)
								}
							}
						}
						return nil
					})
					if err != nil {
						t.Errorf("%s, spans %d, chunk %d: %v", policy, i, chunk, err)
					}
				}
			}
		}
	})
}

// Without a window H2O still evicts; one slot is enough to go on; a text shorter than the budget loses nothing.
func TestH2OAtItsLimits(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)
		for _, c := range []struct {
			budget string
			ratio  float64
			chunk  int
			tokens int
			kept   int
		}{
			{"16", 0, 1, 60, 16}, {"16", 0, 32, 60, 16}, {"1", 0, 1, 40, 1}, {"1", 0.5, 32, 40, 1}, {"2", 0.5, 1, 40, 2},
			{"16", 0.5, 1, 1, 1}, {"1", 0, 1, 1, 1}, {"16", 0.5, 32, 9, 9}, {"16", 0.5, 8, 17, 16}, {"0.01%", 0, 1, 30, 1},
		} {
			h := watch(t, m, kv("h2o", c.budget, c.ratio, c.chunk), ids[:c.tokens], false)
			if err := checkVictims(h); err != nil {
				t.Errorf("%+v: %v", c, err)
			}
			if err := checkMass(h); err != nil {
				t.Errorf("%+v: %v", c, err)
			}
			if kept := len(h.steps[len(h.steps)-1].head(0, 0).Positions); kept != c.kept {
				t.Errorf("%+v: %d kept", c, kept)
			}
		}
	})
}

// What cannot be kept to is refused before anything runs.
func TestImpossibleSettingsAreRefused(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m := builtinOn(t, d)
		held := d.Held()
		for _, c := range []struct {
			settings h2o.Settings
			length   int
			context  int
			want     string
		}{
			{kv("streaming", "3", 0, 1), 100, 0, "budget of 3 slots per KV head is less than the 4 sinks"},
			{sinks(kv("h2o", "8", 0, 1), 9), 100, 0, "less than the 9 sinks"},
			{pinned(kv("h2o", "8", 0, 1), h2o.Span{Begin: 0, End: 9}), 100, 0, "less than the 9 sinks and pinned tokens"},
			{pinned(kv("streaming", "8", 0, 1), h2o.Span{Begin: 3, End: 9}), 100, 0, "less than the 9 sinks and pinned tokens"},
			{pinned(kv("h2o", "8", 0, 1), h2o.Span{}, h2o.Span{}, h2o.Span{}), 100, 0, "3 pinned spans, 2 at most"},
			{pinned(kv("h2o", "8", 0, 1), h2o.Span{Begin: 5, End: 4}), 100, 0, "pinned span of positions 5 to 4"},
			{pinned(kv("h2o", "8", 0, 1), h2o.Span{Begin: -1, End: 4}), 100, 0, "pinned span of positions -1 to 4"},
			{fullKV(1), 101, 100, "101 prompt and new tokens are more than the context of 100"},
			{kv("h2o", "8", 1.5, 1), 100, 0, "recent ratio 1.5, want 0 to 1"},
			{kv("h2o", "8", -0.5, 1), 100, 0, "recent ratio -0.5, want 0 to 1"},
			{kv("h2o", "8", math.NaN(), 1), 100, 0, "recent ratio NaN, want 0 to 1"},
			{kv("h2o", "8", 0, 0), 100, 0, "chunk of 0 rows, want 1 to 512"},
			{kv("h2o", "8", 0, 513), 100, 0, "chunk of 513 rows, want 1 to 512"},
			{kv("h20", "8", 0, 1), 100, 0, `unknown policy "h20", want one of ` + strings.Join(h2o.Names(), ", ") + `; did you mean "h2o"?`},
			{kv("h2o:decoy=0.9", "8", 0, 1), 100, 0, `policy "h2o" has no option "decoy"`},
			{kv("h2o", "8", 0, 1), 0, 0, "context of 0 tokens, want at least 1"},
			{kv("h2o", "100B", 0, 1), 100, 0, "one slot of every layer and KV head and the 1 that a prompt adds take 3072 bytes"},
		} {
			s, err := m.NewSession(t.Context(), model.SessionOptions{KV: c.settings, Length: c.length, Context: c.context})
			if err == nil {
				s.Close()
			}
			wantError(t, err, "h2o: ", c.want)
		}
		if d.Held() != held {
			t.Errorf("refused sessions hold %d bytes", d.Held()-held)
		}
	})
}
