package tests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/runtime"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// member is a sequence of a batch.
type member struct {
	settings h2o.Settings
	prompt   []int32
}

// members differ in all that sequences can differ in: policy, budget, types, positions, and how long they are.
func members(t testing.TB) []member {
	ids := passageIDs(t)
	return []member{
		{fullKV(16), ids[:40]},
		{kv("h2o", "24", 0.5, 16), ids[100:160]},
		{kv("streaming", "16", 0, 7), ids[200:230]},
		{typed(kv("h2o:score=max", "20", 0.5, 16), "q8_0/q4_0"), ids[50:95]},
		{kv("tova", "20", 0, 1), ids[300:331]},
	}
}

// openBatch opens sessions and a batch of them for the length of a test.
func openBatch(t testing.TB, m *model.Model, all []member, length int) *model.Batch {
	t.Helper()
	var sessions []*model.Session
	for _, one := range all {
		sessions = append(sessions, openSession(t, m, one.settings, length))
	}
	return batchOf(t, m, sessions)
}

func batchOf(t testing.TB, m *model.Model, sessions []*model.Session) *model.Batch {
	t.Helper()
	b, err := m.NewBatch(t.Context(), sessions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

const batchTokens = 70 // chosen by each: more than the ring of decoded tokens has entries

// decodeTogether processes the prompts one after the other, and greedy tokens in one step for all.
func decodeTogether(t testing.TB, b *model.Batch, all []member) (outcomes []outcome) {
	t.Helper()
	for i, s := range b.Sessions() {
		reset(t, s)
		if err := s.Prompt(t.Context(), all[i].prompt, model.Observer{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	chosen, err := b.Decode(t.Context(), batchTokens-1, runtime.Sampling{})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range b.Sessions() {
		outcomes = append(outcomes, outcome{tokens: chosen[i]}.end(t, s))
	}
	return outcomes
}

// kept tells which positions every head holds, and how many went, without the scores.
func kept(t testing.TB, s *model.Session) string {
	t.Helper()
	state, err := s.Cache().State(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range state.Layers {
		for i := range l.Heads {
			l.Heads[i].Scores = nil
		}
	}
	return toJSON(t, state)
}

// Several rows are normed by a kernel of their own, and their parts of attention brought together by one, which sum as the
// product of one row does. On these drivers that leaves the same bits; compilers of others may round in another way.
func TestARowOfABatchIsItsSequenceAlone(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		compareAlone(t, d, builtinOn(t, d), members(t))
		e := engineOf(d)
		e.Tuning.Unjoined = true // every layer settles by itself
		compareAlone(t, d, builtinOn(t, d), members(t)[1:3])
		e.Tuning.Unjoined = false
		if slow(d) {
			return // takes minutes to compile what GPUs run
		}
		info := d.Info
		info.Kind = "discrete"
		gpu := runtime.NewEngine(d)
		gpu.Tuning = runtime.TuningFor(info)
		m := loadBuiltin(t, gpu)
		t.Cleanup(m.Close)
		compareAlone(t, d, m, members(t)[:3])
	})
}

// compareAlone compares each row of a batch with its sequence alone.
func compareAlone(t *testing.T, d *vk.Device, m *model.Model, all []member) {
	t.Helper()
	b := openBatch(t, m, all, 200)
	got := decodeTogether(t, b, all)
	var alone []outcome
	for i, one := range all {
		s := openSession(t, m, one.settings, 200)
		o := decode(t, s, one.prompt, batchTokens, false)
		alone = append(alone, o)
		if e := nmse(got[i].logits, o.logits); !(e <= errorChunk) || !slices.Equal(o.tokens, got[i].tokens) {
			t.Errorf("%v: NMSE %.2e against the sequence alone, want %.0e at most; tokens\n%v\n%v", one.settings.Policy, e, errorChunk, got[i].tokens, o.tokens)
		}
		if x, y := kept(t, b.Sessions()[i]), kept(t, s); x != y {
			t.Errorf("%v: kept %s, alone %s", one.settings.Policy, x, y)
		}
		if diff := got[i].difference(o); diff != "" && d.Info.Kind == "cpu" {
			t.Errorf("%v: differs from the sequence alone in %s", one.settings.Policy, diff)
		}
	}
	for i := range all { // the control: rows that are swapped
		if e := nmse(got[i].logits, alone[(i+1)%len(all)].logits); e <= errorChunk {
			t.Errorf("row %d and another sequence are alike, NMSE %.2e: the comparison shows nothing", i, e)
		}
	}
}

// In batches of one size a sequence leaves the same bits, whatever stands beside it and wherever its row is.
func TestARowDoesNotDependOnItsNeighbours(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, all, ids := builtinOn(t, d), members(t), passageIDs(t)
		want := decodeTogether(t, openBatch(t, m, all, 200), all)
		others := []member{all[3], {kv("window", "12", 0, 4), ids[400:450]}, {typed(fullKV(3), "f16"), ids[7:9]}, all[1], all[2]}
		got := decodeTogether(t, openBatch(t, m, others, 200), others)
		for i, was := range map[int]int{0: 3, 3: 1, 4: 2} {
			if diff := got[i].difference(want[was]); diff != "" {
				t.Errorf("%v: row %d beside others differs from row %d in %s", others[i].settings.Policy, i, was, diff)
			}
		}
		others[3].prompt = ids[101:161] // the control
		if diff := decodeTogether(t, openBatch(t, m, others, 200), others)[3].difference(want[1]); diff == "" {
			t.Error("another prompt leaves the same: the comparison shows nothing")
		}
	})
}

func TestABatchGoesOnAndIsReplayed(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, all, e := builtinOn(t, d), members(t)[:3], engineOf(d)
		b := openBatch(t, m, all, 200)
		want := decodeTogether(t, b, all)
		check := func(what string, got []outcome) {
			t.Helper()
			for i := range want {
				if diff := got[i].difference(want[i]); diff != "" {
					t.Errorf("%s: row %d differs in %s", what, i, diff)
				}
			}
		}
		check("after a reset", decodeTogether(t, b, all))
		e.Anew = true
		check("recorded anew", decodeTogether(t, b, all))
		e.Anew = false

		// In two calls, and the last tokens by each session for itself.
		parts := make([]outcome, len(all))
		for i, s := range b.Sessions() {
			reset(t, s)
			if err := s.Prompt(t.Context(), all[i].prompt, model.Observer{}, nil); err != nil {
				t.Fatal(err)
			}
		}
		for _, steps := range []int{20, batchTokens - 21} {
			chosen, err := b.Decode(t.Context(), steps, runtime.Sampling{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range parts {
				parts[i].tokens = append(parts[i].tokens, chosen[i]...)
			}
		}
		for i, s := range b.Sessions() {
			parts[i] = parts[i].end(t, s)
		}
		check("in two calls", parts)
		for i, s := range b.Sessions() {
			one := decode(t, openSession(t, m, all[i].settings, 200), all[i].prompt, batchTokens+5, false)
			if rest := generated(t, s, model.Generation{Tokens: 5, Continue: true}); !slices.Equal(rest, one.tokens[batchTokens:]) {
				t.Errorf("row %d goes on alone with %v, want %v", i, rest, one.tokens[batchTokens:])
			}
		}
	})
}

func TestABatchHoldsWhatWasPlanned(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, before := builtinOn(t, d), d.Held()
		var sessions []*model.Session
		for _, one := range members(t) {
			s, err := m.NewSession(t.Context(), model.SessionOptions{KV: one.settings, Length: 200})
			if err != nil {
				t.Fatal(err)
			}
			sessions = append(sessions, s)
		}
		alone := d.Held()
		b, err := m.NewBatch(t.Context(), sessions)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := d.Held()-alone, b.Memory().Bytes(""); got != want || want == 0 {
			t.Errorf("a batch holds %d bytes beside its sessions, planned %d", got, want)
		}
		decodeTogether(t, b, members(t))
		if held := d.Held() - alone; held != b.Memory().Bytes("") {
			t.Errorf("%d bytes held after decoding, %d planned", held, b.Memory().Bytes(""))
		}
		b.Close()
		if d.Held() != alone {
			t.Errorf("%d bytes are left of a closed batch", d.Held()-alone)
		}
		for _, s := range sessions {
			s.Close()
		}
		if d.Held() != before {
			t.Errorf("%d bytes are left of closed sessions", d.Held()-before)
		}
	})
}

// likelyTogether are sessions under settings, the last one full, with which the others are compared.
func likelyTogether(t testing.TB, m *model.Model, length int, settings ...h2o.Settings) *model.Batch {
	t.Helper()
	full := openLikely(t, m, fullKV(1), length, nil)
	var sessions []*model.Session
	for _, one := range settings {
		sessions = append(sessions, openLikely(t, m, one, length, full))
	}
	return batchOf(t, m, append(sessions, full))
}

func TestLikelihoodsOfABatchAreThoseOfItsSessions(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:150]
		settings := []h2o.Settings{kv("h2o", "24", 0.5, 1), kv("streaming", "16", 0, 1), typed(kv("h2o", "24", 0.5, 1), "q8_0"), kv("random", "20", 0.5, 1)}
		b := likelyTogether(t, m, len(ids), settings...)
		got, err := b.Likelihoods(t.Context(), ids, nil)
		if err != nil {
			t.Fatal(err)
		}
		if last := got[len(settings)]; last.KL != nil || !(far(last.NLL, doubles(likelihood(t, openLikely(t, m, fullKV(1), len(ids), nil), ids).NLL)) <= 1e-4) {
			t.Errorf("full beside others: %v", last)
		}
		for i, one := range settings {
			s := openLikely(t, m, one, len(ids), openLikely(t, m, fullKV(1), len(ids), nil))
			want := likelihood(t, s, ids)
			if nll, kl := far(got[i].NLL, doubles(want.NLL)), far(got[i].KL, doubles(want.KL)); !(nll <= 1e-4) || !(kl <= 1e-4) {
				t.Errorf("%v: likelihoods %g nats from those alone, divergences %g", one.Policy, nll, kl)
			}
			if x, y := kept(t, b.Sessions()[i]), kept(t, s); x != y {
				t.Errorf("%v: kept %s, alone %s", one.Policy, x, y)
			}
			if nll := far(got[i].NLL, doubles(got[(i+1)%len(settings)].NLL)); nll <= 1e-2 { // the control
				t.Errorf("row %d and another are %g nats apart: the comparison shows nothing", i, nll)
			}
		}
	})
}

func doubles(values []float32) (all []float64) {
	for _, v := range values {
		all = append(all, float64(v))
	}
	return all
}

func TestAnInterruptedBatchTellsWhatItKnowsOfEach(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:60]
		b := likelyTogether(t, m, len(ids), kv("h2o", "16", 0.5, 1), kv("window", "16", 0, 1))
		whole, err := b.Likelihoods(t.Context(), ids, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range b.Sessions() {
			reset(t, s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		part, err := b.Likelihoods(ctx, ids, func(done int) {
			if done == 20 {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%v, want the context's error", err)
		}
		seen := len(b.Sessions()[0].Tokens)
		rest, err := b.Likelihoods(t.Context(), ids[seen:], nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range whole {
			if n := len(part[i].NLL); n < 20 || n > 28 || n != seen {
				t.Errorf("row %d: %d likelihoods of %d tokens", i, n, seen)
			}
			if !slices.Equal(slices.Concat(part[i].NLL, rest[i].NLL), whole[i].NLL) || !slices.Equal(slices.Concat(part[i].KL, rest[i].KL), whole[i].KL) {
				t.Errorf("row %d: in two parts\n%v\n%v\nas one\n%v", i, part[i].NLL, rest[i].NLL, whole[i].NLL)
			}
		}
		for _, s := range b.Sessions() {
			reset(t, s)
		}
		none, err := b.Likelihoods(ctx, ids, nil)
		if !errors.Is(err, context.Canceled) || len(none) != 3 || len(none[0].NLL) != 0 {
			t.Errorf("cancelled before it began: %v, %v", none, err)
		}
	})
}

func TestBatchesRefuseWhatCannotStepTogether(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)
		one, other := openSession(t, m, fullKV(1), 20), openSession(t, m, fullKV(1), 20)
		full := openLikely(t, m, fullKV(1), 20, nil)
		used := openSession(t, m, fullKV(1), 20)
		if err := used.Prompt(t.Context(), ids[:2], model.Observer{}, nil); err != nil {
			t.Fatal(err)
		}
		stranger := openSession(t, loadModel(t, d, "testdata/llama/group2-q4_1.gguf"), fullKV(1), 20)
		for says, sessions := range map[string][]*model.Session{
			"a batch of 0 sessions, want 1 to 64":        nil,
			"a batch of 65 sessions":                     make([]*model.Session, 65),
			"session 1 is given twice":                   {one, one},
			"session 1 is one of another model":          {one, stranger},
			"session 1 holds 2 tokens":                   {one, used},
			"compared with one that is not in the batch": {one, openLikely(t, m, kv("h2o", "8", 0.5, 1), 20, full)},
		} {
			_, err := m.NewBatch(t.Context(), sessions)
			wantError(t, err, says)
		}
		b := batchOf(t, m, []*model.Session{one, other})
		_, err := b.Likelihoods(t.Context(), ids[:5], nil)
		wantError(t, err, "reads no text token by token")
		_, err = b.Decode(t.Context(), 5, runtime.Sampling{})
		wantError(t, err, "the session is empty")
		for _, s := range b.Sessions() {
			s.Pending = 1
		}
		_, err = b.Decode(t.Context(), 21, runtime.Sampling{})
		wantError(t, err, "21 tokens are more than the 20")
		chunks := batchOf(t, m, []*model.Session{openLikely(t, m, fullKV(4), 20, nil)})
		_, err = chunks.Likelihoods(t.Context(), ids[:5], nil)
		wantError(t, err, "reads no text token by token")
		texts := batchOf(t, m, []*model.Session{full})
		for says, text := range map[string][]int32{"want at least 2": ids[:1], "21 tokens are more": ids[:22], fmt.Sprintf("token id %d", m.Vocab): {1, int32(m.Vocab)}} {
			_, err := texts.Likelihoods(t.Context(), text, nil)
			wantError(t, err, says)
		}
		ends, err := m.NewSession(t.Context(), model.SessionOptions{KV: fullKV(1), Length: 20, Ends: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(ends.Close)
		_, err = batchOf(t, m, []*model.Session{ends}).Decode(t.Context(), 1, runtime.Sampling{})
		wantError(t, err, "stops at end tokens")
	})
}
