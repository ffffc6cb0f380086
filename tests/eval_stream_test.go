package tests

import (
	"context"
	"errors"
	"math"
	"testing"

	"vkdecode/eval"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

func passageSegment(t testing.TB, n int) *eval.Segment {
	t.Helper()
	return &eval.Segment{Text: &eval.Text{Name: "passage", Hash: "h"}, Tokens: passageIDs(t)[:n]}
}

func TestAStreamFindsThePerplexityOfTheReference(t *testing.T) {
	var r reference
	readJSON(t, "testdata/builtin.json", &r)
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		const n = 200
		s, err := eval.OpenStream(t.Context(), builtinOn(t, d), fullKV(32), n, true)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var nll []float64
		for _, v := range r.Passage.NLL[:n-1] {
			nll = append(nll, float64(v))
		}
		for range 2 { // the second text begins with an empty cache as well
			p, err := s.Read(t.Context(), passageSegment(t, n), nil)
			if err != nil {
				t.Fatal(err)
			}
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

func TestAnInterruptedStreamTellsOfTheTokensSoFar(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, settings := builtinOn(t, d), kv("h2o", "16", 0.5, 10)
		read := func(tokens, stopAt int) (eval.Perplexity, error) {
			s, err := eval.OpenStream(t.Context(), m, settings, 120, true)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			ctx, cancel := context.WithCancel(t.Context())
			if stopAt == 0 {
				cancel()
			}
			return s.Read(ctx, passageSegment(t, tokens), func(done int) {
				if done >= stopAt {
					cancel()
				}
			})
		}
		cut, err := read(120, 50)
		if !errors.Is(err, context.Canceled) || cut.Complete || cut.Tokens != 51 || cut.KL == nil {
			t.Fatalf("%+v, %v", cut, err)
		}
		short, err := read(51, 1000)
		if err != nil || !short.Complete {
			t.Fatalf("%+v, %v", short, err)
		}
		if cut.PPL != short.PPL || cut.PPLLastHalf != short.PPLLastHalf || *cut.PPLAfterBudget != *short.PPLAfterBudget || *cut.KL != *short.KL {
			t.Errorf("cut short %+v, want what 51 tokens give: %+v", cut, short)
		}
		if none, err := read(120, 0); !errors.Is(err, context.Canceled) || none.Tokens != 0 {
			t.Errorf("%+v, %v", none, err)
		}
	})
}
