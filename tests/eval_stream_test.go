package tests

import (
	"context"
	"errors"
	"math"
	"testing"

	"vkdecode/eval"
	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

func passageSegment(t testing.TB, n int) *eval.Segment {
	t.Helper()
	return &eval.Segment{Text: &eval.Text{Name: "passage", Hash: "h"}, Tokens: passageIDs(t)[:n]}
}

// openStreams opens streams for the length of a test.
func openStreams(t testing.TB, m *model.Model, tokens int, divergence bool, settings ...h2o.Settings) *eval.Streams {
	t.Helper()
	s, err := eval.OpenStreams(t.Context(), m, settings, tokens, divergence)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestAStreamFindsThePerplexityOfTheReference(t *testing.T) {
	var r reference
	readJSON(t, "testdata/builtin.json", &r)
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		const n = 200
		s := openStreams(t, builtinOn(t, d), n, true, fullKV(32))
		var nll []float64
		for _, v := range r.Passage.NLL[:n-1] {
			nll = append(nll, float64(v))
		}
		for range 2 { // the second text begins with an empty cache as well
			all, err := s.Read(t.Context(), passageSegment(t, n), nil)
			if err != nil || len(all) != 1 {
				t.Fatal(all, err)
			}
			p := all[0]
			if want := math.Exp(mean(nll)); !(math.Abs(p.PPL/want-1) <= 1e-5) {
				t.Errorf("perplexity %g, want %g", p.PPL, want)
			}
			if want := math.Exp(mean(nll[n/2-1:])); !(math.Abs(p.PPLLastHalf/want-1) <= 1e-5) {
				t.Errorf("of the last half %g, want %g", p.PPLLastHalf, want)
			}
			if !p.Complete || p.Tokens != n || p.PPLAfterBudget != nil || p.KL == nil || *p.KL != 0 || p.BytesHeld != p.BytesFull || p.BytesHeld != 2*3*2*32*4*n || p.TPS <= 0 {
				t.Errorf("%+v", p)
			}
		}
	})
}

// Token by token, settings beside each other find what each finds alone.
func TestStreamsSideBySideFindWhatEachFindsAlone(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		n, divergences := 120, []bool{false, true}
		if slow(d) {
			n, divergences = 60, []bool{true}
		}
		m, seg := builtinOn(t, d), passageSegment(t, n)
		settings := []h2o.Settings{kv("h2o", "20%", 0.5, 1), fullKV(1), kv("window", "24", 0, 1), kv("streaming", "24", 0, 1)}
		for _, divergence := range divergences {
			done := 0
			got, err := openStreams(t, m, n, divergence, settings...).Read(t.Context(), seg, func(n int) { done = n })
			if err != nil || done != len(settings)*(n-1) {
				t.Fatalf("%v after %d tokens", err, done)
			}
			for i, one := range settings {
				all, err := openStreams(t, m, n, divergence, one).Read(t.Context(), seg, nil)
				if err != nil {
					t.Fatal(err)
				}
				want := all[0]
				if !(math.Abs(got[i].PPL/want.PPL-1) <= 1e-5) || !(math.Abs(got[i].PPLLastHalf/want.PPLLastHalf-1) <= 1e-5) {
					t.Errorf("%v: perplexity %g beside others, %g alone", one.Policy, got[i].PPL, want.PPL)
				}
				if (got[i].KL != nil) != divergence || divergence && !(math.Abs(*got[i].KL-*want.KL) <= 1e-5) {
					t.Errorf("%v: divergence %s beside others, %s alone", one.Policy, toJSON(t, got[i].KL), toJSON(t, want.KL))
				}
				if next := got[(i+1)%len(got)]; math.Abs(next.PPL/want.PPL-1) <= 1e-3 { // the control
					t.Errorf("%v and %s are alike: the comparison shows nothing", one.Policy, next.Policy)
				}
				same := got[i]
				same.PPL, same.PPLLastHalf, same.PPLAfterBudget, same.KL, same.Buckets, same.TPS = want.PPL, want.PPLLastHalf, want.PPLAfterBudget, want.KL, want.Buckets, want.TPS
				if toJSON(t, same) != toJSON(t, want) {
					t.Errorf("beside others %+v, alone %+v", got[i], want)
				}
			}
		}
	})
}

func TestStreamsThatReadInChunksGoAlone(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		for _, other := range []h2o.Settings{kv("h2o", "20", 0.5, 8), kv("snapkv:window=4", "20", 0.5, 1)} {
			_, err := eval.OpenStreams(t.Context(), builtinOn(t, d), []h2o.Settings{fullKV(1), other}, 40, true)
			wantError(t, err, "2 settings", "open each alone")
		}
	})
}

func TestAnInterruptedStreamTellsOfTheTokensSoFar(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m := builtinOn(t, d)
		for _, settings := range [][]h2o.Settings{{kv("h2o", "16", 0.5, 10)}, {kv("h2o", "16", 0.5, 1), kv("window", "16", 0, 1)}} {
			read := func(tokens, stopAt int) ([]eval.Perplexity, error) {
				ctx, cancel := context.WithCancel(t.Context())
				if stopAt == 0 {
					cancel()
				}
				return openStreams(t, m, 120, true, settings...).Read(ctx, passageSegment(t, tokens), func(done int) {
					if done >= stopAt*len(settings) {
						cancel()
					}
				})
			}
			cuts, err := read(120, 50)
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%+v, %v", cuts, err)
			}
			shorts, err := read(cuts[0].Tokens, 1000)
			if err != nil {
				t.Fatal(err)
			}
			for i, cut := range cuts {
				short := shorts[i]
				if cut.Complete || cut.Tokens < 51 || cut.Tokens > 53 || cut.KL == nil || !short.Complete {
					t.Fatalf("%+v\n%+v", cut, short)
				}
				if cut.PPL != short.PPL || cut.PPLLastHalf != short.PPLLastHalf || *cut.PPLAfterBudget != *short.PPLAfterBudget || *cut.KL != *short.KL {
					t.Errorf("cut short %+v, want what as many tokens give: %+v", cut, short)
				}
			}
			none, err := read(120, 0)
			if !errors.Is(err, context.Canceled) || len(none) != len(settings) {
				t.Fatalf("%+v, %v", none, err)
			}
			for _, p := range none {
				if p.Tokens != 0 {
					t.Errorf("%+v", p)
				}
			}
		}
	})
}
