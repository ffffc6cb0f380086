// Package h2o is the KV cache: slots, scores, and who loses theirs.
//
// Per layer there is one pool of slots, K and V of a token each, with the token's original position and its score. Every
// KV head of every sequence owns a run of slots, of which the first `live` hold tokens, in no particular order: a token
// that comes takes the slot after the live ones, and when one goes, the last of the live ones moves into its place. So
// attention reads exactly the live slots, whatever the capacity. (Leaving holes and reusing them would save that move,
// but after a prompt in chunks of C a decode step would have to read B + C slots to find B.)
//
// A policy is a row of data: the score a token is born with, how attention changes it, and what is protected. When a
// step leaves more than B slots live, the eligible ones of lowest score are freed; of equal scores, the older position.
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
)

// Update is what attention does to scores; the values are include/heads.glsl's.
type Update uint32

const (
	UpdateNone Update = 0
	UpdateAdd  Update = 1 // the probability that the step's queries gave the slot is added
)

// Policy says who loses their slot.
type Policy struct {
	Name    string
	Summary string // one line for help texts
	Source  string // where it was published
	Birth   Birth
	Update  Update
	Evicts  bool // keeps to the budget; false: every token stays
	Recent  bool // protects the last floor(budget * recent ratio) positions
	Sinks   int  // first positions that are protected unless the user says otherwise
}

// Policies are all policies, in the order in which help and plans list them.
var Policies = []*Policy{full, heavyHitter, window, streaming}

// Names lists the policies' names.
func Names() []string {
	names := make([]string, len(Policies))
	for i, p := range Policies {
		names[i] = p.Name
	}
	return names
}

// Find returns the policy that a specification names. No policy takes options yet: one that is given is an error.
func Find(s Spec) (*Policy, error) {
	i := slices.IndexFunc(Policies, func(p *Policy) bool { return p.Name == s.Name })
	if i < 0 {
		hint := ""
		if near := Nearest(s.Name, Names()); near != "" {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		return nil, fmt.Errorf("h2o: unknown policy %q, want one of %s%s", s.Name, strings.Join(Names(), ", "), hint)
	}
	if len(s.Options) > 0 {
		return nil, fmt.Errorf("h2o: policy %q has no option %q", s.Name, s.Options[0].Key)
	}
	return Policies[i], nil
}
