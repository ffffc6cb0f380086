package tests

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

func prefill(s h2o.Settings, policy, how string) h2o.Settings {
	if policy != "" {
		s.Prefill = kv(policy, "1", 0, 1).Policy
	}
	s.Prompt = how
	return s
}

func renumbered(s h2o.Settings) h2o.Settings {
	s.Positions = "cache"
	return s
}

// savedSettings are every policy, and what else a session has to remember.
func savedSettings() (all []h2o.Settings) {
	for _, name := range h2o.Names() {
		all = append(all, kv(name, "48", 0.5, 16))
	}
	return append(all,
		prefill(kv("h2o", "48", 0.5, 16), "", "exact"),
		prefill(kv("h2o", "48", 0.5, 16), "snapkv", "bounded"),
		prefill(kv("adakv", "48", 0.5, 16), "", "bounded"),
		prefill(kv("window", "48", 0.5, 16), "h2o", "exact"),
		prefill(typed(kv("h2o:every=5", "40", 0.25, 7), "f16/q8_0"), "window", "bounded"),
		kv("snapkv:decode=grow", "40", 0.5, 16),
		renumbered(typed(kv("h2o:decay=0.9", "24", 0.5, 1), "q4_0")),
		pinned(typed(kv("h2o:score=layer", "24", 0.5, 16), "f16"), h2o.Span{Begin: 2, End: 7}),
	)
}

func settingsName(s h2o.Settings) string {
	return fmt.Sprintf("%s, prompts %s %s, %s, positions %s", s.Policy, s.Prefill, s.Prompt, s.Type, s.Positions)
}

// conversation is two turns. The token that the first one leaves begins the second.
type conversation struct {
	first, second []int32
	tokens        int // new ones, in each turn
}

func (c conversation) begin(t testing.TB, s *model.Session) outcome {
	return decode(t, s, c.first, c.tokens, true)
}

func (c conversation) end(t testing.TB, s *model.Session) outcome {
	return decode(t, s, append([]int32{s.Pending}, c.second...), c.tokens, true)
}

func (c conversation) length() int { return len(c.first) + len(c.second) + 2*c.tokens }

// open opens a session for a conversation: one that grows has to know how long prompts are.
func (c conversation) open(t testing.TB, m *model.Model, settings h2o.Settings, more int) *model.Session {
	t.Helper()
	s, err := m.NewSession(t.Context(), model.SessionOptions{KV: settings, Length: c.length() + more, Prompt: len(c.first)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func saved(t testing.TB, s *model.Session) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Save(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func restore(t testing.TB, s *model.Session, from []byte) {
	t.Helper()
	if err := s.Restore(bytes.NewReader(from)); err != nil {
		t.Fatal(err)
	}
}

// A session that was saved between two turns, and restored in another one, ends bit for bit like one that went on; so does
// one that was restored in the middle of a generation, in a session for more tokens that had done something else before.
func TestRestoredSessionsGoOnAsIfNothingHadBeen(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)
		c := conversation{ids[:70], ids[100:145], 24}
		if slow(d) {
			c = conversation{ids[:60], ids[100:121], 8}
		}
		for _, settings := range savedSettings() {
			t.Run(settingsName(settings), func(t *testing.T) {
				whole := c.open(t, m, settings, 0)
				first := c.begin(t, whole)
				file := saved(t, whole)
				if again := saved(t, whole); !bytes.Equal(again, file) {
					t.Error("saved twice, a session gives two files")
				}
				checkpoint, err := whole.Checkpoint()
				if err != nil {
					t.Fatal(err)
				}
				want := c.end(t, whole)
				for range 2 {
					if err := whole.Rollback(checkpoint); err != nil {
						t.Fatal(err)
					}
					if got := c.end(t, whole); got.difference(want) != "" {
						t.Errorf("after a rollback a session differs from itself in %s", got.difference(want))
					}
				}
				if want.log == "" && settings.Policy.Name != "full" {
					t.Error("nothing is evicted in the second turn")
				}

				other := c.open(t, m, settings, 57)
				decode(t, other, ids[200:240], 3, false)
				wantError(t, other.Rollback(checkpoint), "of another session")
				restore(t, other, file)
				if got := other.Tokens; !slices.Equal(got, whole.Tokens[:len(got)]) || len(got) != len(c.first)+c.tokens-1 || other.Pending != first.tokens[c.tokens-1] {
					t.Fatalf("restored %d tokens, pending %d", len(got), other.Pending)
				}
				if diff := (outcome{tokens: first.tokens}).end(t, other).difference(first); diff != "" {
					t.Errorf("restored and saved differ in %s", diff)
				}
				if again := saved(t, other); len(again) < 100 || !bytes.Equal(payload(again), payload(file)) {
					t.Error("restored and saved again, a session gives another file")
				}
				if got := c.end(t, other); got.difference(want) != "" {
					t.Errorf("restored before the second turn, a session differs from one that went on in %s", got.difference(want))
				}

				reset(t, whole)
				once := decode(t, whole, c.first, 2*c.tokens, false)
				restore(t, other, file)
				rest := outcome{tokens: slices.Clone(first.tokens)}
				rest.tokens = append(rest.tokens, generated(t, other, model.Generation{Tokens: c.tokens, Continue: true})...)
				if rest = rest.end(t, other); rest.difference(once) != "" {
					t.Errorf("restored within a generation, a session differs from one that went on in %s", rest.difference(once))
				}
			})
		}
	})
}

// payload is a saved session without its header, which says how long the session may become, and without its sum.
func payload(file []byte) []byte {
	const preamble, sum = 16, 32
	header := int(binary.LittleEndian.Uint32(file[12:]))
	return file[preamble+header : len(file)-sum]
}

// What a session was opened for may differ from what it is restored into: its length, and with it what is allocated and how
// many rows a chunk has, as long as that has made no difference yet.
func TestSessionsMayBeRestoredIntoLongerOnes(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)
		for _, settings := range []h2o.Settings{fullKV(64), typed(kv("h2o", "48", 0.5, 64), "q8_0"), kv("h2o", "12", 0.5, 64), kv("streaming", "24", 0, 64)} {
			for _, tokens := range []int{1, 2, 3, 33} {
				c := conversation{ids[:tokens], ids[100:150], 8}
				short, err := m.NewSession(t.Context(), model.SessionOptions{KV: settings, Length: tokens + c.tokens - 1})
				if err != nil {
					t.Fatal(err)
				}
				defer short.Close()
				c.begin(t, short)
				whole, other := openSession(t, m, settings, 300), openSession(t, m, settings, 300)
				c.begin(t, whole)
				file := saved(t, short)
				if whole.Plan().Renumber && !short.Plan().Renumber { // places are positions where nothing can be evicted: keys are held otherwise
					if err := other.Restore(bytes.NewReader(file)); err == nil || !strings.Contains(err.Error(), "positions: original in the file, cache here (nothing can be evicted") {
						t.Errorf("%v, a prompt of %d tokens: %v, want the positions refused", settings.Policy, tokens, err)
					}
					continue
				}
				restore(t, other, file)
				if got, want := c.end(t, other), c.end(t, whole); got.difference(want) != "" {
					t.Errorf("%v, a prompt of %d tokens: restored into a longer session, differs from it in %s", settings.Policy, tokens, got.difference(want))
				}
			}
		}
	})
}

// A state is refused where it would not be what the session itself would have come to: with what differs, both values.
func TestRestoreNamesTheSettingThatDiffers(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:70]
		settings := kv("h2o", "24", 0.5, 16)
		s := openSession(t, m, settings, 100)
		decode(t, s, ids, 10, false)
		file := saved(t, s)
		change := func(f func(s *h2o.Settings)) h2o.Settings {
			changed := settings
			f(&changed)
			return changed
		}
		for want, other := range map[string]h2o.Settings{
			"policy: h2o in the file, window here":                                                                        change(func(s *h2o.Settings) { s.Policy = kv("window", "1", 0, 1).Policy }),
			"policy: h2o in the file, h2o:score=max here":                                                                 change(func(s *h2o.Settings) { s.Policy = kv("h2o:score=max", "1", 0, 1).Policy }),
			"policy of prompts: that of decoding in the file, window here":                                                prefill(settings, "window", ""),
			"prefill: bounded, in the layers' pools in the file, exact, in a pool of its own here":                        prefill(settings, "", "exact"),
			"budget: 24 slots per KV head in the file, 25 slots per KV head here":                                         change(func(s *h2o.Settings) { s.Budget = kv("h2o", "25", 0, 1).Budget }),
			"layers of their own: none in the file, 1-2:budget=13 here; budget: 24 slots per KV head in the file, [24 13": change(func(s *h2o.Settings) { s.Layers, _ = h2o.ParseLayers("1-2:budget=13") }),
			"recent ratio: 0.5 in the file, 0.25 here":                                                                    change(func(s *h2o.Settings) { s.RecentRatio = 0.25 }),
			"sinks: 0 in the file, 2 here":                                                                                sinks(settings, 2),
			"pinned positions: none in the file, 3 to 8 here":                                                             pinned(settings, h2o.Span{Begin: 3, End: 9}),
			"KV type: f32/f32 in the file, f16/q8_0 here":                                                                 typed(settings, "f16/q8_0"),
			"positions: original in the file, cache here":                                                                 renumbered(settings),
			"chunk: 16 tokens in the file, 15 here, and a prompt of 70 tokens was cut":                                    change(func(s *h2o.Settings) { s.Chunk = 15 }),
			"the file, 2 here; pinned positions: none in the file, 3 to 8 here":                                           sinks(pinned(settings, h2o.Span{Begin: 3, End: 9}), 2), // all that differ
		} {
			o := openSession(t, m, other, 100)
			wantError(t, o.Restore(bytes.NewReader(file)), "model: saved session: ", want)
			if len(o.Tokens) != 0 {
				t.Errorf("%s: %d tokens after a refusal", want, len(o.Tokens))
			}
		}
		wantError(t, openSession(t, m, settings, 78).Restore(bytes.NewReader(file)), "79 tokens, and the session is for 78")
		ending := endingModel(t, d, 5)
		wantError(t, openSession(t, ending, settings, 100).Restore(bytes.NewReader(file)), "model: ", m.Fingerprint+" in the file", ending.Fingerprint+" here")
		restore(t, openSession(t, m, settings, 79), file)
	})
}

// An observed prompt that fitted its budget was not observed: a longer session would have other scores.
func TestRestoreRefusesAPromptThatWasNotStaged(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:40]
		s := openSession(t, m, kv("snapkv", "48", 0.5, 16), 48)
		decode(t, s, ids, 5, false)
		err := openSession(t, m, kv("snapkv", "48", 0.5, 16), 100).Restore(bytes.NewReader(saved(t, s)))
		wantError(t, err, "prefill: bounded, in the layers' pools in the file, exact, in a pool of its own here")
	})
}
