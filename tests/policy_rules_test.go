package tests

import (
	"fmt"
	"slices"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// specs are every policy that evicts, and every option.
func specs() (all []string) {
	for _, p := range h2o.Policies {
		if p.Evicts {
			all = append(all, p.Name)
		}
	}
	return append(all,
		"h2o:score=guide", "h2o:score=layer", "h2o:score=max", "h2o:reduce=mean", "h2o:decay=0.9", "h2o:norm=lifetime", "h2o:admit=always",
		"h2o:grace=12", "h2o:every=5", "h2o:every=once", "h2o:score=max:decay=0.99:every=3", "h2o:score=layer:norm=lifetime:reduce=mean",
		"tova:protect_last=6", "tova:every=4", "random:seed=9", "window:every=7", "strided:every=2", "streaming:every=3",
		"snapkv:window=8:kernel=3", "snapkv:window=16:kernel=5:pool=avg:reduce=max", "snapkv:decode=grow", "pyramidkv:window=4:rounding=published", "pyramidkv:window=4:beta=3", "adakv:window=8:alpha=0.5", "adakv:alpha=0:window=4:reduce=mean")
}

// Every policy keeps what its rule says, by the scores read back from the device, and these are the twin's: in a prompt,
// in the steps decoded after it, and in a second turn.
func TestPoliciesFollowTheirRules(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:130]
		for i, spec := range specs() {
			for j, chunk := range []int{1, 32} {
				if slow(d) && i%2 != j {
					continue // rules are data, and kernels the same for all: the other driver has each in both
				}
				follow(t, m, spec, kv(spec, "48", 0.5, chunk), exchange{ids[:len(ids)-30], 8}, exchange{ids[len(ids)-30:], 5})
			}
		}
	})
}

// Prompts and decoding may have policies of their own, and a prompt may be cut to the budget once or chunk by chunk.
func TestPromptsHavePoliciesOfTheirOwn(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:130]
		for _, c := range []struct{ policy, prefill, prompt, positions string }{
			{"h2o", "", "exact", ""},
			{"h2o:score=guide", "", "exact", "cache"},
			{"snapkv:window=8", "", "bounded", ""},
			{"adakv:window=8", "", "bounded", "cache"},
			{"pyramidkv:window=5:beta=4", "", "bounded", ""},
			{"h2o", "snapkv:window=8", "", ""},
			{"h2o:norm=lifetime", "adakv:window=6", "exact", ""},
			{"h2o", "streaming", "", ""},
			{"tova", "streaming", "", "cache"},
			{"tova", "h2o:score=layer", "", "cache"},
			{"streaming", "adakv:window=8", "", ""},
			{"window", "random", "bounded", ""},
			{"random", "strided", "exact", ""},
			{"h2o:every=4", "window", "bounded", ""},
		} {
			settings := kv(c.policy, "48", 0.5, 32)
			if c.prefill != "" {
				settings.Prefill, _ = h2o.ParseSpec(c.prefill)
			}
			settings.Prompt, settings.Positions = c.prompt, c.positions
			follow(t, m, fmt.Sprintf("%s after %s, %s, %s", c.policy, c.prefill, c.prompt, c.positions), settings, exchange{ids[:90], 8}, exchange{ids[90:], 5})
		}
	})
}

// A head that its scores gave few slots goes on in decoding: no more is protected than it can have.
func TestHeadsWithFewSlotsGoOn(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:60]
		for _, prefill := range []string{"", "adakv:window=4:alpha=0"} {
			settings := kv("adakv:window=4", "24", 1, 7)
			if prefill != "" {
				settings = kv("h2o", "24", 0.9, 7)
				settings.Prefill, settings.Prompt = parsed(h2o.ParseSpec, prefill), "bounded"
			}
			settings.Sinks = 1
			follow(t, m, fmt.Sprint(settings.Policy), settings, exchange{ids[:34], 30}, exchange{ids[34:], 20})
		}
	})
}

// Layers may have budgets and recent windows of their own: fewer slots than the others, more, or only a window.
func TestLayersHaveBudgetsAndWindowsOfTheirOwn(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:130]
		layers, err := h2o.ParseLayers("0:budget=16:recent_ratio=0.25,1:budget=60%:recent_ratio=0.9,2:recent_ratio=1")
		if err != nil {
			t.Fatal(err)
		}
		for _, policy := range []string{"h2o", "streaming", "snapkv:window=8", "tova"} {
			settings := kv(policy, "25", 0.5, 32)
			settings.Layers = layers
			h := follow(t, m, policy, settings, exchange{ids[:90], 8}, exchange{ids[90:], 5})
			last := h.steps[len(h.steps)-1]
			for layer, want := range []int{16, (60*len(h.ids) + 50) / 100, 25} {
				kept := last.head(layer, 0).Positions
				if len(kept) != want {
					t.Errorf("%s: layer %d keeps %d tokens, want %d", policy, layer, len(kept), want)
				}
				if newest := lastOf(want, 0)(len(h.ids)); policy == "h2o" && slices.Equal(kept, newest) != (layer == 2) {
					t.Errorf("layer %d keeps %v, only the last one has a window of all its slots", layer, kept)
				}
			}
		}
	})
}

// follow checks a run of several turns against the rules.
func follow(t *testing.T, m *model.Model, name string, settings h2o.Settings, turns ...exchange) (h *history) {
	t.Run(fmt.Sprintf("%s, chunk %d", name, settings.Chunk), func(t *testing.T) {
		h = watchTurns(t, m, settings, false, turns...)
		t.Parallel() // the checks need no device
		if err := checkVictims(h); err != nil {
			t.Error(err)
		}
		if _, _, err := checkScores(newTwin(t, m.Config), h); err != nil {
			t.Error(err)
		}
	})
	return h
}
