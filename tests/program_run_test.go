package tests

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/runtime"
)

// trace is what a program did.
type trace struct {
	histories []*history // between two resets
	ends      []outcome  // after each operation
}

// run runs a program. In a plain run nothing is saved or taken back, and a reset is a new session: all that must make no
// difference. tamper changes what is saved, nil = nothing.
func (p program) run(ctx context.Context, m *model.Model, plain bool, tamper func(*model.Session, []byte) []byte) (out trace, err error) {
	s, err := p.open(ctx, m)
	if err != nil {
		return out, err
	}
	defer func() { s.Close() }()
	begin := func() (*recorder, error) {
		r, err := record(s, m.Geometry())
		r.blind = plain && !p.waits
		return r, err
	}
	r, err := begin()
	for i, o := range p.steps {
		if err != nil {
			return out, err
		}
		switch {
		case o.kind == prompts && !(s.Plan().OneTurn() && len(s.Tokens) > 0):
			err = r.prompt(ctx, o.ids(m.Vocab))
		case o.kind == decodes || o.kind == samples || o.kind == takes:
			err = r.decode(ctx, o.generation(m.Vocab))
		case o.kind == tries && !plain:
			err = takeBack(ctx, s, o.generation(m.Vocab))
		case o.kind == restores && !plain:
			s, err = p.moved(ctx, m, s, tamper)
			r.session = s
		case o.kind == resets:
			out.histories = append(out.histories, r.history())
			if plain {
				s.Close()
				s, err = p.open(ctx, m)
			} else {
				err = s.Reset()
			}
			if err == nil {
				r, err = begin()
			}
		}
		if err == nil {
			err = p.note(&out, s)
		}
		if err != nil {
			return out, fmt.Errorf("operation %d, %s: %w", i+1, o.kind, err)
		}
	}
	out.histories = append(out.histories, r.history())
	return out, err
}

func (p program) open(ctx context.Context, m *model.Model) (*model.Session, error) {
	length, longest := p.lengths()
	return m.NewSession(ctx, model.SessionOptions{KV: p.kv, Length: length, Prompt: longest})
}

// note adds what a session holds after an operation, and checks that it is what was planned.
func (p program) note(out *trace, s *model.Session) error {
	end, err := outcomeOf(s)
	if err != nil {
		return err
	}
	if end.tokens = append(slices.Clone(s.Tokens), s.Pending); len(s.Tokens) == 0 {
		end.logits = nil // of nothing
	}
	out.ends = append(out.ends, end)
	if held, planned := s.Held(), s.Plan().Bytes; held != planned {
		return fmt.Errorf("K and V take %d bytes, planned are %d", held, planned)
	}
	return nil
}

func (o operation) generation(vocab int) model.Generation {
	g := model.Generation{Tokens: o.tokens, Continue: true, Emit: func(int32) error { return nil }}
	switch o.kind {
	case samples:
		g.Sampling = runtime.Sampling{Temperature: 1, TopK: 20, RepeatPenalty: 1.2, RepeatLast: 16, Seed: o.seed}
	case takes:
		g.Given = o.ids(vocab)
	}
	return g
}

// takeBack decodes tokens and rolls back.
func takeBack(ctx context.Context, s *model.Session, g model.Generation) error {
	before, err := s.Checkpoint()
	if err != nil {
		return err
	}
	if _, err := s.Generate(ctx, g); err != nil {
		return err
	}
	return s.Rollback(before)
}

// moved saves a session, closes it and restores it in another one, that has something else in it.
func (p program) moved(ctx context.Context, m *model.Model, s *model.Session, tamper func(*model.Session, []byte) []byte) (*model.Session, error) {
	var file bytes.Buffer
	err := s.Save(&file)
	if tamper != nil {
		file = *bytes.NewBuffer(tamper(s, file.Bytes()))
	}
	s.Close()
	if err != nil {
		return s, err
	}
	if s, err = p.open(ctx, m); err != nil {
		return s, err
	}
	_, longest := p.lengths()
	if err := s.Prompt(ctx, []int32{3, 1}[:min(2, longest)], model.Observer{}, nil); err != nil {
		return s, err
	}
	return s, s.Restore(&file)
}

// difference tells in what two traces differ, bit for bit.
func (a trace) difference(b trace) error {
	for i := range a.ends {
		if d := a.ends[i].difference(b.ends[i]); d != "" {
			return fmt.Errorf("after operation %d: a plain run differs in %s", i+1, d)
		}
	}
	for i, h := range a.histories {
		plain := b.histories[i]
		if !reflect.DeepEqual(h.begin, plain.begin) {
			return fmt.Errorf("a plain run begins with %+v, not %+v", *plain.begin, *h.begin)
		}
		for n, s := range plain.steps { // none where nobody watched
			if !reflect.DeepEqual(h.steps[n], s) {
				return fmt.Errorf("%d tokens seen: a plain run has other slots, scores or evictions", s.Seen)
			}
		}
	}
	return nil
}

// check tells whether a program's histories are those of its settings, by the same model in float64.
func (p program) check(w *twin, out trace) error {
	for _, h := range out.histories {
		for _, check := range []func(*history) error{checkVictims, checkSlots, checkMass} {
			if err := check(h); err != nil {
				return err
			}
		}
		if h.plan.Types != (h2o.Types{K: "f32", V: "f32"}) {
			continue // the twin has no other
		}
		if _, _, err := checkScores(w, h); err != nil {
			return err
		}
	}
	return nil
}

// checkSlots tells whether there are never more live slots than planned, each of a token of its own, and those that are
// protected among them.
func checkSlots(h *history) error {
	pinned := append([]h2o.Span{{End: h.plan.Sinks}}, h.plan.Pinned...)
	for _, s := range h.steps {
		for layer, l := range s.State.Layers {
			live, plan := 0, h.plan.Layers[layer]
			for kv, head := range l.Heads {
				wrong := func(format string, args ...any) error {
					return fmt.Errorf("%d tokens seen, layer %d, KV head %d: %s", s.Seen, layer, kv, fmt.Sprintf(format, args...))
				}
				n := len(head.Positions)
				if live += n; n > plan.Most || n+head.Evicted != s.Seen {
					return wrong("%d live and %d evicted, planned are %d", n, head.Evicted, plan.Most)
				}
				for i, pos := range head.Positions {
					if int(pos) >= s.Seen || i > 0 && pos <= head.Positions[i-1] {
						return wrong("positions %v", head.Positions)
					}
				}
				for _, span := range pinned {
					for pos := span.Begin; pos < min(span.End, s.Seen); pos++ {
						if !slices.Contains(head.Positions, uint32(pos)) {
							return wrong("position %d is gone, which is pinned", pos)
						}
					}
				}
			}
			if most := len(l.Heads) * plan.Capacity; live > most {
				return fmt.Errorf("%d tokens seen, layer %d: %d live slots, planned are %d", s.Seen, layer, live, most)
			}
		}
	}
	return nil
}
