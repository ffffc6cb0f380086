package model

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"vkdecode/runtime"
	"vkdecode/vk"
)

// StopReason says why a generation ended.
type StopReason string

const (
	StopLength    StopReason = "length"    // as many tokens as asked for
	StopEnd       StopReason = "end"       // an end token
	StopCancelled StopReason = "cancelled" // the context ended
)

// Generation is what to decode.
type Generation struct {
	Tokens   int              // new tokens, at most
	Sampling runtime.Sampling // how they are chosen
	Given    []int32          // tokens to take instead of choosing some, Tokens of them; nil = none
	Observer Observer
	Emit     func(token int32) error // called with each token as it is known
	Continue bool                    // begin with Session.Pending, if there is one, not with a new token
}

// NoToken is no token's id. The device chooses it where the logits are broken.
const NoToken = -1

// Generate continues after the prompt: it samples a token, processes it, and so on. The last token emitted is not
// processed, it becomes Session.Pending. A token counts as emitted even when it is an end token.
func (s *Session) Generate(ctx context.Context, g Generation) (reason StopReason, err error) {
	if g.Given != nil && len(g.Given) != g.Tokens {
		return "", fmt.Errorf("model: %d tokens given, want %d", len(g.Given), g.Tokens)
	}
	if err := errors.Join(g.Sampling.Check(s.model.Vocab), s.checkIDs(g.Given)); err != nil {
		return "", err
	}
	if g.Tokens <= 0 {
		return StopLength, nil
	}
	d := &decoding{s: s, g: g}
	if err := d.begin(); err != nil {
		return "", err
	}
	return d.run(ctx)
}

// decoding is a generation under way: programs are submitted again and again, and the device samples and makes the next
// step by itself; the host only reads which tokens came. Several steps may go into a submit. Steps that were submitted when an
// end token came change nothing. With an observer, or with tokens that are given, the host waits for every step.
type decoding struct {
	s *Session
	g Generation

	token    int32          // that the step which is read next processes
	samples  bool           // the first step processes nothing: it only samples, from the logits of the last token
	commands []*vk.Commands // of the most steps that a submit takes
	one      int            // commands of one step
	done     time.Duration  // when the last submit was
	logits   []float32      // for the observer
}

// batch is a submit of some steps.
type batch struct {
	pending vk.Pending
	steps   int
	begun   time.Duration
	sampled bool // it processes nothing, and its time says nothing
	alone   bool // it was run, and is done
}

// begin tells the device where to start.
func (d *decoding) begin() error {
	s := d.s
	history, at := s.Tokens, len(s.Tokens)-1
	processed := d.g.Tokens
	switch {
	case d.g.Continue && s.Pending != NoToken:
		d.token = s.Pending
		history, at = append(slices.Clip(history), d.token), at+1
	case at < 0:
		return errors.New("model: the session is empty, there is nothing to go on from; give it a prompt first")
	default:
		d.token, d.samples = history[at], true
		processed--
	}
	if err := s.check(make([]int32, processed), processed); err != nil {
		return err
	}
	if err := s.sampler.Set(0, d.g.Sampling, history); err != nil {
		return err
	}
	if d.samples && s.lastRow > 0 { // the sampler reads the logits of the step's first row
		logits, err := s.Logits()
		if err != nil {
			return err
		}
		if err := s.setLogits(logits); err != nil {
			return err
		}
	}
	s.lastRow = 0
	return d.write(at)
}

// write makes the token at a position the next step.
func (d *decoding) write(at int) error {
	return d.s.control.Write([]runtime.Row{{Token: d.token, Pos: int32(at)}}, []int{0}, 0)
}

// run submits, waits and reads.
func (d *decoding) run(ctx context.Context) (reason StopReason, err error) {
	ahead, steps := inFlight, d.g.Tokens
	if d.waits() {
		ahead = 1
	}
	var flight [inFlight]batch // submit n is number n % inFlight
	defer func() {             // the device must have stopped before anything it uses is read or freed
		for i := range flight {
			if e := flight[i].pending.Wait(runtime.Patience); err == nil {
				err = e
			}
		}
	}()
	var failed error    // of Emit: what was submitted by then is still processed, and the session's tokens have to tell
	first, next := 0, 0 // batches: the oldest under way, and the one to be submitted
	for submitted, read := 0, 0; read < steps; first++ {
		for submitted < steps && next-first < ahead && (next == first || !d.s.pace.alone()) && ctx.Err() == nil && failed == nil {
			b := &flight[next%inFlight]
			if err := d.submit(submitted, steps-submitted, b); err != nil {
				return "", err
			}
			submitted, next = submitted+b.steps, next+1
		}
		if submitted == read {
			return StopCancelled, failed
		}
		b := &flight[first%inFlight]
		if err := d.wait(b); err != nil {
			return "", err
		}
		for range b.steps {
			if err := d.take(read); err != nil {
				return "", err
			}
			read++
			if failed == nil {
				failed = d.g.Emit(d.token)
			}
			if slices.Contains(d.s.ends, d.token) {
				return StopEnd, failed
			}
		}
	}
	return StopLength, failed
}

// waits tells whether the host has something to do between two steps.
func (d *decoding) waits() bool { return d.g.Observer.Step != nil || d.g.Given != nil }

// submit starts step n and some of those that are left after it.
func (d *decoding) submit(n, left int, b *batch) (err error) {
	s, e := d.s, d.s.model.engine
	first := n == 0 && d.samples
	if d.g.Given != nil && !first {
		if err := d.write(len(s.Tokens)); err != nil {
			return err
		}
	}
	b.steps, b.begun, b.sampled, b.alone = 1, e.Now(), first, !first && s.pace.alone()
	if first {
		commands, err := s.sample.Commands()
		if err != nil {
			return err
		}
		return e.Device.Start(&b.pending, commands...)
	}
	if b.alone {
		d.commands = nil // a run may cut programs anew
		return e.Run(runtime.Full, s.decode, s.head, s.sample)
	}
	most := min(e.Tuning.Steps, ringSteps/inFlight)
	if d.waits() || e.Anew {
		most = 1
	}
	if d.commands == nil || e.Anew {
		one, err := commandsOf([]*runtime.Program{s.decode, s.head, s.sample})
		if err != nil {
			return err
		}
		d.one, d.commands = len(one), slices.Repeat(one, most)
	}
	b.steps = s.pace.steps(most, left)
	return e.Device.Start(&b.pending, d.commands[:b.steps*d.one]...)
}

// wait waits for a submit and learns how long its steps took: since the one before was done, or since it was submitted. If
// that was mostly the time until the host got around to it, it says nothing.
func (d *decoding) wait(b *batch) error {
	e := d.s.model.engine
	before := e.Now()
	if err := b.pending.Wait(runtime.Patience); err != nil {
		return err
	}
	now := e.Now()
	took, waited := now-max(d.done, b.begun), now-before
	if b.alone || !b.sampled && 2*waited >= took {
		d.s.pace.note(b.steps, took)
	}
	d.done = now
	return nil
}

// commandsOf are the recordings of programs, in order.
func commandsOf(programs []*runtime.Program) (all []*vk.Commands, err error) {
	for _, p := range programs {
		commands, err := p.Commands()
		if err != nil {
			return nil, err
		}
		all = append(all, commands...)
	}
	return all, nil
}

// take does what step n, which was waited for, means for the host: a token was processed, unless it only sampled, and
// another one is known.
func (d *decoding) take(n int) error {
	s := d.s
	if n > 0 || !d.samples {
		s.Tokens, s.Pending = append(s.Tokens, d.token), NoToken
		if err := d.observe(); err != nil {
			return err
		}
	}
	token, err := s.readToken(n)
	switch {
	case err != nil:
		return err
	case token == NoToken:
		logits, err := s.Logits()
		if err != nil {
			return err
		}
		return s.broken(logits)
	case d.g.Given != nil:
		token = d.g.Given[n]
	}
	d.token, s.Pending = token, token
	return nil
}

// observe calls the observer after a step.
func (d *decoding) observe() (err error) {
	o, step := d.g.Observer, Step{Seen: len(d.s.Tokens)}
	if o.Step == nil {
		return nil
	}
	if o.Logits {
		if d.logits, err = d.s.readLogits(d.logits[:0], 0); err != nil {
			return err
		}
		step.Logits = d.logits
	}
	if o.Evictions {
		if step.Evicted, err = d.s.cache.Evicted(0, step.Seen); err != nil {
			return err
		}
	}
	return o.Step(step)
}

// readToken reads the token that step n sampled. Later steps may run: they write elsewhere.
func (s *Session) readToken(n int) (int32, error) {
	var b [4]byte
	err := s.model.engine.Device.Peek(b[:], s.ring.Slice(int64(n%ringSteps*4), 4))
	return int32(binary.LittleEndian.Uint32(b[:])), err
}

// broken says why no token could be chosen from logits. A broken model must not decode on.
func (s *Session) broken(logits []float32) error {
	for id, l := range logits {
		if x := float64(l); math.IsNaN(x) || math.IsInf(x, 1) {
			return fmt.Errorf("model: after %d tokens the logit of token %d is %v, want a finite number; the weights or a kernel are broken", len(s.Tokens), id, x)
		}
	}
	return fmt.Errorf("model: after %d tokens there is none to choose: all %d logits are -inf, or become so by biases", len(s.Tokens), len(logits))
}
