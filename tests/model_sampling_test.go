package tests

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/ref"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// samplings are ways to choose tokens of the built-in model.
func samplings() []ref.Sampling {
	return []ref.Sampling{
		{Temperature: 1, Seed: 5},
		{Temperature: 0.8, TopK: 40, TopP: 0.95, Seed: 1},
		{Temperature: 1.3, TopP: 0.9, MinP: 0.02, Seed: 1 << 33},
		{Temperature: 1, TopK: 200, RepeatPenalty: 1.3, Presence: 0.3, Frequency: 0.2, Window: 24, Seed: 2},
		{RepeatPenalty: 1.2, Frequency: 0.5, Bias: map[int]float32{46: 2, 13: float32(math.Inf(-1))}}, // draws nothing
	}
}

// continued processes a prompt and n tokens. A watched run also gives the logits from which each was chosen.
func continued(t testing.TB, s *model.Session, prompt []int32, g model.Generation, watched bool) (o outcome, logits [][]float32) {
	t.Helper()
	if err := s.Prompt(t.Context(), prompt, model.Observer{}, nil); err != nil {
		t.Fatal(err)
	}
	if watched {
		first, err := s.Logits()
		if err != nil {
			t.Fatal(err)
		}
		logits = append(logits, first)
		g.Observer = model.Observer{Logits: true, Step: func(step model.Step) error {
			logits = append(logits, slices.Clone(step.Logits))
			return nil
		}}
	}
	o.tokens = generated(t, s, g)
	return o.end(t, s), logits
}

// objection compares tokens with those that the twin chooses from the logits after the prompt and after each token.
func objection(how ref.Sampling, prompt, tokens []int32, logits [][]float32) error {
	history := ints32(prompt)
	for i, token := range tokens {
		if want, near := how.Sample(logits[i], history); int(token) != want && near >= nearEnough {
			return fmt.Errorf("token %d is %d, the twin's %d, %.2g from another choice", i, token, want, near)
		}
		history = append(history, int(token))
	}
	return nil
}

func ints32(tokens []int32) (out []int) {
	for _, t := range tokens {
		out = append(out, int(t))
	}
	return out
}

// The device's tokens are those that the twin draws from the logits that were read back, whether the host waits for each
// step or not, and whether commands are replayed or recorded anew.
func TestSampledTokensAreTheTwins(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, prompt, e := builtinOn(t, d), passageIDs(t)[:promptTokens], engineOf(d).Engine
		for i, how := range samplings() {
			settings := []h2o.Settings{fullKV(16), kv("h2o", "24", 0.5, 16)}[i%2]
			s := openSession(t, m, settings, promptTokens+newTokens)
			g := model.Generation{Tokens: newTokens, Sampling: deviceSampling(how)}
			want, logits := continued(t, s, prompt, g, true)
			if len(want.tokens) != newTokens || len(logits) != newTokens {
				t.Fatalf("%+v: %d tokens, %d logits", how, len(want.tokens), len(logits))
			}
			if err := objection(how, prompt, want.tokens, logits); err != nil {
				t.Errorf("%+v: %v", how, err)
			}
			for _, anew := range []bool{false, true} {
				reset(t, s)
				e.Anew = anew
				got, _ := continued(t, s, prompt, g, false)
				e.Anew = false
				if diff := got.difference(want); diff != "" {
					t.Errorf("%+v: unwatched, recorded anew %v: differs from a watched run in %s", how, anew, diff)
				}
			}
			// The twin of other settings chooses other tokens.
			for what, change := range map[string]func(s *ref.Sampling){
				"another seed": func(s *ref.Sampling) { s.Seed++ }, "a higher temperature": func(s *ref.Sampling) { s.Temperature += 0.5 },
				"a shorter window": func(s *ref.Sampling) { s.Window = 3 },
			} {
				other := how
				other.Bias = nil
				change(&other)
				if drawn := how.Temperature > 0; (what == "a shorter window") == drawn && how.RepeatPenalty == 0 || what == "another seed" && !drawn {
					continue // without a say here
				}
				if what == "a shorter window" && how.RepeatPenalty == 0 {
					continue
				}
				if objection(other, prompt, want.tokens, logits) == nil {
					t.Errorf("%+v: %s makes no difference", how, what)
				}
			}
		}
	})
}

// The random numbers belong to positions: a text in two turns, or restored in between, is the same as in one.
func TestSampledTextGoesOnAsIfItHadNotStopped(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, prompt := builtinOn(t, d), passageIDs(t)[:promptTokens]
		settings := kv("h2o", "24", 0.5, 16)
		for _, how := range samplings() {
			g := model.Generation{Tokens: 40, Sampling: deviceSampling(how)}
			s := openSession(t, m, settings, promptTokens+newTokens)
			want, _ := continued(t, s, prompt, g, false)
			reset(t, s)
			g.Tokens = 15
			first, _ := continued(t, s, prompt, g, false)
			on := openSession(t, m, settings, promptTokens+newTokens)
			restore(t, on, saved(t, s))
			g.Tokens, g.Continue = 25, true
			rest := outcome{tokens: append(first.tokens, generated(t, on, g)...)}.end(t, on)
			if diff := rest.difference(want); diff != "" {
				t.Errorf("%+v: in two turns: differs in %s", how, diff)
			}
		}
	})
}

// Steps that were submitted when an end token was drawn change nothing.
func TestNothingHappensAfterASampledEnd(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		prompt, settings := passageIDs(t)[:promptTokens], kv("h2o", "24", 0.5, 16)
		g := model.Generation{Tokens: newTokens, Sampling: deviceSampling(ref.Sampling{Temperature: 1, TopK: 50, Presence: 1, Seed: 4})}
		endless, _ := continued(t, openSession(t, builtinOn(t, d), settings, 200), prompt, g, false)
		n := 8
		for slices.Contains(endless.tokens[:n-1], endless.tokens[n-1]) {
			n++
		}
		m := endingModel(t, d, endless.tokens[n-1])
		for _, watched := range []bool{false, true} {
			s, err := m.NewSession(t.Context(), model.SessionOptions{KV: settings, Length: 200, Ends: true})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			got, _ := continued(t, s, prompt, g, watched)
			g := g
			g.Tokens = n
			want, _ := continued(t, openSession(t, m, settings, 200), prompt, g, false)
			if diff := got.difference(want); diff != "" || len(got.tokens) != n {
				t.Errorf("watched %v: %d tokens; stopping at an end token and after %d tokens differ in %s", watched, len(got.tokens), n, diff)
			}
			g.Tokens = n + 1
			if beyond, _ := continued(t, openSession(t, m, settings, 200), prompt, g, false); beyond.state == want.state {
				t.Error("a token more changes nothing")
			}
		}
	})
}

// A model whose logits are broken does not decode on, and the error names the first one.
func TestBrokenLogitsEndTheDecoding(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		s, file := savedSmall(t, d)
		for _, c := range []struct {
			at    int
			value float32
			all   bool
			says  string
		}{
			{at: 700, value: float32(math.NaN()), says: "after 40 tokens the logit of token 700 is NaN"},
			{at: 0, value: float32(math.Inf(1)), says: "after 40 tokens the logit of token 0 is +Inf"},
			{value: float32(math.Inf(-1)), all: true, says: "all 1024 logits are -inf"},
			{at: 1023, value: float32(math.Inf(-1))},
		} {
			for _, how := range samplings() {
				f := takeApart(t, file)
				for i := range 1024 {
					if c.all || i == c.at {
						binary.LittleEndian.PutUint32(f.payload[savedLogits+4*i:], math.Float32bits(c.value))
					}
				}
				restore(t, s, f.bytes(t))
				before := outcome{}.end(t, s)
				_, err := s.Generate(t.Context(), model.Generation{Tokens: 5, Sampling: deviceSampling(how), Emit: func(int32) error { return nil }})
				if c.says == "" {
					if err != nil {
						t.Error(err)
					}
					continue
				}
				wantError(t, err, "model: ", c.says)
				if after := (outcome{}).end(t, s); len(s.Tokens) != 40 || after.state != before.state {
					t.Errorf("%s: a step was taken", c.says)
				}
			}
		}
		if err := s.Restore(bytes.NewReader(file)); err != nil {
			t.Error(err)
		}
	})
}
