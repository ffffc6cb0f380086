package eval

import (
	"context"
	"fmt"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/model/tokenizer"
)

// subject is a loaded model.
type subject struct{ *model.Model }

// NewSubject makes a model the subject of an evaluation. A budget in percent is of the tokens that a scorer is opened for.
func NewSubject(m *model.Model) (Subject, error) {
	if m.Tokenizer == nil {
		return nil, fmt.Errorf("eval: the model cannot read text: %w", m.TokenizerErr)
	}
	return subject{m}, nil
}

func (s subject) Begin() []int32 {
	return s.Tokenizer.Encode("", tokenizer.EncodeOptions{BOS: true})
}

func (s subject) Encode(text string) []int32 {
	return s.Tokenizer.Encode(text, tokenizer.EncodeOptions{})
}

func (s subject) Setting(kv h2o.Settings, tokens int) (Setting, error) {
	p, err := h2o.NewPlan(kv, s.Geometry(), 0, tokens, tokens)
	if err != nil {
		return Setting{}, err
	}
	return SettingOf(p, s.Precision), nil
}

func (s subject) Open(ctx context.Context, kv h2o.Settings, tokens int) (Scorer, error) {
	session, err := s.NewSession(ctx, model.SessionOptions{KV: kv, Length: tokens})
	if err != nil {
		return nil, err
	}
	return sessionScorer{session}, nil
}

// sessionScorer scores with a session: a prompt in chunks, a continuation token by token, as decoding would.
type sessionScorer struct{ session *model.Session }

func (s sessionScorer) Held() int64 { return s.session.Memory().Bytes("kv.") }
func (s sessionScorer) Close()      { s.session.Close() }

// Score processes the prompt once. Continuations that go on after their first token begin at a checkpoint there: what a
// token does to the cache cannot be taken back otherwise.
func (s sessionScorer) Score(ctx context.Context, p Prompt, continuations [][]int32) ([]Continuation, error) {
	logits, err := s.prompt(ctx, p)
	if err != nil {
		return nil, err
	}
	scores := make([]Continuation, len(continuations))
	fresh := true                  // the session is at the prompt's end
	var atPrompt *model.Checkpoint // nil until one is needed
	for i, tokens := range continuations {
		if len(tokens) == 0 {
			return nil, fmt.Errorf("eval: continuation %d has no tokens", i)
		}
		c := Continuation{Greedy: true}
		if err := c.add(logits, tokens[0]); err != nil {
			return nil, err
		}
		if len(tokens) > 1 {
			if atPrompt, err = s.begin(atPrompt, fresh, i == len(continuations)-1); err != nil {
				return nil, err
			}
		}
		for at := range tokens[1:] {
			fresh = false
			next, err := s.process(ctx, tokens[at:at+1])
			if err != nil {
				return nil, err
			}
			if err := c.add(next, tokens[at+1]); err != nil {
				return nil, err
			}
		}
		scores[i] = c
	}
	return scores, nil
}

// begin brings the session to the prompt's end, where it is while it is fresh. The checkpoint that this needs is made at
// the first use, unless it would be the last one too.
func (s sessionScorer) begin(c *model.Checkpoint, fresh, last bool) (*model.Checkpoint, error) {
	switch {
	case !fresh:
		return c, s.session.Rollback(c)
	case last:
		return nil, nil
	}
	return s.session.Checkpoint()
}

// prompt empties the session, processes a prompt and returns the logits of its last token.
func (s sessionScorer) prompt(ctx context.Context, p Prompt) (logits []float32, err error) {
	if err := s.session.Reset(); err != nil {
		return nil, err
	}
	for _, part := range [][]int32{p.Shared, p.Own} {
		if len(part) == 0 {
			continue
		}
		if logits, err = s.process(ctx, part); err != nil {
			return nil, err
		}
	}
	if logits == nil {
		return nil, fmt.Errorf("eval: the prompt has no tokens")
	}
	return logits, nil
}

// process adds tokens to the session and returns the logits of the last.
func (s sessionScorer) process(ctx context.Context, tokens []int32) ([]float32, error) {
	if err := s.session.Prompt(ctx, tokens, model.Observer{}, nil); err != nil {
		return nil, err
	}
	return s.session.Logits()
}
