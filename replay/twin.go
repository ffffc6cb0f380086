package replay

import (
	"fmt"
	"math"
	"slices"

	"vkdecode/h2o"
	"vkdecode/ref"
)

// Twin chooses victims on the CPU, by the scores that are read back from the device after every step, and compares.
type Twin struct {
	plan   *h2o.Plan
	layers [][]twinHead
	seen   int

	Checked, Unchecked int     // evictions that were compared; those for which the scores are not known any more
	Wrong              int     // heads of steps in which the twin chooses others
	First              *Choice // of these, the first
}

// Choice is who went in one KV head at one step, by the device and by the twin.
type Choice struct {
	Step     int      `json:"step"`
	Layer    int      `json:"layer"`
	Head     int      `json:"head"`
	Reason   string   `json:"reason"`
	Device   []uint32 `json:"device"` // positions
	Expected []uint32 `json:"expected"`
}

// twinHead is a KV head before a step.
type twinHead struct {
	slots  []ref.Slot
	budget int
}

// Step is what a step did to the cache.
type Step struct {
	Seen    int  // tokens after it
	Prompt  bool // it was a chunk of a prompt, or a whole one that is cut once
	Last    bool // and the prompt's last
	State   *h2o.State
	Evicted []h2o.Eviction
}

// NewTwin begins with a cache that has seen so many tokens.
func NewTwin(plan *h2o.Plan, state *h2o.State, seen int) *Twin {
	t := &Twin{plan: plan, seen: seen}
	for _, l := range state.Layers {
		heads := make([]twinHead, len(l.Heads))
		for kv := range l.Heads {
			heads[kv] = twinHead{slotsOf(&l.Heads[kv]), l.Heads[kv].Budget}
		}
		t.layers = append(t.layers, heads)
	}
	return t
}

func slotsOf(h *h2o.HeadState) (slots []ref.Slot) {
	for i, pos := range h.Positions {
		slots = append(slots, ref.Slot{Pos: int(pos), Score: h.Scores[i]})
	}
	return slots
}

// Step compares what a step did.
func (t *Twin) Step(s Step) {
	victims := map[[2]int][]h2o.Eviction{}
	for _, e := range s.Evicted {
		victims[[2]int{e.Layer, e.Head}] = append(victims[[2]int{e.Layer, e.Head}], e)
	}
	for layer := range t.layers {
		before := make([][]ref.Slot, len(t.layers[layer])) // what there was to choose from, by head
		known := true
		for kv := range before {
			var ok bool
			before[kv], ok = t.candidates(s, layer, kv, victims[[2]int{layer, kv}])
			known = known && ok
		}
		budgets := t.budgets(s, layer, before, known)
		for kv := range before {
			t.compare(s, layer, kv, before[kv], budgets[kv], known, victims[[2]int{layer, kv}])
		}
	}
	t.seen = s.Seen
}

// staged tells whether a step chose in the pool where prompts are processed, by the policy of prompts.
func (t *Twin) staged(s Step) bool { return t.plan.Staged && s.Prompt }

// candidates are the tokens of a head before the choice, with the scores that it saw, and whether these are known: at the
// end of a prompt the survivors of one policy may get the scores with which another begins. Those that tell nothing of
// attention can be told from the position.
func (t *Twin) candidates(s Step, layer, kv int, victims []h2o.Eviction) (slots []ref.Slot, known bool) {
	head := &s.State.Layers[layer].Heads[kv]
	after := slotsOf(head)
	for _, v := range victims {
		after = append(after, ref.Slot{Pos: int(v.Position), Score: v.Score})
	}
	first := t.plan.Prefill
	measured := first.Update == h2o.UpdateAdd || first.Update == h2o.UpdateLast
	if changed := t.staged(s) && s.Last && (t.plan.Policy.Update == h2o.UpdateNone || !measured); !changed {
		return after, true
	}
	if measured {
		return after, len(victims) == 0
	}
	rule := ruleOf(first.Rule)
	for i, slot := range after { // those from before the prompt were given such a score when it began
		after[i].Score = rule.Born(slot.Pos)
		if first.Update == h2o.UpdateHash {
			after[i].Score = float32(ref.Hash(rule.Seed, s.Seen, layer*len(t.layers[layer])+kv, slot.Pos))
		}
	}
	return after, true
}

// budgets are what the heads of a layer may keep: where they share a budget, by the scores of a prompt.
func (t *Twin) budgets(s Step, layer int, before [][]ref.Slot, known bool) (all []int) {
	for kv := range before {
		all = append(all, t.layers[layer][kv].budget)
	}
	if !t.staged(s) || t.plan.Prefill.Share != h2o.PerHead {
		return all
	}
	if !known { // then it has to be believed
		for kv := range all {
			all[kv] = s.State.Layers[layer].Heads[kv].Budget
		}
		return all
	}
	return share(before, t.plan.Layers[layer].Budget, t.plan.Prefill.Alpha, func(pos int) bool { return t.eligible(s, layer, pos) })
}

// head is the entry of a head's table in a step, before it.
func (t *Twin) head(s Step, layer, kv, budget int) ref.Head {
	h := ref.Head{Budget: budget, Live: len(t.layers[layer][kv].slots), Recent: t.plan.Layers[layer].Recent, Sinks: t.plan.Sinks,
		Rule: ruleOf(t.plan.Policy.Rule), Slack: t.plan.Policy.Every - 1}
	if t.plan.Policy.Every == 0 {
		h.Slack = math.MaxInt
	}
	if t.staged(s) {
		h.Recent, h.Rule, h.Slack = t.plan.Layers[layer].Prompt, ruleOf(t.plan.Prefill.Rule), 0
		h.Admit = false // there, nobody is just leaving the window
	}
	for i, span := range t.plan.Pinned {
		h.Pinned[i] = ref.Span(span)
	}
	return h
}

func (t *Twin) eligible(s Step, layer, pos int) bool {
	h := t.head(s, layer, 0, 0)
	return h.Eligible(pos, s.Seen-1)
}

// settles tells whether a step cuts the cache back even where the policy would wait: model.Session.write.
func (t *Twin) settles(s Step) bool {
	return s.Prompt && (t.plan.Staged || t.plan.Chunk > 1 || s.Last || t.plan.Policy.Every == 0)
}

// compare lets the twin choose.
func (t *Twin) compare(s Step, layer, kv int, before []ref.Slot, budget int, known bool, victims []h2o.Eviction) {
	state, head := &s.State.Layers[layer].Heads[kv], &t.layers[layer][kv]
	var gone, expected []uint32
	for _, v := range victims {
		gone = append(gone, v.Position)
	}
	slices.Sort(gone)
	reason := ""
	h := t.head(s, layer, kv, budget)
	switch added := s.Seen - t.seen; {
	case !sameTokens(head.slots, before, t.seen, s.Seen):
		reason = "kept and evicted tokens are not those that were there and the new ones"
	case !t.plan.Policy.Evicts:
		if len(gone) > 0 {
			reason = "the policy evicts nothing"
		}
	case h.Live+added > budget && count(before, func(pos int) bool { return h.Eligible(pos, s.Seen-1) }) < h.Live+added-budget:
		reason = "more tokens are above the budget than may go"
	case state.Budget != budget:
		reason = fmt.Sprintf("a budget of %d slots, the twin gives %d", state.Budget, budget)
	case !known:
		t.Unchecked += len(gone)
	default:
		chosen, _ := h.Evict(&ref.Pool{Slots: before}, added, s.Seen-1, t.settles(s))
		for _, i := range chosen {
			expected = append(expected, uint32(before[i].Pos))
		}
		if slices.Sort(expected); !slices.Equal(expected, gone) {
			reason = "other tokens have the lowest scores"
		}
		t.Checked += len(gone)
	}
	if reason != "" {
		t.Wrong++
		if t.First == nil {
			t.First = &Choice{s.Seen, layer, kv, reason, gone, expected}
		}
	}
	head.slots, head.budget = slotsOf(state), state.Budget
}

// sameTokens tells whether the tokens after a step, kept or evicted, are those before it and the new ones.
func sameTokens(before, after []ref.Slot, seen, now int) bool {
	var want, got []int
	for _, s := range before {
		want = append(want, s.Pos)
	}
	for pos := seen; pos < now; pos++ {
		want = append(want, pos)
	}
	for _, s := range after {
		got = append(got, s.Pos)
	}
	slices.Sort(want)
	slices.Sort(got)
	return slices.Equal(got, want)
}

func count(slots []ref.Slot, counts func(pos int) bool) (n int) {
	for _, s := range slots {
		if counts(s.Pos) {
			n++
		}
	}
	return n
}

// ruleOf is a policy's rule as its twin has it.
func ruleOf(r h2o.Rule) ref.Rule {
	return ref.Rule{Birth: int(r.Birth), Update: int(r.Update), Reduce: int(r.Reduce), Layer: r.Layer, Selfless: r.Selfless, Lifetime: r.Lifetime, Admit: r.Admit, Decay: r.Decay, Seed: r.Seed}
}
