package model

import (
	"context"
	"encoding/binary"
	"slices"

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
	Tokens   int             // new tokens, at most
	Sampler  runtime.Sampler // nil = greedy on the device
	Observer Observer
	Emit     func(token int32) error // called with each token as it is known
	Continue bool                    // begin with Session.Pending, if there is one, not with a new token
}

// NoToken is no token's id.
const NoToken = -1

// Generate continues after the prompt: it samples a token, processes it, and so on. The last token emitted is not
// processed, it becomes Session.Pending. A token counts as emitted even when it is an end token.
func (s *Session) Generate(ctx context.Context, g Generation) (reason StopReason, err error) {
	if g.Tokens <= 0 {
		return StopLength, nil
	}
	sampler := g.Sampler
	if sampler == nil {
		if sampler, err = runtime.NewSampler(runtime.Sampling{}); err != nil {
			return "", err
		}
	}
	if g.Continue && s.Pending != NoToken {
		g.Tokens++ // the pending one counts as emitted, by whoever left it
		return s.decodeFrom(ctx, g, s.Pending, sampler)
	}
	logits, err := s.Logits()
	if err != nil {
		return "", err
	}
	token, err := sampler.Next(logits, s.Tokens)
	if err != nil {
		return "", err
	}
	s.Pending = token
	if err := g.Emit(token); err != nil {
		return "", err
	}
	if slices.Contains(s.ends, token) {
		return StopEnd, nil
	}
	return s.decodeFrom(ctx, g, token, sampler)
}

// decodeFrom processes a token and goes on from it. g.Tokens counts the token too.
func (s *Session) decodeFrom(ctx context.Context, g Generation, token int32, sampler runtime.Sampler) (StopReason, error) {
	if g.Sampler == nil && g.Observer.Step == nil {
		return s.replay(ctx, g, token)
	}
	return s.stepwise(ctx, g, token, sampler)
}

// stepwise processes a token, waits, samples on the host, and so on.
func (s *Session) stepwise(ctx context.Context, g Generation, token int32, sampler runtime.Sampler) (StopReason, error) {
	var logits []float32
	for n := 1; n < g.Tokens; n++ {
		if ctx.Err() != nil {
			return StopCancelled, nil
		}
		if err := s.check([]int32{token}); err != nil {
			return "", err
		}
		if err := s.control.Write([]runtime.Row{{Token: token, Pos: int32(len(s.Tokens))}}, []int{0}, 0); err != nil {
			return "", err
		}
		s.lastRow = 0
		if err := s.run(s.decode, s.head); err != nil {
			return "", err
		}
		s.Tokens, s.Pending = append(s.Tokens, token), NoToken
		var err error
		if logits, err = s.readLogits(logits[:0], s.lastRow); err != nil {
			return "", err
		}
		if g.Observer.Step != nil {
			step := Step{Seen: len(s.Tokens)}
			if g.Observer.Logits {
				step.Logits = logits
			}
			if g.Observer.Evictions {
				if step.Evicted, err = s.cache.Evicted(0, step.Seen); err != nil {
					return "", err
				}
			}
			if err := g.Observer.Step(step); err != nil {
				return "", err
			}
		}
		if token, err = sampler.Next(logits, s.Tokens); err != nil {
			return "", err
		}
		s.Pending = token
		if err := g.Emit(token); err != nil {
			return "", err
		}
		if slices.Contains(s.ends, token) {
			return StopEnd, nil
		}
	}
	return StopLength, nil
}

// replay submits the recorded step again and again: the device samples and makes the next step by itself, and the host
// only reads which tokens came. Steps submitted after an end token change nothing.
func (s *Session) replay(ctx context.Context, g Generation, token int32) (reason StopReason, err error) {
	steps := g.Tokens - 1
	if err := s.check(make([]int32, steps)); err != nil {
		return "", err
	}
	if err := s.control.Write([]runtime.Row{{Token: token, Pos: int32(len(s.Tokens))}}, []int{0}, 0); err != nil {
		return "", err
	}
	s.lastRow = 0
	var flight [inFlight]vk.Pending // step n is number n % inFlight
	defer func() {                  // the device must have stopped before anything it uses is read or freed
		for i := range flight {
			if e := flight[i].Wait(runtime.Patience); err == nil {
				err = e
			}
		}
	}()
	var commands []*vk.Commands
	var failed error // of Emit: what was submitted by then is still processed, and s.Tokens has to tell
	for submitted, read := 0, 0; read < steps; {
		for submitted < steps && submitted-read < inFlight && ctx.Err() == nil && failed == nil {
			if submitted == 0 || s.model.engine.Anew {
				if commands, err = s.decodeCommands(); err != nil {
					return "", err
				}
			}
			if err := s.model.engine.Device.Start(&flight[submitted%inFlight], commands...); err != nil {
				return "", err
			}
			submitted++
		}
		if submitted == read {
			return StopCancelled, failed
		}
		if err := flight[read%inFlight].Wait(runtime.Patience); err != nil {
			return "", err
		}
		s.Tokens = append(s.Tokens, token)
		s.Pending = NoToken
		if token, err = s.readToken(read); err != nil {
			return "", err
		}
		s.Pending = token
		read++
		if failed == nil {
			failed = g.Emit(token)
		}
		if slices.Contains(s.ends, token) {
			return StopEnd, failed
		}
	}
	return StopLength, failed
}

// decodeCommands are the recordings of one decode step, in order.
func (s *Session) decodeCommands() (all []*vk.Commands, err error) {
	for _, p := range []*runtime.Program{s.decode, s.head, s.greedy} {
		commands, err := p.Commands()
		if err != nil {
			return nil, err
		}
		all = append(all, commands...)
	}
	return all, nil
}

// readToken reads the token that decode step n sampled, which was waited for. Later steps may run: they write elsewhere.
func (s *Session) readToken(n int) (int32, error) {
	var b [4]byte
	err := s.model.engine.Device.Peek(b[:], s.ring.Slice(int64(n%ringSteps*4), 4))
	return int32(binary.LittleEndian.Uint32(b[:])), err
}
