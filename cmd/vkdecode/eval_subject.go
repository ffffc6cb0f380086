package main

import (
	"context"

	"vkdecode/eval"
	"vkdecode/h2o"
)

// roomySubject is a model whose scorers, where there is no room for them, say what would fit.
type roomySubject struct {
	eval.Subject
	*loaded
}

// subject makes the loaded model the subject of an evaluation.
func (e *evaluation) subject() (eval.Subject, error) {
	s, err := eval.NewSubject(e.model)
	if err != nil {
		return nil, err
	}
	return roomySubject{s, e.loaded}, nil
}

func (s roomySubject) Open(ctx context.Context, kv h2o.Settings, tokens int) (eval.Scorer, error) {
	scorer, err := s.Subject.Open(ctx, kv, tokens)
	if err == nil {
		return scorer, nil
	}
	plan, failed := h2o.NewPlan(kv, s.model.Geometry(), 0, tokens, tokens)
	if failed != nil {
		return nil, failed
	}
	return nil, room(err, plan, s.device)
}

// count shows what is done of a work that is counted in prompts.
func (e *evaluation) count(done, total int) { e.bar.of(int64(done), int64(total)) }
