package tests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/model/builtin"
	"vkdecode/runtime"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// turn is what a session does next: a prompt, then so many greedy tokens.
type turn struct {
	prompt []int32
	tokens int
}

// A second prompt goes on from the state of the first, as if all had been one prompt; after a reset nothing of it is left.
// The last token that was generated is not in the cache yet: it begins the next prompt.
func TestSecondPromptContinuesTheFirst(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)
		for _, settings := range []h2o.Settings{fullKV(1), kv("h2o", "24", 0.5, 1), kv("window", "24", 0, 1), kv("streaming", "24", 0, 1)} {
			s := openSession(t, m, settings, 400)
			first := decode(t, s, ids[:50], 30, false)
			second := append(slices.Clone(first.tokens[29:]), ids[200:245]...)
			got := decode(t, s, second, 20, false)
			if len(s.Tokens) != 50+29+46+19 {
				t.Fatalf("%v: %d tokens processed", settings.Policy, len(s.Tokens))
			}
			all := slices.Clone(s.Tokens)
			want := decode(t, openSession(t, m, settings, 400), all, 1, false)
			want.tokens = got.tokens[:19]
			if got.tokens = all[len(all)-19:]; got.difference(want) != "" {
				t.Errorf("%v: two turns and one prompt differ in %s", settings.Policy, got.difference(want))
			}
			reset(t, s)
			if again := decode(t, s, ids[:50], 30, false); again.difference(first) != "" {
				t.Errorf("%v: after a reset a session differs in %s", settings.Policy, again.difference(first))
			}
		}
	})
}

// A prompt in two parts is the same as in one where the parts end with a chunk; a rest of one row is a chunk too.
func TestPromptInPartsIsTheSame(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:65]
		settings := kv("h2o", "24", 0.5, 16)
		want := decode(t, openSession(t, m, settings, 100), ids, 5, false)
		s := openSession(t, m, settings, 100)
		decode(t, s, ids[:32], 1, false)
		if got := decode(t, s, ids[32:], 5, false); got.difference(want) != "" {
			t.Errorf("a prompt in two parts differs in %s", got.difference(want))
		}
	})
}

// endingModel is the built-in model for which another token ends the text.
func endingModel(t testing.TB, d *vk.Device, end int32) *model.Model {
	t.Helper()
	f := rewritten(t, builtin.Model, rewrite{set: map[string]any{"tokenizer.ggml.eos_token_id": uint32(end)}})
	m, err := model.Load(engineOf(d).Engine, f, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// Steps that were already submitted when an end token came change nothing: nothing of them is in the cache.
func TestNothingHappensAfterAnEndToken(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		ids, settings := passageIDs(t)[:70], kv("h2o", "24", 0.5, 16)
		endless := decode(t, openSession(t, builtinOn(t, d), settings, 200), ids, 100, false).tokens
		n := 8
		for slices.Contains(endless[:n-1], endless[n-1]) {
			n++
		}
		m := endingModel(t, d, endless[n-1])
		for _, steps := range []int{1, 8} {
			together(t, d, steps)
			nothingAfter(t, m, settings, ids, endless[:n])
		}
	})
}

// nothingAfter decodes until the end token, the last of want, watched and not.
func nothingAfter(t *testing.T, m *model.Model, settings h2o.Settings, ids, want []int32) {
	t.Helper()
	n := len(want)
	for _, watched := range []bool{false, true} {
		s, err := m.NewSession(t.Context(), model.SessionOptions{KV: settings, Length: 200, Ends: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		got := decode(t, s, ids, 100, watched)
		if !slices.Equal(got.tokens, want) {
			t.Fatalf("watched %v: decoded %v, want %v", watched, got.tokens, want)
		}
		on := openSession(t, m, settings, 200)
		stopped := decode(t, on, ids, n, false)
		if got.difference(stopped) != "" {
			t.Errorf("watched %v: stopping at an end token and after as many tokens differ in %s", watched, got.difference(stopped))
		}
		if beyond := decode(t, on, got.tokens[n-1:], 2, false); beyond.state == stopped.state {
			t.Error("a token more changes nothing")
		}
	}
}

// A cancelled generation and one whose text nobody takes leave a session that can go on: it knows what it processed.
func TestInterruptedSessionsCanGoOn(t *testing.T) {
	closed := errors.New("closed")
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:60]
		for _, c := range []struct {
			watched, fails bool
			steps          int // in a submit
		}{{false, false, 1}, {false, true, 1}, {true, false, 1}, {true, true, 1}, {false, false, 8}, {false, true, 8}} {
			together(t, d, c.steps)
			s := openSession(t, m, kv("h2o", "24", 0.5, 1), 300)
			if err := s.Prompt(t.Context(), ids, model.Observer{}, nil); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var emitted []int32
			g := model.Generation{Tokens: 100, Emit: func(token int32) error {
				if emitted = append(emitted, token); len(emitted) == 10 {
					if c.fails {
						return closed
					}
					cancel()
				}
				return nil
			}}
			if c.watched {
				g.Observer.Step = func(model.Step) error { return nil }
			}
			reason, err := s.Generate(ctx, g)
			if c.fails && !errors.Is(err, closed) || !c.fails && (err != nil || reason != model.StopCancelled) {
				t.Fatalf("stopped by %q, %v", reason, err)
			}
			all := append(slices.Clone(s.Tokens), ids[:8]...)
			got := decode(t, s, ids[:8], 5, false)
			if want := decode(t, openSession(t, m, kv("h2o", "24", 0.5, 1), 300), all, 5, false); got.difference(want) != "" {
				t.Errorf("%+v: the session and a new one with its tokens differ in %s", c, got.difference(want))
			}
		}
	})
}

// A prompt that is cancelled stops between chunks.
func TestCancelledPromptStopsBetweenChunks(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		s := openSession(t, builtinOn(t, d), fullKV(16), 100)
		ctx, cancel := context.WithCancel(t.Context())
		err := s.Prompt(ctx, passageIDs(t)[:100], model.Observer{}, func(done int) {
			if done >= 32 {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) || len(s.Tokens) != 32 {
			t.Errorf("%d tokens, %v; want 32 and %v", len(s.Tokens), err, context.Canceled)
		}
	})
}

// Where decoding evicts nothing there is room for what is decoded beside the longest prompt, and no more.
func TestDecodingThatGrowsKeepsToItsRoom(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)
		for _, policy := range []string{"h2o:every=once", "snapkv:window=4:decode=grow", "adakv:window=4:decode=grow"} {
			s, err := m.NewSession(t.Context(), model.SessionOptions{KV: kv(policy, "8", 0.5, 16), Length: 50, Prompt: 40})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := s.Prompt(t.Context(), ids[:20], model.Observer{}, nil); err != nil {
				t.Fatal(err)
			}
			room, err := s.Cache().Room(0)
			if err != nil || room < 10 || room > 26 {
				t.Fatalf("%s: room for %d tokens: %v", policy, room, err)
			}
			_, err = s.Generate(t.Context(), model.Generation{Tokens: room + 2, Emit: func(int32) error { return nil }})
			wantError(t, err, fmt.Sprintf("%d tokens, and there is room for %d until a prompt is cut: the session, of 50 tokens, was opened for a prompt of 40", room+1, room))
			greedy(t, s, room+1) // the last one is not processed
			if left, err := s.Cache().Room(0); err != nil || left != 0 {
				t.Errorf("%s: room for %d tokens when there should be none: %v", policy, left, err)
			}
		}
	})
}

func TestSessionsRefuseWhatTheyCannotProcess(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m := builtinOn(t, d)
		s := openSession(t, m, fullKV(16), 10)
		prompt := func(ids ...int32) error { return s.Prompt(t.Context(), ids, model.Observer{}, nil) }
		wantError(t, prompt(), "the prompt is empty")
		wantError(t, prompt(1, -1), "token id -1, want 0 to 1023")
		wantError(t, prompt(1024), "token id 1024, want 0 to 1023")
		wantError(t, prompt(make([]int32, 11)...), "11 tokens are more than the 10 the session was opened for")
		if err := prompt(make([]int32, 8)...); err != nil {
			t.Error(err)
		}
		wantError(t, prompt(1, 2, 3), "11 tokens are more than the 10")
		_, err := s.Generate(t.Context(), model.Generation{Tokens: 4, Emit: func(int32) error { return nil }})
		wantError(t, err, "11 tokens are more than the 10")
		generate := func(g model.Generation) error {
			g.Emit = func(int32) error { return nil }
			_, err := s.Generate(t.Context(), g)
			return err
		}
		wantError(t, generate(model.Generation{Tokens: 2, Given: []int32{1}}), "1 tokens given, want 2")
		wantError(t, generate(model.Generation{Tokens: 1, Given: []int32{1024}}), "token id 1024, want 0 to 1023")
		wantError(t, generate(model.Generation{Tokens: 1, Sampling: runtime.Sampling{TopP: 2}}), "top-p of 2, want 0 to 1")
		wantError(t, generate(model.Generation{Tokens: 1, Sampling: runtime.Sampling{Bias: map[int32]float64{1024: 1}}}), "a bias for token 1024, want 0 to 1023")
		if len(s.Tokens) != 8 {
			t.Errorf("%d tokens after refusals, want 8", len(s.Tokens))
		}
		if got := greedy(t, s, 3); len(got) != 3 {
			t.Errorf("%d tokens, want 3", len(got))
		}
		reset(t, s)
		wantError(t, generate(model.Generation{Tokens: 1}), "the session is empty")
	})
}
