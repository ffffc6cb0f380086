package eval

import (
	"context"
	"time"

	"vkdecode/h2o"
	"vkdecode/model"
)

// Stream is a session that texts are streamed through, token after token from an empty cache, to see how well it foretells
// them.
type Stream struct {
	Setting

	session    *model.Session
	full       *model.Session // in step with session for the divergence, nil without
	evicts     bool           // the policy may evict
	divergence bool           // is wanted
}

// StreamPlan is what a stream of segments of so many tokens needs of a cache. Budgets in percent are of tokens; the last
// token needs no slot.
func StreamPlan(m *model.Model, kv h2o.Settings, tokens int) (*h2o.Plan, error) {
	return h2o.NewPlan(streamed(kv), m.Geometry(), tokens, tokens-1, tokens-1)
}

// streamed are settings for a text that has no prompt which ends: it is cut to the budget chunk by chunk, unless asked for
// otherwise.
func streamed(kv h2o.Settings) h2o.Settings {
	if kv.Prompt == "" || kv.Prompt == "auto" {
		kv.Prompt = "bounded"
	}
	return kv
}

// Spared tells that a policy which evicts does so too late to change anything: the chunks are so long that every token of
// the segment has been foretold when the first one goes.
func Spared(p *h2o.Plan) bool {
	first := (p.Budget/p.Chunk + 1) * p.Chunk // tokens after which the cache is cut back for the first time
	return p.Evicts() && (p.Exact || first >= p.Length)
}

// OpenStream opens a session under a setting for segments of so many tokens. With divergence a second one, which forgets
// nothing, keeps step with it, which takes the memory and the time of both; a policy that evicts nothing needs none.
func OpenStream(ctx context.Context, m *model.Model, kv h2o.Settings, tokens int, divergence bool) (*Stream, error) {
	plan, err := StreamPlan(m, kv, tokens)
	if err != nil {
		return nil, err
	}
	s := &Stream{Setting: SettingOf(plan), evicts: plan.Policy.Evicts, divergence: divergence}
	o := model.SessionOptions{KV: streamed(kv), Length: tokens - 1, Context: tokens, Likelihood: true}
	if divergence && s.evicts {
		keep := o
		keep.KV.Positions = "original"
		if keep.KV.Policy, err = h2o.ParseSpec("full"); err != nil {
			return nil, err
		}
		if o.Full, err = m.NewSession(ctx, keep); err != nil {
			return nil, err
		}
		s.full = o.Full
	}
	if s.session, err = m.NewSession(ctx, o); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close frees the sessions.
func (s *Stream) Close() {
	for _, o := range []*model.Session{s.session, s.full} {
		if o != nil {
			o.Close()
		}
	}
}

// Read streams a segment through. progress is called with the tokens done. When ctx ends it returns, with the context's
// error, the figures of the tokens so far, whose number is 0 if there are none to tell of.
func (s *Stream) Read(ctx context.Context, seg *Segment, progress func(done int)) (Perplexity, error) {
	p := Perplexity{Kind: "ppl", Setting: s.Setting, Text: seg.Name, Offset: seg.Offset, Segments: 1, BOS: seg.BOS,
		BytesHeld: s.session.Memory().Bytes("kv."), BytesFull: s.session.Plan().Full}
	p.TextHash = seg.Hash
	for _, o := range []*model.Session{s.full, s.session} {
		if o != nil {
			if err := o.Reset(); err != nil {
				return p, err
			}
		}
	}
	begin := time.Now()
	l, err := s.session.Likelihood(ctx, seg.Tokens, progress)
	took := time.Since(begin)
	switch {
	case err != nil && ctx.Err() == nil:
		return p, err
	case l == nil || len(l.NLL) == 0:
		return p, err
	case s.divergence && s.full == nil:
		l.KL = make([]float32, len(l.NLL))
	}
	budget := 0
	if s.evicts {
		budget = s.BudgetSlots
	}
	if failed := p.measure(l.NLL, l.KL, budget); failed != nil {
		p.Tokens = 0
		return p, failed
	}
	p.Complete = err == nil
	p.TPS = float64(p.Tokens) / took.Seconds()
	return p, err
}
