package main

import (
	"fmt"
	"io"
	"strings"

	"vkdecode/h2o"
	"vkdecode/model"
)

// runStats is what `run --stats` tells of the cache at the end.
type runStats struct {
	Layers    []layerStats  `json:"layers"`
	Lost      *float64      `json:"lost"`      // as in layerStats, over all layers
	Survivors []statsBucket `json:"survivors"` // over all layers and KV heads, by position
}

// layerStats is one layer.
type layerStats struct {
	Layer   int       `json:"layer"`
	Seen    int       `json:"seen"`    // tokens
	Kept    statsKept `json:"kept"`    // live slots of its KV heads
	Evicted int       `json:"evicted"` // over its KV heads

	// Lost is the share of all attention so far that had gone to tokens which are no longer there: the scores that they had
	// when they were evicted, divided by those and the scores of the live tokens together. null where scores are not sums
	// of attention, and for a session that was loaded, whose earlier evictions are not known.
	Lost *float64 `json:"lost"`
}

type statsKept struct {
	Min  int     `json:"min"`
	Mean float64 `json:"mean"`
	Max  int     `json:"max"`
}

// statsBucket counts the live slots whose positions are From to To, the last one not included.
type statsBucket struct {
	From int `json:"from"`
	To   int `json:"to"`
	Kept int `json:"kept"`
}

// mostBuckets is how many parts the text is cut into.
const mostBuckets = 16

// statsCollector gathers during a run what the cache does not keep.
type statsCollector struct {
	sums    bool      // scores are sums of attention, all of which the run has seen
	evicted []float64 // by layer: scores of the evicted tokens
}

func newStats(s *model.Session) *statsCollector {
	p := s.Plan()
	adds := func(p *h2o.Policy) bool {
		return !p.Evicts || p.Update == h2o.UpdateAdd && p.Reduce != h2o.ReduceMax && p.Decay == 1 && !p.Lifetime
	}
	observes := p.Staged && p.Prefill.Observation.Window > 0 // then scores tell of the last queries and of neighbours
	return &statsCollector{sums: adds(p.Policy) && adds(p.Prefill) && !observes && len(s.Tokens) == 0, evicted: make([]float64, len(p.Layers))}
}

// watch adds to an observer what the collector has to see.
func (c *statsCollector) watch(o model.Observer) model.Observer {
	if c == nil || !c.sums {
		return o
	}
	then := o.Step
	o.Evictions = true
	o.Step = func(s model.Step) error {
		for _, e := range s.Evicted {
			c.evicted[e.Layer] += float64(e.Score)
		}
		if then == nil {
			return nil
		}
		return then(s)
	}
	return o
}

// report reads the rest from the session.
func (c *statsCollector) report(s *model.Session) (*runStats, error) {
	state, err := s.Cache().State(0)
	if err != nil {
		return nil, err
	}
	seen := len(s.Tokens)
	r := &runStats{Layers: []layerStats{}, Survivors: []statsBucket{}}
	n := min(mostBuckets, seen)
	for b := range n {
		r.Survivors = append(r.Survivors, statsBucket{From: b * seen / n, To: (b + 1) * seen / n})
	}
	var lost, all float64
	for i, l := range state.Layers {
		layer := layerStats{Layer: i, Seen: seen, Kept: statsKept{Min: seen}}
		live, slots := 0.0, 0
		for _, h := range l.Heads {
			kept := len(h.Positions)
			layer.Kept.Min, layer.Kept.Max = min(layer.Kept.Min, kept), max(layer.Kept.Max, kept)
			layer.Evicted += h.Evicted
			slots += kept
			for j, pos := range h.Positions {
				r.Survivors[((int(pos)+1)*n-1)/seen].Kept++
				live += float64(h.Scores[j])
			}
		}
		layer.Kept.Mean = float64(slots) / float64(len(l.Heads))
		layer.Lost = c.share(c.evicted[i], live)
		lost, all = lost+c.evicted[i], all+live
		r.Layers = append(r.Layers, layer)
	}
	r.Lost = c.share(lost, all)
	return r, nil
}

// share is what evicted tokens had of all scores; nil if that says nothing.
func (c *statsCollector) share(evicted, live float64) *float64 {
	if !c.sums {
		return nil
	}
	share := 0.0
	if evicted > 0 {
		share = evicted / (evicted + live)
	}
	return &share
}

// print writes the figures for a person.
func (r *runStats) print(w io.Writer) error {
	t := table{header: []string{"layer", "seen", "kept", "min", "max", "evicted", "attention lost"}}
	evicted := 0
	for _, l := range r.Layers {
		t.add(fmt.Sprint(l.Layer), fmt.Sprint(l.Seen), fmt.Sprintf("%.1f", l.Kept.Mean), fmt.Sprint(l.Kept.Min), fmt.Sprint(l.Kept.Max), fmt.Sprint(l.Evicted), percentOrNone(l.Lost))
		evicted += l.Evicted
	}
	t.add("all", "", "", "", "", fmt.Sprint(evicted), percentOrNone(r.Lost))
	fmt.Fprintln(w)
	if err := t.print(w, false); err != nil {
		return err
	}
	return r.printSurvivors(w)
}

func percentOrNone(share *float64) string {
	if share == nil {
		return "–"
	}
	return fmt.Sprintf("%.1f%%", 100**share)
}

// printSurvivors draws where the live tokens come from.
func (r *runStats) printSurvivors(w io.Writer) error {
	const width = 40 // of the longest bar
	most, all := 1, 0
	for _, b := range r.Survivors {
		most, all = max(most, b.Kept), all+b.Kept
	}
	t := table{header: []string{"positions", "kept", "", ""}}
	for _, b := range r.Survivors {
		bar := strings.Repeat("#", (b.Kept*width+most-1)/most)
		t.add(fmt.Sprintf("%d–%d", b.From, b.To-1), fmt.Sprint(b.Kept), fmt.Sprintf("%.1f%%", 100*float64(b.Kept)/float64(max(all, 1))), fmt.Sprintf("%-*s", width, bar))
	}
	fmt.Fprintln(w)
	return t.print(w, false)
}
