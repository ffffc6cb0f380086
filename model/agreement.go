package model

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"vkdecode/h2o"
)

// Agreement is what a session's state depends on, beside the tokens. Where two sessions agree, one can go on with what
// the other leaves, and to the last bit as if it had done all by itself. The length and what is allocated for it are not
// part of it: results do not depend on free slots.
type Agreement struct {
	Settings []Setting `json:"settings"`
	Budgets  []int     `json:"budgets"` // slots per KV head after an eviction, by layer
	Chunk    int       `json:"chunk"`   // rows of a prompt between two evictions, at most
	Slices   []int     `json:"slices"`  // rows whose attention is taken at once, at most: h2o.Cache.Slices
}

// Setting is one of them, with its value in words.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Detail string `json:"detail,omitempty"` // what the value means to this version of the program
}

// history is what a session has been through.
type history struct{ seen, longest int } // tokens; those of the longest prompt

// agreement is the session's.
func (s *Session) agreement() Agreement {
	p := s.cache.Plan
	own := "" // what a policy of its own for prompts means
	if p.Settings.Prefill.Name != "" {
		own = ruleText(p.Prefill)
	}
	a := Agreement{
		Settings: []Setting{
			{"model", fmt.Sprintf("%q with fingerprint %s", s.model.Name, s.model.Fingerprint), ""},
			{"policy", p.Settings.Policy.String(), ruleText(p.Policy)},
			{"policy of prompts", orElse(p.Settings.Prefill.String(), "that of decoding"), own},
			{"prefill", prefillText(p), ""},
			{"layers of their own", orElse(h2o.LayersText(p.Settings.Layers), "none"), ""},
			{"recent ratio", fmt.Sprint(p.RecentRatio), ""},
			{"sinks", fmt.Sprint(p.Sinks), ""},
			{"pinned positions", spansText(p.Pinned), ""},
			{"KV type", p.Types.K + "/" + p.Types.V, fmt.Sprintf("heads of %d held as %d", s.model.HeadDim, s.model.Geometry().HeadPad(p.Types))},
			{"positions", positionsText(p), ""},
		},
		Chunk:  p.Chunk,
		Slices: s.cache.Slices(),
	}
	for _, l := range p.Layers {
		a.Budgets = append(a.Budgets, l.Budget)
	}
	return a
}

// objections tells in what the state that a session of another agreement left does not suit one of this, nil if in
// nothing. What has not made a difference so far need not be equal: the budget of a text that fits both, or the chunk for
// prompts that were not cut.
func (a Agreement) objections(saved Agreement, h history) error {
	var differ []string
	object := func(format string, args ...any) { differ = append(differ, fmt.Sprintf(format, args...)) }
	for _, here := range a.Settings {
		i := slices.IndexFunc(saved.Settings, func(s Setting) bool { return s.Name == here.Name })
		switch {
		case i < 0:
			object("%s: not in the file, %s here", here.Name, here.Value)
		case saved.Settings[i].Value != here.Value:
			advice := ""
			if here.Name == "prefill" && saved.Settings[i].Value == inLayers || here.Name == "positions" && here.Value == inCache {
				advice = " (nothing can be evicted of a session for fewer tokens than its budget: open the first one for more, --ctx)"
			}
			object("%s: %s in the file, %s here%s", here.Name, saved.Settings[i].Value, here.Value, advice)
		case saved.Settings[i].Detail != here.Detail:
			object("%s %s: %s in the file, %s here", here.Name, here.Value, saved.Settings[i].Detail, here.Detail)
		}
	}
	agree := func(there, here []int, enough int) bool {
		return len(there) == len(here) && (slices.Equal(there, here) || len(here) > 0 && min(slices.Min(there), slices.Min(here)) >= enough)
	}
	if !agree(saved.Budgets, a.Budgets, h.seen) {
		object("budget: %s in the file, %s here", slotsText(saved.Budgets), slotsText(a.Budgets))
	}
	if !agree([]int{saved.Chunk}, []int{a.Chunk}, h.longest) {
		object("chunk: %d tokens in the file, %d here, and a prompt of %d tokens was cut", saved.Chunk, a.Chunk, h.longest)
	}
	if (differ == nil || len(saved.Slices) == len(a.Slices)) && !agree(saved.Slices, a.Slices, h.longest) {
		object("rows of attention at once: %s in the file, %s here, and a prompt had %d", numbersText(saved.Slices), numbersText(a.Slices), h.longest)
	}
	if differ == nil {
		return nil
	}
	return errors.New(strings.Join(differ, "; "))
}

func orElse(text, empty string) string {
	if text == "" {
		return empty
	}
	return text
}

// ruleText is all that tells a policy from another one.
func ruleText(p *h2o.Policy) string {
	return fmt.Sprintf("%+v %+v share %d beta %d published %t alpha %d", p.Rule, p.Observation, p.Share, p.Beta, p.Published, p.Alpha)
}

const (
	inLayers = "bounded, in the layers' pools" // how prompts are processed that need no pool of their own
	inCache  = "cache"                         // positions that are places; a session that evicts nothing has no need of them
)

func prefillText(p *h2o.Plan) string {
	switch {
	case p.Exact:
		return "exact, in a pool of its own"
	case p.Staged:
		return "bounded, in a pool of its own"
	}
	return inLayers
}

func slotsText(budgets []int) string { return numbersText(budgets) + " slots per KV head" }

// numbersText is one number where all are alike.
func numbersText(all []int) string {
	if len(all) > 0 && slices.Max(all) == slices.Min(all) {
		return fmt.Sprint(all[0])
	}
	return fmt.Sprint(all)
}

func spansText(spans []h2o.Span) string {
	var words []string
	for _, s := range spans {
		words = append(words, fmt.Sprintf("%d to %d", s.Begin, s.End-1))
	}
	return orElse(strings.Join(words, ", "), "none")
}

func positionsText(p *h2o.Plan) string {
	if p.Renumber {
		return inCache
	}
	return "original"
}
