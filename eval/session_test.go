package eval

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/model/builtin"
	"vkdecode/model/gguf"
	"vkdecode/runtime"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// models holds the built-in model on each device, for drivers compile slowly.
var models = map[*vk.Device]*model.Model{}

func subjectOn(t *testing.T, d *vk.Device) (Subject, *model.Model) {
	t.Helper()
	if models[d] == nil {
		f, err := gguf.Parse(builtin.Model)
		if err != nil {
			t.Fatal(err)
		}
		if models[d], err = model.Load(runtime.NewEngine(d), f, nil); err != nil {
			t.Fatal(err)
		}
	}
	s, err := NewSubject(models[d])
	if err != nil {
		t.Fatal(err)
	}
	return s, models[d]
}

func scorerOf(t *testing.T, s Subject, kv h2o.Settings, tokens int) Scorer {
	t.Helper()
	scorer, err := s.Open(t.Context(), kv, tokens)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(scorer.Close)
	return scorer
}

func chunked(kv h2o.Settings, chunk int) h2o.Settings {
	kv.Chunk = chunk
	return kv
}

// The likelihoods of a continuation are those that one pass over prompt and continuation gives with every logit read.
func TestAContinuationIsScoredAsOnePassWould(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		s, m := subjectOn(t, d)
		prompt := Prompt{Shared: s.Encode("Well, Prince, so Genoa and Lucca are now just family estates"), Own: s.Encode(" of the")}
		scorer := scorerOf(t, s, chunked(kv("full", "100%"), 8), 64)
		session, err := m.NewSession(t.Context(), model.SessionOptions{KV: chunked(kv("full", "100%"), 16), Length: 64})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(session.Close)
		var want []Continuation
		var continuations [][]int32
		for _, text := range []string{" Emperor", " Buonapartes. But I warn you", "q", " estates of the Emperor Napoleon"} {
			answer := s.Encode(text)
			all := slices.Concat(prompt.Shared, prompt.Own, answer)
			var logits []float32
			if err := errors.Join(session.Reset(), session.Prompt(t.Context(), all, model.Observer{Logits: true, Step: func(step model.Step) error {
				logits = append(logits, step.Logits...)
				return nil
			}}, nil)); err != nil {
				t.Fatal(err)
			}
			c := Continuation{Greedy: true}
			for i, token := range answer {
				row := logits[(prompt.Tokens()+i-1)*m.Vocab:][:m.Vocab]
				sum := 0.0
				for _, l := range row {
					sum += math.Exp(float64(l))
				}
				c.LogProb += float64(row[token]) - math.Log(sum)
				c.Greedy = c.Greedy && slices.Max(row) == row[token]
			}
			continuations, want = append(continuations, answer), append(want, c)
		}
		got, err := scorer.Score(t.Context(), prompt, continuations)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if math.Abs(got[i].LogProb-want[i].LogProb) > 1e-3 || got[i].Greedy != want[i].Greedy {
				t.Errorf("continuation %d: %+v, want %+v", i, got[i], want[i])
			}
		}
		if want[0].LogProb == want[2].LogProb {
			t.Error("the continuations are alike: the comparison shows nothing")
		}
	})
}

// What was scored before changes nothing, bit for bit, with caches that evict.
func TestScoresDoNotDependOnWhatWasScoredBefore(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		s, _ := subjectOn(t, d)
		for _, settings := range []h2o.Settings{chunked(kv("h2o", "12"), 8), chunked(kv("snapkv:window=4", "12"), 8)} {
			prompt := Prompt{Shared: s.Encode("It was in July, 1805, and the speaker was the well-known Anna"), Own: s.Encode(" Pavlovna")}
			one, other := s.Encode(" Scherer, maid of honor"), s.Encode(" and favorite")
			scorer := scorerOf(t, s, settings, 64)
			score := func(continuations ...[]int32) []Continuation {
				t.Helper()
				c, err := scorer.Score(t.Context(), prompt, continuations)
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			first := score(one, other, one[:1], one)
			if second := score(other, one, one[:1]); second[0] != first[1] || second[1] != first[0] || second[2] != first[2] || first[3] != first[0] {
				t.Errorf("%s: in another order %+v, want %+v", settings.Policy, second, first)
			}
			if alone := score(one); alone[0] != first[0] {
				t.Errorf("%s: alone %+v, want %+v", settings.Policy, alone[0], first[0])
			}
			// The control: a prompt cut elsewhere has other chunks, and with them other evictions.
			prompt.Shared, prompt.Own = prompt.Shared[:5], slices.Concat(prompt.Shared[5:], prompt.Own)
			if moved := score(one); moved[0] == first[0] && settings.Policy.Name == "h2o" {
				t.Error("other chunks gave the same bits: the comparison shows nothing")
			}
		}
	})
}

func TestScoringRefusesWhatHasNoTokens(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		s, _ := subjectOn(t, d)
		scorer := scorerOf(t, s, chunked(kv("full", "100%"), 8), 16)
		for want, c := range map[string]struct {
			prompt Prompt
			answer []int32
		}{
			"the prompt has no tokens":       {Prompt{}, []int32{1}},
			"continuation 0 has no tokens":   {Prompt{Own: []int32{1}}, nil},
			"token 1000000, want one of":     {Prompt{Own: []int32{1}}, []int32{1000000}},
			"18 tokens are more than the 16": {Prompt{Shared: make([]int32, 12), Own: make([]int32, 6)}, []int32{1}},
		} {
			if _, err := scorer.Score(t.Context(), c.prompt, [][]int32{c.answer}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := scorer.Score(ctx, Prompt{Own: []int32{1}}, [][]int32{{1}}); !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted: %v", err)
		}
	})
}

// A budget of the whole text gives what full gives, in every figure.
func TestEvaluationsOfTheBuiltInModel(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		s, _ := subjectOn(t, d)
		settings := []h2o.Settings{chunked(kv("full", "100%"), 32), chunked(kv("h2o", "100%"), 32), chunked(kv("window", "10%"), 32)}
		settings[1].RecentRatio = 0.5

		var recalls []Recall
		n := needleOptions(settings...)
		n.Contexts, n.Depths, n.Needles = []int{300}, []float64{0.5}, 2
		if err := search(t.Context(), s, n, collect(&recalls)); err != nil {
			t.Fatal(err)
		}
		var accuracies []Accuracy
		q := qaOptions(3, settings...)
		q.Context, q.ContextTokens = newText("hay.txt", hay()), 100
		for _, q.Mode = range []Mode{ByText, ByLetter} {
			if err := examine(t.Context(), s, q, collect(&accuracies)); err != nil {
				t.Fatal(err)
			}
		}
		if len(recalls) != 3 || len(accuracies) != 6 {
			t.Fatalf("%d recalls, %d accuracies", len(recalls), len(accuracies))
		}
		for i, r := range recalls {
			if r.Needles != 2 || !r.Complete || !(r.LogProb < 0) || r.BytesHeld <= 0 {
				t.Errorf("%+v", r)
			}
			r.Setting, r.BytesHeld = recalls[0].Setting, recalls[0].BytesHeld
			if same := r == recalls[0]; same != (i < 2) {
				t.Errorf("%s: %+v; full: %+v", recalls[i].Policy, r, recalls[0])
			}
		}
		for i, a := range accuracies {
			if a.Questions != 3 || !a.Complete || a.BytesHeld <= 0 || a.BudgetSlots < 1 {
				t.Errorf("%+v", a)
			}
			if i%3 == 1 && (a.Correct != accuracies[i-1].Correct || a.CorrectNormalized != accuracies[i-1].CorrectNormalized) {
				t.Errorf("%+v; full: %+v", a, accuracies[i-1])
			}
		}
		if held := recalls[2].BytesHeld; held >= recalls[0].BytesHeld/2 {
			t.Errorf("a tenth of the cache holds %d bytes, full %d", held, recalls[0].BytesHeld)
		}
	})
}

func TestAModelWithoutATokenizerIsNoSubject(t *testing.T) {
	if _, err := NewSubject(&model.Model{TokenizerErr: errors.New("model: the file has no vocabulary")}); err == nil || !strings.Contains(err.Error(), "no vocabulary") {
		t.Errorf("%v", err)
	}
}

func TestLogitsThatAreNoNumbersAreRefused(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, logits := range [][]float32{{0, nan}, {inf, 0}, {-inf, -inf}} {
		if _, _, err := logProb(logits, 0); err == nil {
			t.Errorf("%v passes", logits)
		}
	}
	p, best, err := logProb([]float32{0, 1, 1, -inf}, 2)
	if err != nil || best || math.Abs(p-(1-math.Log(1+2*math.E))) > 1e-12 {
		t.Errorf("%v, %v, %v", p, best, err)
	}
	if p, best, err := logProb([]float32{1e30, 0}, 0); p != 0 || !best || err != nil {
		t.Errorf("%v, %v, %v", p, best, err)
	}
}
