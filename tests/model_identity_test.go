package tests

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// outcome is all that a run leaves behind.
type outcome struct {
	tokens []int32
	logits []float32 // of the last token
	state  string
	log    string // of evictions, empty for runs that nobody watched
}

// decode processes a prompt and n greedy tokens. A watched run waits for every step and logs its evictions.
func decode(t testing.TB, s *model.Session, prompt []int32, n int, watched bool) (o outcome) {
	t.Helper()
	observer := model.Observer{}
	if watched {
		observer.Evictions = true
		observer.Step = func(step model.Step) error {
			o.log += toJSON(t, step.Evicted)
			return nil
		}
	}
	if err := s.Prompt(t.Context(), prompt, observer, nil); err != nil {
		t.Fatal(err)
	}
	o.tokens = generated(t, s, model.Generation{Tokens: n, Observer: observer})
	return o.end(t, s)
}

// end reads what the session holds.
func (o outcome) end(t testing.TB, s *model.Session) outcome {
	t.Helper()
	after, err := outcomeOf(s)
	if err != nil {
		t.Fatal(err)
	}
	o.logits, o.state = after.logits, after.state
	return o
}

// outcomeOf is what a session holds.
func outcomeOf(s *model.Session) (o outcome, err error) {
	if o.logits, err = s.Logits(); err != nil {
		return o, err
	}
	state, err := s.Cache().State(0)
	if err != nil {
		return o, err
	}
	written, err := json.Marshal(state)
	o.state = string(written)
	return o, err
}

// difference names what differs, bit for bit; logs only where both runs have one.
func (o outcome) difference(other outcome) string {
	switch {
	case !slices.Equal(o.tokens, other.tokens):
		return fmt.Sprintf("tokens %v and %v", o.tokens, other.tokens)
	case !slices.Equal(o.logits, other.logits):
		return "logits"
	case o.state != other.state:
		return "the cache"
	case o.log != "" && other.log != "" && o.log != other.log:
		return "the log of evictions"
	}
	return ""
}

func toJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const (
	promptTokens = 60
	newTokens    = 80 // more than the ring of decoded tokens has entries
)

// evicting are settings under which the runs of these tests evict, in the prompt and after it.
func evicting() []h2o.Settings {
	half := kv("h2o", "24", 0.5, 16)
	half.Type = "f16"
	return []h2o.Settings{half, kv("h2o", "20%", 0.25, 1), pinned(kv("window", "24", 0, 16), h2o.Span{Begin: 2, End: 7}), typed(kv("streaming", "24", 0, 7), "q8_0/q4_0")}
}

// A step may be recorded once and replayed, or recorded anew each time; the host may wait for each or not; the device may
// choose the tokens or be given them: all leave the same tokens, logits, cache and log.
func TestEveryWayToDecodeIsTheSame(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, prompt, e := builtinOn(t, d), passageIDs(t)[:promptTokens], engineOf(d).Engine
		all, steps := evicting(), []int{2, 3, 8, 100} // 100: more than the device keeps tokens of
		if slow(d) {
			all, steps = all[:2], []int{3, 100}
		}
		for _, settings := range all {
			want := decode(t, openSession(t, m, settings, promptTokens+newTokens), prompt, newTokens, true)
			if want.log == "" {
				t.Fatalf("%v evicts nothing", settings.Policy)
			}
			check := func(what string, got outcome) {
				t.Helper()
				if diff := got.difference(want); diff != "" {
					t.Errorf("%v: %s: differs from a watched run in %s", settings.Policy, what, diff)
				}
			}
			s := openSession(t, m, settings, promptTokens+newTokens)
			check("replayed", decode(t, s, prompt, newTokens, false))
			reset(t, s)
			check("watched again after a reset", decode(t, s, prompt, newTokens, true))
			reset(t, s)
			e.Anew = true
			check("recorded anew", decode(t, s, prompt, newTokens, false))
			reset(t, s)
			check("recorded anew, watched", decode(t, s, prompt, newTokens, true))
			e.Anew = false
			reset(t, s)
			check("given the tokens", given(t, s, prompt, want.tokens))
			for _, n := range steps {
				reset(t, s)
				together(t, d, n)
				check(fmt.Sprintf("%d steps in a submit", n), decode(t, s, prompt, newTokens, false))
				check(fmt.Sprintf("%d steps in a submit, by two", n), inTurns(t, s, prompt, want.tokens))
			}
			together(t, d, 1)
		}
	})
}

// together makes a device take so many decode steps in a submit, however long they are, until the end of the test.
func together(t testing.TB, d *vk.Device, steps int) {
	e := engineOf(d).Engine
	now, before := time.Duration(0), e.Tuning.Steps
	e.Tuning.Steps = steps
	e.Clock = func() time.Duration { // nothing takes any time
		now++
		return now
	}
	t.Cleanup(func() { e.Tuning.Steps, e.Clock = before, nil })
}

// inTurns decodes in several generations, of which the last ones go on where the one before has stopped.
func inTurns(t testing.TB, s *model.Session, prompt, want []int32) (o outcome) {
	t.Helper()
	reset(t, s)
	if err := s.Prompt(t.Context(), prompt, model.Observer{}, nil); err != nil {
		t.Fatal(err)
	}
	for len(o.tokens) < len(want) {
		n := min(7, len(want)-len(o.tokens))
		o.tokens = append(o.tokens, generated(t, s, model.Generation{Tokens: n, Continue: len(o.tokens) > 0})...)
	}
	return o.end(t, s)
}

func reset(t testing.TB, s *model.Session) {
	t.Helper()
	if err := s.Reset(); err != nil {
		t.Fatal(err)
	}
}

// given tells the session which tokens to take.
func given(t testing.TB, s *model.Session, prompt, tokens []int32) (o outcome) {
	t.Helper()
	if err := s.Prompt(t.Context(), prompt, model.Observer{}, nil); err != nil {
		t.Fatal(err)
	}
	o.tokens = generated(t, s, model.Generation{Tokens: len(tokens), Given: tokens})
	return o.end(t, s)
}

// Two runs that differ are told apart.
func TestOtherRunsAreNotTheSame(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, prompt := builtinOn(t, d), passageIDs(t)[:promptTokens]
		settings := kv("h2o", "24", 0.5, 16)
		want := decode(t, openSession(t, m, settings, promptTokens+newTokens), prompt, newTokens, true)
		other := settings
		other.Chunk = 15
		for name, got := range map[string]outcome{
			"a token less":  decode(t, openSession(t, m, settings, promptTokens+newTokens), prompt, newTokens-1, true),
			"another chunk": decode(t, openSession(t, m, other, promptTokens+newTokens), prompt, newTokens, true),
		} {
			if got.difference(want) == "" {
				t.Errorf("%s makes no difference", name)
			}
		}
	})
}

// A budget that is never exceeded changes nothing at all.
func TestBudgetForAllTokensEqualsFull(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, ids, budgets := builtinOn(t, d), passageIDs(t)[:70], []string{"70", "69", "1000", "100%"}
		if slow(d) {
			budgets = budgets[:2]
		}
		for _, chunk := range []int{1, 32} {
			full := watch(t, m, fullKV(chunk), ids, true)
			for _, policy := range []string{"h2o", "window", "streaming"} {
				for _, budget := range budgets {
					h := watch(t, m, kv(policy, budget, 0.5, chunk), ids, true)
					same := true
					for i, step := range h.steps {
						same = same && slices.Equal(step.logits, full.steps[i].logits) && len(step.Evicted) == 0
					}
					if err := checkKept(h, lastOf(len(ids), 0)); err != nil {
						same = false
					}
					if evicts := budget == "69"; same == evicts {
						t.Errorf("chunk %d, %s with a budget of %s for 70 tokens: same as full %v", chunk, policy, budget, same)
					}
				}
			}
		}
	})
}

// A prompt below the budget, after which decoding grows, loses nothing either, also where heads share their slots.
func TestGrowthAfterAShortPromptEqualsFull(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, prompt := builtinOn(t, d), passageIDs(t)[:5]
		run := func(settings h2o.Settings) outcome {
			s, err := m.NewSession(t.Context(), model.SessionOptions{KV: settings, Length: 64, Prompt: len(prompt)})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			return decode(t, s, prompt, 60, false)
		}
		full := run(fullKV(16))
		for _, policy := range []string{"snapkv:window=4:decode=grow", "adakv:window=4:decode=grow"} {
			if got := run(kv(policy, "20", 0.5, 16)); !slices.Equal(got.tokens, full.tokens) || !slices.Equal(got.logits, full.logits) {
				t.Errorf("%s: differs from full", policy)
			}
		}
	})
}
