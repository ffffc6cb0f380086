package model

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"vkdecode/h2o"
	"vkdecode/runtime"
	"vkdecode/vk"
)

// Batch is several sessions of one model that take their steps together. Matrix products take a row of each side by side,
// so that every weight is read once for all of them; attention goes session by session, each to its own cache, which may
// have a policy, a budget and types of its own. What a session computes does not depend on what the others hold.
//
// Between its steps the sessions can be used by themselves.
type Batch struct {
	activations // a row for each session; the step says no more than how many there are

	sessions     []*Session
	arena        *runtime.Arena
	decode, head *runtime.Program
	sample       *runtime.Program // the next token and step of every session
	likely       *runtime.Program // likelihoods and the next step, nil unless all sessions were opened for them
}

// NewBatch plans, allocates and records a step of sessions that are still empty. Who compares its likelihoods with those of
// another session does so within the batch. It must be closed before its sessions.
func (m *Model) NewBatch(ctx context.Context, sessions []*Session) (*Batch, error) {
	if len(sessions) < 1 || len(sessions) > runtime.StepSeqs {
		return nil, fmt.Errorf("model: a batch of %d sessions, want 1 to %d", len(sessions), runtime.StepSeqs)
	}
	for i, s := range sessions {
		switch {
		case s.model != m:
			return nil, fmt.Errorf("model: batch: session %d is one of another model", i)
		case len(s.Tokens) > 0:
			return nil, fmt.Errorf("model: batch: session %d holds %d tokens, want an empty one", i, len(s.Tokens))
		case slices.Contains(sessions[:i], s):
			return nil, fmt.Errorf("model: batch: session %d is given twice", i)
		case s.likely != nil && s.likely.full != nil && !slices.Contains(sessions, s.likely.full):
			return nil, fmt.Errorf("model: batch: session %d is compared with one that is not in the batch", i)
		}
	}
	b := &Batch{sessions: slices.Clone(sessions), arena: &runtime.Arena{}}
	b.activations = m.planActivations(b.arena, m.arch.widths().apart(), len(sessions), len(sessions))
	if err := b.arena.Allocate(ctx, m.engine.Device); err != nil {
		return nil, err
	}
	if err := b.prepare(ctx); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// prepare records the programs, and runs them once.
func (b *Batch) prepare(ctx context.Context) error {
	e, rows := b.model.engine, make([]runtime.Row, len(b.sessions))
	outs := make([]int, len(rows))
	for i := range rows {
		rows[i].Seq, outs[i] = int32(i), i
	}
	if err := runtime.NewStep(e.Device, b.step).Write(rows, outs, 0); err != nil {
		return err
	}
	b.decode, b.head, b.sample = e.NewProgram("decode"), e.NewProgram("head"), e.NewProgram("sample")
	b.each(b.decode, func(p *runtime.Program, i int, s *Session) {
		b.model.arch.embedding(p, &b.activations, s.step, rowOf(b.x, i, b.widths.x), 1)
	})
	for layer := range b.model.Layers {
		b.model.arch.layer(b.decode, &b.activations, layer, len(rows), b.attend)
	}
	b.model.arch.logits(b.head, &b.activations, len(rows))
	b.each(b.sample, func(p *runtime.Program, i int, s *Session) {
		s.sampler.Record(p, s.step, rowOf(b.logits, i, b.logitsStride), s.tokens, s.endList, s.ring, b.logitsStride, ringSteps)
	})
	b.sample.Shows = true // the rings
	programs := []*runtime.Program{b.decode, b.head, b.sample}
	if !slices.ContainsFunc(b.sessions, func(s *Session) bool { return s.likely == nil }) {
		b.likely = e.NewProgram("likelihood")
		b.each(b.likely, b.recordLikelihood)
		programs = append(programs, b.likely)
	}
	for _, p := range programs {
		if err := p.Record(ctx); err != nil {
			return err
		}
	}
	return b.warm(programs)
}

// each records what is done for every session, side by side.
func (b *Batch) each(p *runtime.Program, record func(p *runtime.Program, i int, s *Session)) {
	var all []*runtime.Program
	for i, s := range b.sessions {
		one := b.model.engine.NewProgram(p.Name)
		record(one, i, s)
		all = append(all, one)
	}
	p.Beside(all...)
}

// attend records the attention of every session to its own cache.
func (b *Batch) attend(p *runtime.Program, layer, _ int, x h2o.Activations) *h2o.Parts {
	b.each(p, func(p *runtime.Program, i int, s *Session) {
		own := h2o.Activations{X: rowOf(b.qkv, i, b.widths.qkv), Y: rowOf(b.attn, i, b.widths.attn), XStride: x.XStride, YStride: x.YStride, Whole: true,
			Rotation: b.model.arch.rotation(s.rope)}
		s.cache.Decode(p, s.step, layer, 1, true, own)
	})
	return nil
}

// recordLikelihood records what the logits of a session say of its text.
func (b *Batch) recordLikelihood(p *runtime.Program, i int, s *Session) {
	var full vk.Range
	if s.likely.full != nil {
		full = rowOf(b.logits, slices.Index(b.sessions, s.likely.full), b.logitsStride)
	}
	s.recordFigures(p, rowOf(b.logits, i, b.logitsStride), full, 1)
	s.sampler.RecordAdvance(p, s.step, s.tokens, s.endList, s.ring, ringSteps)
}

// warm runs the programs with sessions that have no row, for drivers that compile at the first launch.
func (b *Batch) warm(programs []*runtime.Program) error {
	for _, s := range b.sessions {
		if err := s.control.Write(nil, nil, 0); err != nil {
			return err
		}
	}
	err := b.sessions[0].run(programs...)
	for _, s := range b.sessions {
		err = errors.Join(err, s.Reset())
	}
	return err
}

// Sessions are those of the batch, in the order of its rows.
func (b *Batch) Sessions() []*Session { return b.sessions }

// Memory is the device memory that the batch takes beside its sessions', by class of tensor.
func (b *Batch) Memory() *runtime.Arena { return b.arena }

// Likelihoods is Session.Likelihood in every session at once, with the same tokens: they are opened for chunks of one.
// progress, if not nil, is called with the tokens done.
func (b *Batch) Likelihoods(ctx context.Context, tokens []int32, progress func(done int)) ([]*Likelihood, error) {
	for i, s := range b.sessions {
		if b.likely == nil || !s.cache.Plan.Stepwise() {
			return nil, fmt.Errorf("model: batch: session %d reads no text token by token; open all for likelihoods, with chunks of one row and prompts that are cut like decoding", i)
		}
	}
	if err := expect(b.sessions, tokens); err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(int) {}
	}
	from := len(b.sessions[0].Tokens)
	err := foretell(ctx, b.sessions, []*runtime.Program{b.decode, b.head, b.likely}, tokens[:len(tokens)-1], progress)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	all := make([]*Likelihood, len(b.sessions))
	for i, s := range b.sessions {
		known, failed := s.likelihoods(from+1, len(s.Tokens)-from)
		all[i], err = known, errors.Join(err, failed)
	}
	return all, errors.Join(err, b.leave(len(b.sessions[0].Tokens)-from))
}

// Decode lets every session process its pending token and choose the next one, so many times; one that has none pending
// chooses one first. It gives what each chose. When ctx ends it stops between steps, and gives what there is with the error.
func (b *Batch) Decode(ctx context.Context, steps int, how runtime.Sampling) (chosen [][]int32, err error) {
	chosen = make([][]int32, len(b.sessions))
	for i, s := range b.sessions {
		if len(s.ends) > 0 {
			return nil, fmt.Errorf("model: batch: session %d stops at end tokens, and its row cannot; open it without", i)
		}
		if s.Pending == NoToken {
			first := Generation{Tokens: 1, Sampling: how, Emit: func(token int32) error {
				chosen[i] = append(chosen[i], token)
				return nil
			}}
			if _, err := s.Generate(ctx, first); err != nil {
				return nil, err
			}
			if ctx.Err() != nil {
				return chosen, ctx.Err()
			}
		}
		err := errors.Join(s.check(make([]int32, steps), steps), s.sampler.Set(0, how, append(slices.Clip(s.Tokens), s.Pending)),
			s.control.Write([]runtime.Row{{Token: s.Pending, Pos: int32(len(s.Tokens))}}, []int{0}, 0))
		if err != nil {
			return nil, err
		}
	}
	taken := 0
	err = replay(ctx, b.model.engine, []*runtime.Program{b.decode, b.head, b.sample}, steps, func(step int) (err error) {
		taken++
		for i, s := range b.sessions {
			s.Tokens = append(s.Tokens, s.Pending)
			if s.Pending, err = s.readToken(step); err != nil {
				return err
			}
			if s.Pending == NoToken {
				return b.broken(i)
			}
			chosen[i] = append(chosen[i], s.Pending)
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	return chosen, errors.Join(err, b.leave(taken))
}

// broken says why a session has no next token.
func (b *Batch) broken(i int) error {
	logits, err := b.readLogits(nil, i)
	if err != nil {
		return err
	}
	return b.sessions[i].broken(logits)
}

// leave gives every session the logits of its last token after so many steps, as if it had been alone.
func (b *Batch) leave(steps int) error {
	if steps == 0 {
		return nil
	}
	for i, s := range b.sessions {
		logits, err := b.readLogits(nil, i)
		if err == nil {
			err = s.setLogits(logits)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Times is what each kernel took in the last step of Decode. It needs an engine with Debug >= 2.
func (b *Batch) Times() ([]runtime.KernelTime, error) { return timesOf(b.decode, b.head, b.sample) }

// Close frees the batch's memory and programs; the sessions stay open.
func (b *Batch) Close() {
	b.model.engine.Device.WaitIdle()
	for _, p := range []*runtime.Program{b.decode, b.head, b.sample, b.likely} {
		if p != nil {
			p.Free()
		}
	}
	b.arena.Free()
}
