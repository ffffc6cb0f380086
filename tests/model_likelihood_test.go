package tests

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/ref"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// openLikely opens a session for likelihoods for the length of a test.
func openLikely(t testing.TB, m *model.Model, settings h2o.Settings, length int, full *model.Session) *model.Session {
	t.Helper()
	s, err := m.NewSession(t.Context(), model.SessionOptions{KV: settings, Length: length, Likelihood: true, Full: full})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func likelihood(t testing.TB, s *model.Session, ids []int32) *model.Likelihood {
	t.Helper()
	l, err := s.Likelihood(t.Context(), ids, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// far is the largest difference of values from others.
func far(got []float32, want []float64) (most float64) {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	for i, w := range want {
		if d := math.Abs(float64(got[i]) - w); !(d <= most) {
			most = d
		}
	}
	return most
}

func TestLikelihoodsAgreeWithTheReferenceInAnyChunk(t *testing.T) {
	var r reference
	readJSON(t, "testdata/builtin.json", &r)
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), r.Passage.IDs
		if slow(d) {
			ids = ids[:295]
		}
		var want []float64
		for _, v := range r.Passage.NLL[:len(ids)-1] {
			want = append(want, float64(v))
		}
		for _, chunk := range []int{1, 7, 64, h2o.MaxChunk} {
			s := openLikely(t, m, fullKV(chunk), len(ids)-1, nil) // the last token needs no slot
			l := likelihood(t, s, ids)
			if e := far(l.NLL, want); !(e <= 1e-4) || l.KL != nil {
				t.Errorf("chunk %d: %g nats from the reference, want 1e-4 at most", chunk, e)
			}
			if !slices.Equal(s.Tokens, ids[:len(ids)-1]) {
				t.Errorf("chunk %d: %d tokens processed, want %d", chunk, len(s.Tokens), len(ids)-1)
			}
			logits, err := s.Logits()
			if err != nil {
				t.Fatal(err)
			}
			if e := far(l.NLL[len(ids)-2:], []float64{ref.NLL(logits, int(ids[len(ids)-1]))}); !(e <= 1e-5) {
				t.Errorf("chunk %d: the logits left are not those of the last token: %g nats apart", chunk, e)
			}
		}
	})
}

// Evicting caches too, and their distance from a full one: both from logits of all rows that the host reads.
func TestLikelihoodsAndDivergencesAreThoseOfTheLogits(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:120]
		for _, settings := range []h2o.Settings{kv("h2o", "24", 0.5, 1), kv("h2o", "24", 0.5, 20), kv("h2o:every=once", "24", 0.5, 1)} {
			chunk := settings.Chunk
			full := openLikely(t, m, fullKV(chunk), len(ids), nil)
			s := openLikely(t, m, settings, len(ids), full)
			got := likelihood(t, s, ids)

			rest := ids[:len(ids)-1]
			of, all := promptLogits(t, openSession(t, m, settings, len(ids)), rest), promptLogits(t, openSession(t, m, fullKV(chunk), len(ids)), rest)
			var nll, kl []float64
			for i := range rest {
				at, next := i*m.Vocab, (i+1)*m.Vocab
				nll = append(nll, ref.NLL(of[at:next], int(ids[i+1])))
				kl = append(kl, ref.KL(all[at:next], of[at:next]))
			}
			if e := far(got.NLL, nll); !(e <= 2e-5) {
				t.Errorf("chunk %d: NLL %g nats from the logits'", chunk, e)
			}
			if e := far(got.KL, kl); !(e <= 2e-5) {
				t.Errorf("chunk %d: KL %g nats from the logits'", chunk, e)
			}
			if most := slices.Max(got.KL); most < 0.1 || slices.Max(got.KL[:23]) > 1e-5 {
				t.Errorf("chunk %d: KL up to %g, want some; and none before the budget is reached: %v", chunk, most, got.KL[:24])
			}
			if !slices.Equal(full.Tokens, s.Tokens) {
				t.Errorf("chunk %d: the full session processed %d tokens, the other %d", chunk, len(full.Tokens), len(s.Tokens))
			}
		}
	})
}

func TestAFullCacheIsNotFarFromAnother(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:40]
		full := openLikely(t, m, fullKV(16), len(ids), nil)
		for _, v := range likelihood(t, openLikely(t, m, kv("h2o", "100%", 0.5, 16), len(ids), full), ids).KL {
			if v != 0 {
				t.Fatalf("KL %g of the same logits, want 0", v)
			}
		}
	})
}

// A text in two calls, the second beginning with the first's last token, and after a reset, is the text in one.
func TestLikelihoodsGoOnWhereTheyStopped(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:60]
		for _, chunk := range []int{1, 10} {
			s := openLikely(t, m, kv("h2o", "16", 0.5, chunk), len(ids), nil)
			whole := likelihood(t, s, ids).NLL
			if err := s.Reset(); err != nil {
				t.Fatal(err)
			}
			parts := slices.Concat(likelihood(t, s, ids[:21]).NLL, likelihood(t, s, ids[20:]).NLL)
			if !slices.Equal(parts, whole) {
				t.Errorf("chunk %d: in two parts\n%v\nas one\n%v", chunk, parts, whole)
			}
		}
	})
}

func TestAnInterruptedLikelihoodTellsWhatItKnows(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:60]
		for _, chunk := range []int{1, 8} {
			settings := kv("h2o", "16", 0.5, chunk)
			whole := likelihood(t, openLikely(t, m, settings, len(ids), nil), ids).NLL
			s := openLikely(t, m, settings, len(ids), nil)
			ctx, cancel := context.WithCancel(t.Context())
			l, err := s.Likelihood(ctx, ids, func(done int) {
				if done >= 20 {
					cancel()
				}
			})
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%v, want the context's error", err)
			}
			if n := len(l.NLL); n < 20 || n > 28 || n != len(s.Tokens) || !slices.Equal(l.NLL, whole[:n]) {
				t.Errorf("chunk %d: %d likelihoods of %d tokens:\n%v\nwant\n%v", chunk, n, len(s.Tokens), l.NLL, whole)
			}
			// What was left out can still be done.
			rest := likelihood(t, s, ids[len(s.Tokens):])
			if chunk == 1 && !slices.Equal(rest.NLL, whole[len(l.NLL):]) {
				t.Errorf("the rest is\n%v\nwant\n%v", rest.NLL, whole[len(l.NLL):])
			}
		}
	})
}

func TestLikelihoodsRecordedAnewAreTheSame(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, ids, e := builtinOn(t, d), passageIDs(t)[:40], engineOf(d)
		for _, chunk := range []int{1, 16} {
			settings := kv("h2o", "16", 0.5, chunk)
			replayed := likelihood(t, openLikely(t, m, settings, len(ids), nil), ids).NLL
			e.Anew = true
			anew := likelihood(t, openLikely(t, m, settings, len(ids), nil), ids).NLL
			e.Anew = false
			if !slices.Equal(anew, replayed) {
				t.Errorf("chunk %d: anew %v, replayed %v", chunk, anew, replayed)
			}
		}
	})
}

func TestLikelihoodsRefuseWhatTheyCannotTell(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)
		s := openLikely(t, m, fullKV(8), 20, nil)
		for _, c := range []struct {
			s    *model.Session
			ids  []int32
			says string
		}{
			{openSession(t, m, fullKV(8), 20), ids[:5], "not opened for likelihoods"},
			{s, ids[:1], "want at least 2"},
			{s, ids[:22], "21 tokens are more than the 20"},
			{s, []int32{1, 2, int32(m.Vocab)}, "token id 1024"},
			{s, []int32{1, -1, 2}, "token id -1"},
		} {
			_, err := c.s.Likelihood(t.Context(), c.ids, nil)
			wantError(t, err, c.says)
		}
		for _, full := range []*model.Session{openSession(t, m, fullKV(8), 20), openLikely(t, m, fullKV(4), 20, nil)} {
			_, err := m.NewSession(t.Context(), model.SessionOptions{KV: kv("h2o", "8", 0.5, 8), Length: 20, Likelihood: true, Full: full})
			wantError(t, err, "session to compare with")
		}
		ahead := openLikely(t, m, fullKV(8), 20, nil)
		likelihood(t, ahead, ids[:3])
		_, err := openLikely(t, m, kv("h2o", "8", 0.5, 8), 20, ahead).Likelihood(t.Context(), ids[:5], nil)
		wantError(t, err, "has processed 2 tokens, want 0")
	})
}
