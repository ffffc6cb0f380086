package h2o

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"vkdecode/runtime"
	"vkdecode/vk"
)

// uneven is a cache whose layers have other numbers of heads.
func uneven() Geometry {
	return Geometry{HeadDim: 20, Layers: []Heads{{4, 2}, {3, 1}, {6, 3}, {4, 4}}}
}

// plans are every policy, alone and after prompts with a policy of their own, cut to the budget once or chunk by chunk.
func plans(policies []string) (all []Settings) {
	for _, policy := range policies {
		for _, prompt := range []string{"auto", "exact", "bounded"} {
			for _, prefill := range []string{"", "snapkv:window=4", "adakv:window=4", "streaming"} {
				s := Settings{RecentRatio: 0.5, Sinks: -1, Type: "f16", Positions: "auto", Chunk: 16, Prompt: prompt}
				s.Policy, _ = ParseSpec(policy)
				if prefill != "" {
					s.Prefill, _ = ParseSpec(prefill)
				}
				all = append(all, s)
			}
		}
	}
	return all
}

func everyPolicy() (all []string) {
	for _, p := range Policies {
		all = append(all, p.Name)
		if p.Share == Pyramid {
			all = append(all, p.Name+":rounding=published:window=5")
		}
		for _, o := range p.Parameters {
			switch o.Key {
			case "every":
				all = append(all, p.Name+":every=7", p.Name+":every=once")
			case "decode":
				all = append(all, p.Name+":decode=grow:window=6")
			}
		}
	}
	return all
}

// engine is enough of one to plan a cache.
func engine() *runtime.Engine {
	info := vk.DeviceInfo{Limits: vk.Limits{SubgroupSize: 8, MaxStorageRange: 1 << 40, MaxAllocation: 1 << 40, MaxTexelElements: 1 << 30}}
	return &runtime.Engine{Device: &vk.Device{Info: info}, Tuning: runtime.TuningFor(info)}
}

// What a plan says of K and V is what the cache's memory is planned with, for every policy and type.
func TestPlannedBytesAreThoseOfTheCache(t *testing.T) {
	e, tried := engine(), 0
	for i, s := range plans(everyPolicy()) {
		words := TypeWords()
		s.Type = words[i%len(words)]
		for _, budget := range []string{"33", "60%", "100%", "100kB"} {
			s.Budget, _ = ParseBudget(budget)
			for _, g := range []Geometry{uneven(), smol()} {
				p, err := NewPlan(s, g, 0, 300, 200)
				if err != nil { // refused, as other tests check
					continue
				}
				arena := &runtime.Arena{}
				if _, err := NewCache(e, arena, g, p, 1, p.Chunk); err != nil {
					t.Fatal(err)
				}
				work := arena.Bytes("kv.k.work") + arena.Bytes("kv.v.work")
				if all := arena.Bytes("kv."); all != p.Bytes || work != p.WorkBytes {
					t.Errorf("%s after %q, %s, %s, %s: the cache takes %d bytes and %d for prompts, planned are %d and %d", s.Policy, s.Prefill, s.Prompt, s.Type, budget, all, work, p.Bytes, p.WorkBytes)
				}
				if all := p.Kept; all > p.Bytes {
					t.Errorf("%s: %d bytes are kept of %d", s.Policy, all, p.Bytes)
				}
				tried++
			}
		}
	}
	if tried < 500 {
		t.Errorf("only %d plans", tried)
	}
}

// Where the driver's loops end early, a cache with more slots than they reach is refused; what evicts nothing is not.
func TestSlotsThatLoopsDoNotReachAreRefused(t *testing.T) {
	e := engine()
	e.Tuning.Walk = 1000
	for _, c := range []struct {
		policy, budget string
		prompt         int
		fits           bool
	}{
		{"h2o", "968", 2000, true}, {"h2o", "970", 2000, false}, {"full", "5000", 4000, true}, {"h2o", "5000", 4000, true},
		{"snapkv:window=8", "500", 890, true}, {"snapkv:window=8", "500", 1100, false}, {"adakv:window=8", "200", 230, true}, {"adakv:window=8", "200", 400, false},
	} {
		s := Settings{RecentRatio: 0.5, Sinks: -1, Type: "f16", Positions: "auto", Chunk: 32}
		s.Policy, _ = ParseSpec(c.policy)
		s.Budget, _ = ParseBudget(c.budget)
		p, err := NewPlan(s, smol(), 5000, c.prompt+100, c.prompt)
		if err != nil {
			t.Fatalf("%s %s: %v", c.policy, c.budget, err)
		}
		_, err = NewCache(e, &runtime.Arena{}, smol(), p, 1, p.Chunk)
		if (err == nil) != c.fits || err != nil && !strings.Contains(err.Error(), "loops of this device's driver end after 1000") {
			t.Errorf("%s with %s slots after a prompt of %d: %v", c.policy, c.budget, c.prompt, err)
		}
	}
}

// A budget in bytes is never exceeded, and no plan with more slots would keep to it.
func TestBudgetsInBytesHoldTheMostSlots(t *testing.T) {
	policies := everyPolicy()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(plans(policies)).Draw(t, "settings")
		s.Type = rapid.SampledFrom([]string{"f16", "f32", "q8_0/q4_0"}).Draw(t, "type")
		s.Chunk = rapid.IntRange(1, 40).Draw(t, "chunk")
		length := rapid.IntRange(1, 150).Draw(t, "length")
		prompt := rapid.IntRange(1, length).Draw(t, "prompt")
		text := fmt.Sprintf("%dB", rapid.IntRange(1, 150*2*4*4*80).Draw(t, "bytes"))
		if rapid.Bool().Draw(t, "share") {
			text = fmt.Sprintf("%d%%B", rapid.IntRange(1, 100).Draw(t, "percent"))
		}
		s.Budget, _ = ParseBudget(text)
		if err := holdsMost(s, uneven(), length, prompt); err != nil {
			t.Fatal(err)
		}
	})
}

// The same where the bytes of a plan fall with its slots: when a pyramid becomes flat, and when nothing is evicted any more.
func TestBudgetsInBytesHoldTheMostSlotsOfPrompts(t *testing.T) {
	const length, prompt = 50, 40
	for _, s := range plans([]string{"h2o", "pyramidkv:window=4", "pyramidkv:window=4:rounding=published:beta=3", "adakv:window=4:decode=grow"}) {
		for n := 1; n <= length; n++ {
			s.Budget = Budget{unit: slotsPerHead, value: int64(n)}
			p, err := NewPlan(s, uneven(), 0, length, prompt)
			if err != nil {
				continue
			}
			s.Budget, _ = ParseBudget(fmt.Sprintf("%dB", p.Bytes))
			if err := holdsMost(s, uneven(), length, prompt); err != nil {
				t.Errorf("%s after %q, %s: %v", s.Policy, s.Prefill, s.Prompt, err)
			}
		}
	}
}

// holdsMost compares the plan for a budget in bytes with those for every number of slots.
func holdsMost(s Settings, g Geometry, length, prompt int) error {
	p, err := NewPlan(s, g, 0, length, prompt)
	if err != nil || !p.Policy.Evicts { // refused, or the budget does not matter
		return nil
	}
	if !s.Budget.holds(p, g) {
		return fmt.Errorf("a budget of %s holds %d bytes, of which %d are kept", s.Budget, p.Bytes, p.Kept)
	}
	tried := Plan{Settings: s, Context: length, Length: length, Chunk: p.Chunk, Sinks: s.Sinks}
	if err := tried.policies(); err != nil {
		return err
	}
	most := p
	for n := range length {
		if q, err := tried.with(g, n+1, prompt); err == nil && s.Budget.holds(q, g) {
			most = q
		}
	}
	if p.Bytes != most.Bytes || p.Budget != most.Budget || p.Kept != most.Kept {
		return fmt.Errorf("a budget of %s keeps %d slots in %d bytes; %d slots take %d", s.Budget, p.Budget, p.Bytes, most.Budget, most.Bytes)
	}
	return nil
}

// All layers together keep the mean budget, whatever they share it by, but for the published pyramid.
func TestLayersTogetherKeepTheBudget(t *testing.T) {
	for _, policy := range everyPolicy() {
		for _, budget := range []int{8, 33, 64, 120} {
			s := plans([]string{policy})[0]
			s.Budget, _ = ParseBudget(fmt.Sprint(budget))
			p, err := NewPlan(s, smol(), 0, 300, 200)
			if err != nil || !p.Evicts() {
				continue
			}
			slots := 0
			for i, l := range p.Layers {
				slots += l.Budget
				if l.Budget < p.Prefill.Window || l.Capacity < l.Budget || l.Most < l.Budget {
					t.Errorf("%s %d: layer %d has %+v", policy, budget, i, l)
				}
			}
			if most := budget * len(p.Layers); slots != most && !(p.Prefill.Published && slots > most) {
				t.Errorf("%s %d: layers keep %d slots, want %d", policy, budget, slots, most)
			}
		}
	}
}
