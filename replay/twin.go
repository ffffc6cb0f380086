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
	number  int // of the KV head in the model
	slots   []ref.Slot
	budget  int
	evicted int // tokens so far
}

func headOf(number int, h *h2o.HeadState) twinHead {
	head := twinHead{number: number, budget: h.Budget, evicted: h.Evicted}
	for i, pos := range h.Positions {
		head.slots = append(head.slots, ref.Slot{Pos: int(pos), Score: h.Scores[i]})
	}
	return head
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
	t, number := &Twin{plan: plan, seen: seen}, 0
	for _, l := range state.Layers {
		heads := make([]twinHead, len(l.Heads))
		for kv := range l.Heads {
			heads[kv] = headOf(number, &l.Heads[kv])
			number++
		}
		t.layers = append(t.layers, heads)
	}
	return t
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

// candidates are the tokens of a head before the choice, with the scores that it saw, and whether these are known.
func (t *Twin) candidates(s Step, layer, kv int, victims []h2o.Eviction) (slots []ref.Slot, known bool) {
	h := headOf(t.layers[layer][kv].number, &s.State.Layers[layer].Heads[kv])
	slots, known = h.slots, true
	for i := range slots {
		ok := false
		slots[i].Score, ok = Judged(t.plan, s, h.number, slots[i])
		known = known && ok
	}
	for _, v := range victims {
		slots = append(slots, ref.Slot{Pos: int(v.Position), Score: v.Score})
	}
	return slots, known || len(victims) == 0
}

// Judged is the score by which a step judged a token that it kept in a KV head, by its number in the model, and whether that
// is known: at the end of a prompt a survivor may get the score with which the policy of decoding begins. One that tells
// nothing of attention is known from the position.
func Judged(p *h2o.Plan, s Step, head int, kept ref.Slot) (score float32, known bool) {
	if !(p.Staged && s.Prompt && s.Last) {
		return kept.Score, true
	}
	switch rule := RuleOf(p.Prefill.Rule); rule.Update {
	case ref.UpdateNone:
		return rule.Born(kept.Pos), true
	case ref.UpdateHash:
		return float32(ref.Hash(rule.Seed, s.Seen, head, kept.Pos)), true
	}
	return kept.Score, p.Policy.Update != h2o.UpdateNone
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
	pool, heads := &ref.Pool{}, make([]ref.Head, len(before))
	for kv, slots := range before {
		heads[kv] = t.head(s, layer, kv, 0)
		heads[kv].Offset, heads[kv].Live = len(pool.Slots), len(slots)
		pool.Slots = append(pool.Slots, slots...)
	}
	return pool.Share(heads, s.Seen-1, t.plan.Layers[layer].Budget, t.plan.Prefill.Alpha)
}

// head is the entry of a head's table in a step, before it.
func (t *Twin) head(s Step, layer, kv, budget int) ref.Head {
	h := ref.Head{Budget: budget, Live: len(t.layers[layer][kv].slots), Recent: t.plan.Layers[layer].Recent, Sinks: t.plan.Sinks,
		Rule: RuleOf(t.plan.Policy.Rule), Slack: t.plan.Policy.Every - 1}
	if t.plan.Policy.Every == 0 {
		h.Slack = math.MaxInt
	}
	if t.staged(s) {
		h.Recent, h.Rule, h.Slack = t.plan.Layers[layer].Prompt, RuleOf(t.plan.Prefill.Rule), 0
		h.Admit = false // there, nobody is just leaving the window
	}
	for i, span := range t.plan.Pinned {
		h.Pinned[i] = ref.Span(span)
	}
	return h
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
	case state.Evicted != head.evicted+len(gone):
		reason = fmt.Sprintf("%d evictions counted, and %d told", state.Evicted, head.evicted+len(gone))
	case state.Budget != budget:
		reason = fmt.Sprintf("a budget of %d slots, the twin gives %d", state.Budget, budget)
	default:
		chosen, _ := h.Evict(&ref.Pool{Slots: before}, added, s.Seen-1, t.settles(s))
		for _, i := range chosen {
			expected = append(expected, uint32(before[i].Pos))
		}
		switch slices.Sort(expected); {
		case known && !slices.Equal(expected, gone):
			reason = "other tokens have the lowest scores"
		case len(expected) != len(gone):
			reason = "the twin lets another number go"
		case slices.ContainsFunc(gone, func(pos uint32) bool { return !h.Eligible(int(pos), s.Seen-1) }):
			reason = "one went that is protected"
		}
		if known {
			t.Checked += len(gone)
		} else {
			t.Unchecked += len(gone)
		}
	}
	if reason != "" {
		t.Wrong++
		if t.First == nil {
			t.First = &Choice{s.Seen, layer, kv, reason, gone, expected}
		}
	}
	*head = headOf(head.number, state)
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

// RuleOf is a policy's rule as its twin has it.
func RuleOf(r h2o.Rule) ref.Rule {
	return ref.Rule{Birth: int(r.Birth), Update: int(r.Update), Reduce: int(r.Reduce), Layer: r.Layer, Selfless: r.Selfless, Lifetime: r.Lifetime, Admit: r.Admit, Decay: r.Decay, Seed: r.Seed}
}
