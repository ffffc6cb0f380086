package eval

import (
	"context"
	"fmt"
	"slices"
	"time"

	"vkdecode/h2o"
	"vkdecode/model"
)

// Streams are sessions that texts are streamed through, token after token from an empty cache, to see how well each foretells
// them. Several take their steps together.
type Streams struct {
	Settings []Setting

	sessions   []*model.Session
	full       *model.Session // in step with them for the divergence, nil without
	batch      *model.Batch   // of all, nil for one alone and where steps are not taken together
	evicts     []bool         // the policies that may evict
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

// OpenStreams opens sessions under settings for segments of so many tokens; several must go step by step. With divergence one
// more keeps step with them, which forgets nothing and is otherwise like the first; that takes its memory and its time.
// Policies that evict nothing need none.
func OpenStreams(ctx context.Context, m *model.Model, settings []h2o.Settings, tokens int, divergence bool) (_ *Streams, err error) {
	s, together := &Streams{divergence: divergence}, true
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	for _, kv := range settings {
		plan, err := StreamPlan(m, kv, tokens)
		if err != nil {
			return nil, err
		}
		together = together && plan.Stepwise()
		o := model.SessionOptions{KV: streamed(kv), Length: tokens - 1, Context: tokens, Likelihood: true}
		if evicts := plan.Policy.Evicts; divergence && evicts {
			if s.full == nil {
				if s.full, err = openFull(ctx, m, o); err != nil {
					return nil, err
				}
			}
			o.Full = s.full
		}
		session, err := m.NewSession(ctx, o)
		if err != nil {
			return nil, err
		}
		s.Settings, s.evicts, s.sessions = append(s.Settings, SettingOf(plan, m.Precision)), append(s.evicts, plan.Policy.Evicts), append(s.sessions, session)
	}
	switch {
	case len(settings) > 1 && !together:
		return nil, fmt.Errorf("eval: %d settings of which not all are streamed step by step: open each alone", len(settings))
	case together && len(s.all()) > 1:
		if s.batch, err = m.NewBatch(ctx, s.all()); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// openFull opens a session like another that forgets nothing.
func openFull(ctx context.Context, m *model.Model, o model.SessionOptions) (_ *model.Session, err error) {
	o.KV.Positions = "original"
	if o.KV.Policy, err = h2o.ParseSpec("full"); err != nil {
		return nil, err
	}
	return m.NewSession(ctx, o)
}

// all are the sessions, and last the one that they are compared with.
func (s *Streams) all() []*model.Session {
	if s.full == nil {
		return s.sessions
	}
	return append(slices.Clip(s.sessions), s.full)
}

// Close frees the sessions.
func (s *Streams) Close() {
	if s.batch != nil {
		s.batch.Close()
	}
	for _, o := range s.all() {
		o.Close()
	}
}

// Read streams a segment through. progress is called with the tokens done, of all settings together. When ctx ends it
// returns, with the context's error, the figures of the tokens so far, whose number is 0 if there are none to tell of. What
// takes its steps together takes even shares of the time.
func (s *Streams) Read(ctx context.Context, seg *Segment, progress func(done int)) ([]Perplexity, error) {
	for _, o := range s.all() {
		if err := o.Reset(); err != nil {
			return nil, err
		}
	}
	begin := time.Now()
	known, err := s.read(ctx, seg.Tokens, func(done int) {
		if progress != nil {
			progress(done * len(s.sessions))
		}
	})
	share := time.Since(begin).Seconds() / float64(len(s.sessions))
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	all := make([]Perplexity, len(s.sessions))
	for i, o := range s.sessions {
		p := &all[i]
		*p = Perplexity{Kind: "ppl", Setting: s.Settings[i], Text: seg.Name, Offset: seg.Offset, Segments: 1, BOS: seg.BOS,
			BytesHeld: o.Memory().Bytes("kv."), BytesFull: o.Plan().Full}
		p.TextHash = seg.Hash
		if len(known) == 0 || len(known[i].NLL) == 0 {
			continue
		}
		l, budget := known[i], 0
		if s.evicts[i] {
			budget = p.BudgetSlots
		} else if s.divergence {
			l.KL = make([]float32, len(l.NLL))
		}
		if failed := p.measure(l.NLL, l.KL, budget); failed != nil {
			return nil, failed
		}
		p.Complete = err == nil
		p.TPS = float64(p.Tokens) / share
	}
	return all, err
}

// read gives the likelihoods by setting; of none if there was nothing to tell.
func (s *Streams) read(ctx context.Context, tokens []int32, progress func(done int)) ([]*model.Likelihood, error) {
	if s.batch != nil {
		known, err := s.batch.Likelihoods(ctx, tokens, progress)
		return known[:min(len(known), len(s.sessions))], err
	}
	l, err := s.sessions[0].Likelihood(ctx, tokens, progress)
	if l == nil {
		return nil, err
	}
	return []*model.Likelihood{l}, err
}
