// Package h2o is the KV cache: slots, scores, and who loses theirs.
//
// Per layer there is one pool of slots, K and V of a token each, with the token's original position and its score. Every
// KV head of every sequence owns a run of slots, of which the first `live` hold tokens, in no particular order: a token
// that comes takes the slot after the live ones, and when one goes, the last of the live ones moves into its place. So
// attention reads exactly the live slots, whatever the capacity. (Leaving holes and reusing them would save that move,
// but after a prompt in chunks of C a decode step would have to read B + C slots to find B.)
//
// A policy is a row of data, its rule: the score a token is born with, how attention changes it, and what is protected.
// When a step leaves more than B slots live, the eligible ones of lowest score are freed; of equal scores, the older
// position.
package h2o

import (
	"fmt"
	"slices"
	"strings"
)

// Birth is the score of a new token; the values are include/heads.glsl's.
type Birth uint32

const (
	BirthZero     Birth = 0
	BirthPosition Birth = 1 // the token's position: lowest score = oldest
	BirthLowBit   Birth = 2 // the lowest set bit of the position; 2^40 for position 0
)

// Update is what attention does to scores; the values are include/heads.glsl's.
type Update uint32

const (
	UpdateNone Update = 0
	UpdateAdd  Update = 1 // the probability that the step's queries gave the slot is added
	UpdateLast Update = 2 // the probability that the step's last query gave the slot replaces it
	UpdateHash Update = 3 // a fresh pseudo-random number replaces it
)

// Reduction makes one probability of those that the query heads of a group give; the values are include/heads.glsl's.
type Reduction uint32

const (
	ReduceSum  Reduction = 0
	ReduceMean Reduction = 1
	ReduceMax  Reduction = 2
)

// Rule says who loses their slot, as data that the kernels read.
type Rule struct {
	Birth    Birth
	Update   Update
	Reduce   Reduction
	Layer    bool    // one score for all heads of the layer, over all its query heads
	Selfless bool    // what a token's own query gives it does not count
	Lifetime bool    // the score is the mean over the queries that saw the token
	Admit    bool    // a token that leaves the recent window in a step goes only when no other may
	Decay    float32 // of the old score, per query; 1 = none
	Seed     uint32  // of hashes

	Recent bool // protects the last floor(budget * recent ratio) positions
	Last   int  // last positions that are protected at least
	Sinks  int  // first positions that are protected unless the user says otherwise
	Every  int  // decode steps between two evictions; 0 = decode evicts nothing
}

// Observation judges a prompt by its last queries alone: a token's score is the probability that they gave it and its
// neighbours.
type Observation struct {
	Window  int  // last queries that are observed, and last tokens that are kept; 0 = no observation, scores accumulate
	Kernel  int  // neighbouring tokens that are pooled, centred: an odd number
	Average bool // pool by the mean, not the maximum
}

// Share is how a budget is shared by layers and KV heads.
type Share uint8

const (
	Uniform Share = iota
	Pyramid       // lower layers keep more: budgets fall linearly with the layer
	PerHead       // the heads of a layer share their slots by the scores of a prompt
)

// Policy is a published idea, with the options that change its rule.
type Policy struct {
	Name    string
	Summary string // one line for help texts
	Source  string // where it was published
	Evicts  bool   // keeps to the budget; false: every token stays
	Rule
	Observation
	Share      Share
	Beta       int    // of Pyramid: the highest layer keeps a beta-th of the mean
	Published  bool   // Pyramid rounds as its authors' code does, which overspends
	Alpha      int    // of PerHead: thousandths of a head's slots that are its own whatever its scores
	Type       string // of K and V unless the user says otherwise; "" = f16
	Renumbers  bool   // positions are renumbered inside the cache unless the user says otherwise
	Parameters []*Parameter
}

// Policies are all policies, in the order in which help and plans list them.
var Policies = []*Policy{full, heavyHitter, window, streaming, random, strided, tova, snapKV, pyramidKV, adaKV, tuned}

// Names lists the policies' names.
func Names() []string {
	names := make([]string, len(Policies))
	for i, p := range Policies {
		names[i] = p.Name
	}
	return names
}

// Find returns the policy that a specification names, its rule changed by the options given.
func Find(s Spec) (*Policy, error) {
	i := slices.IndexFunc(Policies, func(p *Policy) bool { return p.Name == s.Name })
	if i < 0 {
		hint := ""
		if near := Nearest(s.Name, Names()); near != "" {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		return nil, fmt.Errorf("h2o: unknown policy %q, want one of %s%s", s.Name, strings.Join(Names(), ", "), hint)
	}
	p := *Policies[i]
	for _, given := range s.Options {
		o, err := p.option(given.Key)
		if err != nil {
			return nil, err
		}
		if err := o.set(&p, given.Value); err != nil {
			return nil, fmt.Errorf("h2o: policy %q: option %s=%s: want %s", s.Name, given.Key, given.Value, o.Values)
		}
	}
	return &p, p.check()
}

func (p *Policy) option(key string) (*Parameter, error) {
	var keys []string
	for _, o := range p.Parameters {
		if o.Key == key {
			return o, nil
		}
		keys = append(keys, o.Key)
	}
	switch near := Nearest(key, keys); {
	case len(keys) == 0:
		return nil, fmt.Errorf("h2o: policy %q has no option %q; it takes none", p.Name, key)
	case near != "":
		return nil, fmt.Errorf("h2o: policy %q has no option %q, want one of %s; did you mean %q?", p.Name, key, strings.Join(keys, ", "), near)
	default:
		return nil, fmt.Errorf("h2o: policy %q has no option %q, want one of %s", p.Name, key, strings.Join(keys, ", "))
	}
}

// alike tells whether all heads of a layer keep the same tokens.
func (p *Policy) alike() bool {
	return !p.Evicts || p.Share != PerHead && (p.Layer || p.Update == UpdateNone)
}

// word packs the rule for the table: include/heads.glsl.
func (r Rule) word() uint32 {
	w := uint32(r.Birth) | uint32(r.Update)<<4 | uint32(r.Reduce)<<8
	for i, set := range []bool{r.Layer, r.Selfless, r.Lifetime, r.Admit} {
		if set {
			w |= 1 << (16 + i)
		}
	}
	return w
}
