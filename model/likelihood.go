package model

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"vkdecode/h2o"
	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/vk"
)

// Likelihood is how well a session foretold given tokens, all but the first of them.
type Likelihood struct {
	NLL []float32 // (tokens - 1) nats: -log of the probability of each token, given those before it
	KL  []float32 // (tokens - 1) nats: KL(full || session) of the distributions for it; nil without SessionOptions.Full
}

// likelihood is the part of a session that compares logits with a text on the device, so that none of them leaves it.
type likelihood struct {
	full *Session // processes the same tokens, nil if there is nothing to compare with

	text, nll, kl *runtime.Tensor  // (length + 1) by position: token ids; f32
	rows          *runtime.Program // over up to outRows wanted rows
	step          *runtime.Program // over one row; then the text's next token is the next step
}

// planLikelihood names the tensors.
func (s *Session) planLikelihood(o SessionOptions) {
	bytes := int64(4 * (o.Length + 1))
	s.likely = &likelihood{full: o.Full, text: s.arena.Tensor("likelihood.text", bytes), nll: s.arena.Tensor("likelihood.nll", bytes)}
	if o.Full != nil {
		s.likely.kl = s.arena.Tensor("likelihood.kl", bytes)
	}
}

// recordLikelihood records the programs.
func (s *Session) recordLikelihood() error {
	l, e := s.likely, s.model.engine
	if f := l.full; f != nil && (f.likely == nil || f.chunk != s.chunk || f.model != s.model) {
		return fmt.Errorf("model: the session to compare with has chunks of %d rows; want one opened for likelihoods, of the same model, with chunks of %d", f.chunk, s.chunk)
	}
	if err := s.recordHeads(); err != nil {
		return err
	}
	v, lanes := e.Variant("", ""), uint32(e.Tuning.Lanes)
	vocab, stride := uint32(s.model.Vocab), uint32(s.logitsStride/4)
	l.rows, l.step = e.NewProgram("likelihoods"), e.NewProgram("likelihood")
	record := func(p *runtime.Program, outs int) {
		if l.full != nil {
			p.Dispatch(shaders.Kl{Lanes: lanes, Vocab: vocab, Stride: stride,
				Step: s.step.Range, Full: l.full.logits.Range, Logits: s.logits.Range, Kl: l.kl.Range}, v, outs, 1, 1)
		}
		p.Dispatch(shaders.Nll{Lanes: lanes, Vocab: vocab, Stride: stride,
			Step: s.step.Range, Logits: s.logits.Range, Text: l.text.Range, Nll: l.nll.Range, Tokens: s.tokens.Range}, v, outs, 1, 1)
	}
	record(l.rows, outRows)
	record(l.step, 1)
	s.sampler.RecordAdvance(l.step, s.step, s.tokens, s.endList, s.ring, ringSteps)
	return errors.Join(l.rows.Record(), l.step.Record())
}

func (l *likelihood) free() {
	for _, p := range []*runtime.Program{l.rows, l.step} {
		if p != nil {
			p.Free()
		}
	}
}

// Likelihood processes all tokens but the last, after those that the session holds, and tells how likely each token was
// that follows. progress, if not nil, is called with the tokens done. When ctx ends it stops between steps, and what is
// known by then comes with the error. The session, and the one it is compared with, must not end at end tokens.
func (s *Session) Likelihood(ctx context.Context, tokens []int32, progress func(done int)) (*Likelihood, error) {
	if s.likely == nil || len(s.ends) > 0 {
		return nil, errors.New("model: the session was not opened for likelihoods, or stops at end tokens")
	}
	if len(tokens) < 2 {
		return nil, fmt.Errorf("model: likelihoods of %d tokens, want at least 2: the first one is given", len(tokens))
	}
	steps, from := len(tokens)-1, len(s.Tokens)
	for _, o := range s.pair() {
		if err := errors.Join(o.check(tokens[:steps]), o.checkIDs(tokens[steps:])); err != nil {
			return nil, err
		}
		if len(o.Tokens) != from {
			return nil, fmt.Errorf("model: the session to compare with has processed %d tokens, want %d", len(o.Tokens), from)
		}
		words := make([]uint32, len(tokens))
		for i, t := range tokens {
			words[i] = uint32(t)
		}
		if err := s.model.engine.Device.Write(o.likely.text.Slice(int64(4*from), int64(4*len(words))), wordBytes(words)); err != nil {
			return nil, err
		}
	}
	if progress == nil {
		progress = func(int) {}
	}
	read := s.readChunks
	if s.chunk == 1 && !s.cache.Plan.Staged {
		read = s.readSteps
	}
	err := read(ctx, tokens[:steps], progress)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	known, failed := s.likelihoods(from+1, len(s.Tokens)-from)
	return known, errors.Join(err, failed)
}

// pair is the session and, before it, the one that it is compared with.
func (s *Session) pair() []*Session {
	if s.likely.full != nil {
		return []*Session{s.likely.full, s}
	}
	return []*Session{s}
}

// readChunks processes tokens chunk by chunk. The logits of a chunk are computed for outRows rows at a time.
func (s *Session) readChunks(ctx context.Context, tokens []int32, progress func(int)) error {
	return s.process(ctx, tokens, false, progress, func(rows []runtime.Row, _ []h2o.Eviction) error {
		if full := s.likely.full; full != nil {
			ids := make([]int32, len(rows))
			for i, r := range rows {
				ids[i] = r.Token
			}
			// The work of a chunk is not interrupted: both sessions have processed the same tokens.
			if err := full.process(context.WithoutCancel(ctx), ids, false, func(int) {}, func([]runtime.Row, []h2o.Eviction) error { return nil }); err != nil {
				return err
			}
		}
		for first := 0; first < len(rows); first += outRows {
			if err := s.readRows(rows, first); err != nil {
				return err
			}
		}
		return nil
	})
}

// readRows takes the likelihoods of a chunk's rows from first on, as many as there are logits for.
func (s *Session) readRows(rows []runtime.Row, first int) error {
	outs := make([]int, min(outRows, len(rows)-first))
	for i := range outs {
		outs[i] = first + i
	}
	var programs []*runtime.Program
	for _, o := range s.pair() {
		if err := o.control.Write(rows, outs, 0); err != nil {
			return err
		}
		o.lastRow = len(outs) - 1
		programs = append(programs, o.headAll)
	}
	return s.run(append(programs, s.likely.rows)...)
}

// readSteps processes tokens one by one: the device takes the next one from the text by itself, so that the host only
// keeps steps in flight.
func (s *Session) readSteps(ctx context.Context, tokens []int32, progress func(int)) (err error) {
	for _, o := range s.pair() {
		if err := o.control.Write([]runtime.Row{{Token: tokens[0], Pos: int32(len(o.Tokens))}}, []int{0}, 0); err != nil {
			return err
		}
		o.lastRow, o.Pending = 0, NoToken
	}
	e := s.model.engine
	var flight [inFlight]vk.Pending // step n is number n % inFlight
	defer func() {                  // the device must have stopped before anything it uses is read or freed
		for i := range flight {
			err = errors.Join(err, flight[i].Wait(runtime.Patience))
		}
	}()
	var commands []*vk.Commands
	var p pace
	for submitted, done, last := 0, 0, e.Now(); done < len(tokens); {
		for submitted < len(tokens) && submitted-done < inFlight && (submitted == done || !p.alone()) && ctx.Err() == nil {
			if p.alone() {
				commands = nil // a run may cut programs anew
				err = e.Run(runtime.Full, s.stepPrograms()...)
			} else {
				if commands == nil || e.Anew {
					commands, err = commandsOf(s.stepPrograms())
				}
				if err == nil {
					err = e.Device.Start(&flight[submitted%inFlight], commands...)
				}
			}
			if err != nil {
				return err
			}
			submitted++
		}
		if submitted == done {
			return ctx.Err()
		}
		if err := flight[done%inFlight].Wait(runtime.Patience); err != nil {
			return err
		}
		now := e.Now()
		p.note(1, now-last)
		last = now
		for _, o := range s.pair() {
			o.Tokens = append(o.Tokens, tokens[done])
		}
		done++
		progress(done)
	}
	return nil
}

// stepPrograms are those of one step of every session of the pair, in order.
func (s *Session) stepPrograms() (all []*runtime.Program) {
	for _, o := range s.pair() {
		all = append(all, o.decode, o.head, o.likely.step)
	}
	return all
}

// likelihoods reads those of n tokens from a position on.
func (s *Session) likelihoods(from, n int) (*Likelihood, error) {
	read := func(t *runtime.Tensor) ([]float32, error) {
		b, values := make([]byte, 4*n), make([]float32, n)
		if t == nil || n == 0 {
			return nil, nil
		}
		err := s.model.engine.Device.Read(b, t.Slice(int64(4*from), int64(len(b))))
		for i := range values {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		return values, err
	}
	nll, err := read(s.likely.nll)
	if err != nil {
		return nil, err
	}
	kl, err := read(s.likely.kl)
	return &Likelihood{nll, kl}, err
}
