package model

import (
	"context"
	"errors"
	"fmt"

	"vkdecode/runtime"
)

// Rows processes up to a chunk of tokens in one step and computes the logits of every one of them, which stay on the device:
// what a step of several rows costs. The rows are consecutive tokens of the session's sequence.
func (s *Session) Rows(tokens []int32) error {
	if len(tokens) == 0 || len(tokens) > s.chunk {
		return fmt.Errorf("model: a step of %d rows, want 1 to %d", len(tokens), s.chunk)
	}
	if s.prompt.exact != nil {
		return errors.New("model: a step of several rows: prompts of this session go layer by layer, want --prefill bounded")
	}
	if err := s.check(tokens, s.addedBy(tokens)); err != nil {
		return err
	}
	if err := s.recordHeads(context.Background()); err != nil {
		return err
	}
	rows := s.chunks(tokens)[0]
	s.Pending, s.longest = NoToken, max(s.longest, len(tokens))
	for first := 0; first < len(rows); first += outRows {
		outs := make([]int, min(outRows, len(rows)-first))
		for i := range outs {
			outs[i] = first + i
		}
		programs := []*runtime.Program{s.headAll}
		if first == 0 {
			programs = []*runtime.Program{s.prompt.chunk, s.headAll}
			if err := s.write(rows, outs, true); err != nil {
				return err
			}
		} else if err := s.control.Write(rows, outs, 0); err != nil {
			return err
		}
		if err := s.run(programs...); err != nil {
			return err
		}
		s.lastRow = len(outs) - 1
	}
	s.Tokens = append(s.Tokens, tokens...)
	return nil
}

// RowTimes is what each kernel took in the last call of Rows, of the logits in the last outRows of them. It needs an engine
// with Debug >= 2.
func (s *Session) RowTimes() (times []runtime.KernelTime, err error) {
	if s.headAll == nil {
		return nil, errors.New("model: times of a step of several rows, and there was none")
	}
	return s.times(s.prompt.chunk, s.headAll)
}
