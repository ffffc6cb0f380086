package eval

import (
	"context"
	"errors"
	"strings"
	"testing"

	"vkdecode/h2o"
	"vkdecode/runtime"
)

// fake is a subject whose tokens are bytes and whose cache forgets as real ones do: the shared part of a prompt is cut
// down to what the policy keeps, then its own part is seen whole. Only full and window are known.
type fake struct {
	begin []int32
	// says is what the model makes of a text after what the cache still holds of the prompt.
	says func(kept, continuation string) Continuation

	opened, closed int
	prompts        []string         // all of them, whole
	before         func(prompt int) // called before each prompt; may be nil
}

func (f *fake) Begin() []int32 { return append([]int32(nil), f.begin...) }

func (f *fake) Encode(text string) []int32 {
	ids := make([]int32, len(text))
	for i := range ids {
		ids[i] = int32(text[i])
	}
	return ids
}

func decode(ids []int32) string {
	b := make([]byte, len(ids))
	for i, id := range ids {
		b[i] = byte(id)
	}
	return string(b)
}

func (f *fake) plan(kv h2o.Settings, tokens int) (*h2o.Plan, error) {
	return h2o.NewPlan(kv, h2o.Geometry{Layers: []h2o.Heads{{Query: 2, KV: 1}}, HeadDim: 8}, 0, tokens, tokens)
}

func (f *fake) Setting(kv h2o.Settings, tokens int) (Setting, error) {
	p, err := f.plan(kv, tokens)
	if err != nil {
		return Setting{}, err
	}
	return SettingOf(p, runtime.F32), nil
}

func (f *fake) Open(_ context.Context, kv h2o.Settings, tokens int) (Scorer, error) {
	p, err := f.plan(kv, tokens)
	if err != nil {
		return nil, err
	}
	f.opened++
	return &fakeScorer{f, p}, nil
}

type fakeScorer struct {
	*fake
	plan *h2o.Plan
}

func (s *fakeScorer) Held() int64 { return s.plan.Bytes }
func (s *fakeScorer) Close()      { s.closed++ }

func (s *fakeScorer) Score(ctx context.Context, p Prompt, continuations [][]int32) ([]Continuation, error) {
	if s.before != nil {
		s.before(len(s.prompts))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.prompts = append(s.prompts, decode(p.Shared)+decode(p.Own))
	kept := p.Shared
	if s.plan.Policy.Name == "window" {
		kept = kept[max(0, len(kept)-s.plan.Budget):]
	}
	var scores []Continuation
	for _, c := range continuations {
		if p.Tokens()+len(c) > s.plan.Length {
			return nil, errors.New("fake: more tokens than it was opened for")
		}
		scores = append(scores, s.says(decode(kept)+decode(p.Own), decode(c)))
	}
	return scores, nil
}

// copies is the model that goes on as the text did after the longest earlier copy of its end, if that has at least 16
// bytes: what needles are made for.
func copies(kept, continuation string) Continuation {
	const least = 16
	best, after := least-1, ""
	for at := 1; at < len(kept); at++ {
		n := 0
		for n < at && kept[at-1-n] == kept[len(kept)-1-n] {
			n++
		}
		if n > best {
			best, after = n, kept[at:]
		}
	}
	if strings.HasPrefix(after, continuation) {
		return Continuation{LogProb: -0.5, Greedy: true}
	}
	return Continuation{LogProb: -20}
}

// kv are settings with a chunk of one.
func kv(policy, budget string) h2o.Settings {
	spec, err := h2o.ParseSpec(policy)
	if err != nil {
		panic(err)
	}
	s := h2o.Settings{Policy: spec, Sinks: -1, Type: "f32", Positions: "auto", Chunk: 1}
	if s.Budget, err = h2o.ParseBudget(budget); err != nil {
		panic(err)
	}
	return s
}

// collect is an emit that keeps results.
func collect[T any](to *[]T) func(T, bool) error {
	return func(r T, _ bool) error {
		*to = append(*to, r)
		return nil
	}
}

// interruptAt ends a context before a prompt.
func interruptAt(t *testing.T, f *fake, prompt int) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	f.before = func(n int) {
		if n == prompt {
			cancel()
		}
	}
	return ctx
}
