package doctor

import (
	"context"
	"fmt"
	"slices"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/model/gguf"
)

// The prompt of the check of end tokens, and the tokens decoded after it, the last of which is the end.
const (
	donePrompt = 40
	doneTokens = 12
)

// doneSteps decodes greedily under a budget, once step by step and once with steps submitted ahead, in a model where the
// last token ends the text: the steps after it must change nothing.
func (p *patient) doneSteps(ctx context.Context, r *reference) (finding, error) {
	f := finding{what: "differences"}
	run := &r.Policies[0]
	tokens, want, _, err := p.generate(ctx, r, run, p.file, doneTokens, true)
	if err != nil {
		return f, err
	}
	end := len(tokens) - 1
	for end > 1 && slices.Index(tokens, tokens[end]) < end { // a token that came before would end the text there
		end--
	}
	if end <= 1 {
		return f, errNothing
	}
	if end+1 < len(tokens) {
		if tokens, want, _, err = p.generate(ctx, r, run, p.file, end+1, true); err != nil {
			return f, err
		}
	}
	file, err := ending(p.file, tokens[end])
	if err != nil {
		return f, err
	}
	got, state, reason, err := p.generate(ctx, r, run, file, 2*doneTokens, false)
	if err != nil {
		return f, err
	}
	switch {
	case !slices.Equal(got, tokens):
		f.note = fmt.Sprintf("tokens %v, want %v", got, tokens)
	case reason != model.StopEnd:
		f.note = fmt.Sprintf("decoding stopped by %s, want by its end token", reason)
	}
	f.error = float64(differentHeads(state, want))
	return f, nil
}

// generate decodes so many tokens at most, of a model that may differ from the patient's, and tells what the cache holds
// after the last of them that was processed.
func (p *patient) generate(ctx context.Context, r *reference, run *policyRun, file *gguf.File, tokens int, stepwise bool) (got []int32, state *h2o.State, reason model.StopReason, err error) {
	m, err := model.Load(p.engine, file, nil)
	if err != nil {
		return nil, nil, "", err
	}
	defer m.Close()
	budget := run.Budget
	s, err := m.NewSession(ctx, model.SessionOptions{Length: donePrompt + 3*doneTokens, Ends: !stepwise, KV: h2o.Settings{Policy: run.Policy, Budget: budget, RecentRatio: run.RecentRatio,
		Sinks: -1, Prompt: "auto", Type: run.Type, Positions: "auto", Chunk: run.Chunk}})
	if err != nil {
		return nil, nil, "", err
	}
	defer s.Close()
	if err := s.Prompt(ctx, r.IDs[:donePrompt], model.Observer{}, nil); err != nil {
		return nil, nil, "", err
	}
	g := model.Generation{Tokens: tokens, Emit: func(token int32) error {
		got = append(got, token)
		return nil
	}}
	if stepwise {
		g.Observer.Step = func(model.Step) error { return nil }
	}
	if reason, err = s.Generate(ctx, g); err != nil {
		return nil, nil, "", err
	}
	state, err = s.Cache().State(0)
	return got, state, reason, err
}

// ending is a model file in which a token ends the text.
func ending(f *gguf.File, end int32) (*gguf.File, error) {
	const key = "tokenizer.ggml.eos_token_id"
	w := new(gguf.Writer)
	for _, name := range f.Keys() {
		if value, _ := f.Value(name); name != key {
			w.Set(name, value)
		}
	}
	w.Set(key, uint32(end))
	for _, v := range f.Tensors() {
		w.Add(v.Name, v.Type, v.Shape, v.Data)
	}
	return gguf.Parse(w.Bytes())
}

// differentHeads counts the KV heads that hold other tokens, or the same with other scores.
func differentHeads(a, b *h2o.State) (n int) {
	for layer := range a.Layers {
		for kv, h := range a.Layers[layer].Heads {
			o := b.Layers[layer].Heads[kv]
			if !slices.Equal(h.Positions, o.Positions) || !slices.Equal(h.Scores, o.Scores) || h.Evicted != o.Evicted {
				n++
			}
		}
	}
	return n
}
