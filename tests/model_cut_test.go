package tests

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"vkdecode/model"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// cutsOf counts the ends of submits and the parts of dispatches in the programs of a session.
func cutsOf(s *model.Session) (cuts, parts int) {
	var b bytes.Buffer
	s.PrintGraph(&b)
	return strings.Count(b.String(), "-- cut"), strings.Count(b.String(), " from (")
}

// Wherever programs are cut, and whenever they are cut anew, a run leaves the same tokens, logits and cache.
func TestResultsAreTheSameUnderAnyCut(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, prompt, e := builtinOn(t, d), passageIDs(t)[:promptTokens], engineOf(d).Engine
		defer func() { e.Clock = nil }()
		settings := evicting()
		settings = append(settings[:1], settings[2], kv("snapkv:window=4", "24", 0, 16)) // the last one goes layer by layer
		if slow(d) {
			settings = settings[:1] // it compiles every kernel once more for parts
		}
		for _, kv := range settings {
			const tokens = 30
			e.Clock = nil
			want := decode(t, openSession(t, m, kv, promptTokens+tokens), prompt, tokens, false)
			s := openSession(t, m, kv, promptTokens+tokens)
			r, now := rand.New(rand.NewPCG(1, 2)), time.Duration(0)
			e.Clock = func() time.Duration { // a submit takes nothing, or up to a second
				now += time.Duration(r.IntN(2)*r.IntN(1000)) * time.Millisecond
				return now
			}
			most := 0
			for round := range 3 {
				if got := decode(t, s, prompt, tokens, round == 1); got.difference(want) != "" {
					t.Errorf("%v, round %d: differs in %s", kv.Policy, round, got.difference(want))
				}
				if _, parts := cutsOf(s); parts > most {
					most = parts
				}
				reset(t, s)
			}
			if most < 10 {
				t.Errorf("%v: %d parts of dispatches at most: hardly anything was cut", kv.Policy, most)
			}
		}
	})
}

// On a device on which every submit takes a second programs fall into ever smaller ones; on one that is quick they become
// one each.
func TestCutsFollowTheDevice(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, prompt, e := builtinOn(t, d), passageIDs(t)[:32], engineOf(d).Engine
		defer func() { e.Clock = nil }()
		s, now := openSession(t, m, kv("h2o", "24", 0.5, 16), 64), time.Duration(0)
		before, _ := cutsOf(s)
		submit := time.Microsecond
		e.Clock = func() time.Duration {
			now += submit
			return now
		}
		run := func() int {
			t.Helper()
			decode(t, s, prompt, 4, false)
			reset(t, s)
			cuts, _ := cutsOf(s)
			return cuts
		}
		if quick := run(); quick != 0 || before == 0 {
			t.Errorf("%d cuts on a quick device, %d before anything was known; want none and some", quick, before)
		}
		if slow(d) {
			return // it compiles every kernel once more for parts
		}
		submit = time.Second
		slow := run()
		slower := run()
		if slow < before || slower <= slow {
			t.Errorf("%d cuts on a slow device, then %d; %d at first", slow, slower, before)
		}
		submit = time.Microsecond
		if quick := run(); quick != 0 {
			t.Errorf("%d cuts on a device that has become quick, want none", quick)
		}
	})
}
