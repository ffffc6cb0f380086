package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"vkdecode/h2o"
)

// statsOf runs with --stats; the state of the cache is in s.json, the evictions in e.jsonl.
func statsOf(t *testing.T, args ...string) (runJSON, h2o.State) {
	t.Helper()
	r := runReported(t, append(args, "--stats", "--kv-state", "s.json", "--evict-log", "e.jsonl")...)
	var s h2o.State
	readJSON(t, "s.json", &s)
	if r.Stats == nil || len(r.Stats.Layers) != len(s.Layers) {
		t.Fatalf("%v: stats %+v", args, r.Stats)
	}
	return r, s
}

// The figures are those of the state at the end. What was lost is what conservation says: each of the two queries of a head's
// group gave a probability of one at every token, and what live tokens do not have of it has gone.
func TestStatsTellWhatTheCacheDid(t *testing.T) {
	eachDriver(t, func(t *testing.T) {
		r, state := statsOf(t, prince...)
		survivors, all := make([]int, 16), 0
		for i, l := range r.Stats.Layers {
			live, evicted := 0.0, 0
			for _, h := range state.Layers[i].Heads {
				evicted += h.Evicted
				for j, pos := range h.Positions {
					live += float64(h.Scores[j])
					all++
					for b, bucket := range r.Stats.Survivors {
						if int(pos) >= bucket.From && int(pos) < bucket.To {
							survivors[b]++
						}
					}
				}
			}
			const group, heads = 2, 2
			if l.Layer != i || l.Seen != 42 || l.Kept != (statsKept{8, 8, 8}) || l.Evicted != evicted {
				t.Errorf("layer %d: %+v, evicted %d", i, l, evicted)
			}
			if want := 1 - live/float64(group*heads*l.Seen); l.Lost == nil || math.Abs(*l.Lost-want) > 1e-4 {
				t.Errorf("layer %d: lost %v, want %g", i, l.Lost, want)
			}
		}
		sum := 0
		for b, bucket := range r.Stats.Survivors {
			if sum += bucket.Kept; bucket.Kept != survivors[b] || bucket.From != b*42/16 || bucket.To != (b+1)*42/16 {
				t.Errorf("%+v, counted %d", bucket, survivors[b])
			}
		}
		if sum != all || all != 6*8 || len(r.Stats.Survivors) != 16 {
			t.Errorf("%d survivors in %d buckets, want %d", sum, len(r.Stats.Survivors), all)
		}
		if plain := runReported(t, prince...); plain.LogitsHash != r.LogitsHash || plain.Stats != nil {
			t.Error("looking on changes the run")
		}
	})
}

// Where scores are not sums of attention nothing is claimed of it.
func TestStatsSayNothingOfAttentionThatWasNotSummed(t *testing.T) {
	onFirstDriver(t, nil)
	for policy, known := range map[string]bool{"full": true, "h2o:reduce=mean": true, "window": false, "tova": false, "h2o:score=max": false, "h2o:decay=0.9": false, "h2o:norm=lifetime": false, "snapkv:window=2": false} {
		r, _ := statsOf(t, append(prince, "--kv", policy, "--budget", "8")...)
		if (r.Stats.Lost != nil) != known || (r.Stats.Layers[0].Lost != nil) != known {
			t.Errorf("%s: lost %v", policy, r.Stats.Lost)
		}
		if policy == "full" && *r.Stats.Lost != 0 || policy == "h2o:reduce=mean" && !(*r.Stats.Lost > 0.1 && *r.Stats.Lost < 0.9) {
			t.Errorf("%s: %g lost", policy, *r.Stats.Lost)
		}
	}
	runReported(t, append(prince, "--save-session", "s")...)
	if r, _ := statsOf(t, "run", builtinName, "-n", "3", "--load-session", "s"); r.Stats.Lost != nil || r.Stats.Layers[2].Seen != 45 {
		t.Errorf("of a session that was loaded: %+v", r.Stats)
	}
}

func TestStatsCanBeRead(t *testing.T) {
	onFirstDriver(t, nil)
	got := vkdecode(t, append(prince, "--stats", "--evict-log", "e.jsonl")...)
	got.want(t, exitOK, "layer  seen  kept  min  max  evicted  attention lost\n    0    42   8.0    8    8       68  ", "  all                            204  ", "%\n\npositions  kept", "    39–41    1", "  ####")
	if n := strings.Count(evictionsOf(t, "e.jsonl"), "\n"); n != 204 {
		t.Errorf("%d lines in the eviction log beside the stats", n)
	}
	vkdecode(t, append(prince, "--stats", "--kv", "window")...).want(t, exitOK, "       68               –\n")
	// One token, and so one bucket.
	one := vkdecode(t, "run", builtinName, "--prompt-tokens", "7", "-n", "1", "--stats", "--json")
	var r runJSON
	one.read(t, &r)
	if b, _ := json.Marshal(r.Stats.Survivors); string(b) != `[{"from":0,"to":1,"kept":6}]` {
		t.Errorf("%s", b)
	}
}
