package model

import (
	"context"
	"errors"

	"vkdecode/runtime"
	"vkdecode/vk"
)

// replay submits programs, which make a step that leads to the next by itself, so many times, a few ahead of the one it
// waits for, and calls then after each. When ctx ends, no more are submitted.
func replay(ctx context.Context, e *runtime.Engine, programs []*runtime.Program, steps int, then func(step int) error) (err error) {
	var flight [inFlight]vk.Pending // step n is number n % inFlight
	defer func() {                  // the device must have stopped before anything it uses is read or freed
		for i := range flight {
			err = errors.Join(err, flight[i].Wait(runtime.Patience))
		}
	}()
	var commands []*vk.Commands
	var p pace
	last := e.Now()
	for submitted, done := 0, 0; done < steps; done++ {
		for submitted < steps && submitted-done < inFlight && (submitted == done || !p.alone()) && ctx.Err() == nil {
			if p.alone() {
				commands = nil // a run may cut programs anew
				err = e.Run(runtime.Full, programs...)
			} else {
				if commands == nil || e.Anew {
					commands, err = commandsOf(programs)
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
		if err := then(done); err != nil {
			return err
		}
	}
	return nil
}
