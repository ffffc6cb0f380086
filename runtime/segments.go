package runtime

import (
	"errors"
	"slices"
	"time"

	"vkdecode/vk"
)

// A submit that runs too long is killed by the system, on some after two seconds, and holds up a screen before that. How
// long dispatches take is not known before they have run, so programs are cut by measured time.
const (
	longSubmit  = 200 * time.Millisecond // a segment that takes longer is cut
	ShortSubmit = 100 * time.Millisecond // segments that take less together are joined
)

// segment is what one submit runs: whole dispatches, or parts of them.
type segment []piece

// piece is a run of a dispatch's workgroups.
type piece struct {
	call          int // index of the dispatch
	first, groups [3]uint32
}

// whole is a dispatch that is not cut.
func (p *Program) whole(call int) piece {
	c := p.calls[call]
	return piece{call: call, groups: [3]uint32{c.x, c.y, c.z}}
}

// partial tells whether a piece is not its whole dispatch.
func (p *Program) partial(part piece) bool { return part != p.whole(part.call) }

// begin cuts a program that was never measured.
func (p *Program) begin() (all []segment) {
	for i := range p.calls {
		if i == 0 || p.Long || slices.Contains(p.cuts, i) {
			all = append(all, nil)
		}
		last := &all[len(all)-1]
		*last = append(*last, p.whole(i))
	}
	return all
}

// in cuts a piece into as many, or fewer where it has not enough workgroups.
func (p *Program) in(part piece, n int) (all []piece) {
	along := 0
	for i, g := range part.groups {
		if g > part.groups[along] {
			along = i
		}
	}
	groups := int(part.groups[along])
	if n = min(n, groups); p.calls[part.call].Whole || n < 2 {
		return []piece{part}
	}
	for i := range n {
		from, to := i*groups/n, (i+1)*groups/n
		one := part
		one.first[along] += uint32(from)
		one.groups[along] = uint32(to - from)
		all = append(all, one)
	}
	return all
}

// fit gives other segments after those of the program took so long, nil if these will do: what took too long falls into its
// dispatches, and one dispatch into parts; neighbours that take little are joined, if joins.
func (p *Program) fit(times []time.Duration, joins bool) (all []segment) {
	changed := false
	open := time.Duration(-1) // what the last segment takes that may be joined with the next one, negative for none
	for i, s := range p.segments {
		switch {
		case times[i] <= longSubmit:
			if joins && open >= 0 && open+times[i] <= ShortSubmit {
				all[len(all)-1] = append(slices.Clip(all[len(all)-1]), s...)
				open, changed = open+times[i], true
				continue
			}
			all, open = append(all, s), times[i]
			continue
		case len(s) == 1:
			parts := p.in(s[0], int((times[i]+ShortSubmit-1)/ShortSubmit))
			changed = changed || len(parts) > 1
			for _, one := range parts {
				all = append(all, segment{one})
			}
		default:
			changed = true
			for _, one := range s {
				all = append(all, segment{one})
			}
		}
		open = -1 // how long each of these takes is not known
	}
	if !changed {
		return nil
	}
	return all
}

// Load is how much of what a program can do a run of it does.
type Load int

const (
	Idle Load = iota // nothing, or next to nothing: its time says nothing
	Part             // of the rows
	Full             // all rows: submits that take little are joined for later runs
)

// Run submits programs segment by segment and waits for them. Segments that took long are cut for the next run.
func (e *Engine) Run(load Load, programs ...*Program) (err error) {
	var pending []*vk.Pending
	defer func() { // the device must have stopped before anything it uses is read or freed
		for _, one := range pending {
			err = errors.Join(err, one.Wait(Patience))
		}
	}()
	last := e.Now()
	for _, p := range programs {
		commands, err := p.Commands()
		if err != nil {
			return err
		}
		for _, c := range commands {
			one, err := e.Device.Submit(c)
			if err != nil {
				return err
			}
			pending = append(pending, one)
		}
	}
	for _, p := range programs {
		times := make([]time.Duration, len(p.records))
		for i := range times {
			if err := pending[0].Wait(Patience); err != nil {
				return err
			}
			pending = pending[1:]
			done := e.Now()
			times[i], last = done-last, done
		}
		if load > Idle {
			p.next = p.fit(times, load == Full)
		}
	}
	return nil
}

// Now is the host's time since some moment, or what Clock says.
func (e *Engine) Now() time.Duration {
	if e.Clock != nil {
		return e.Clock()
	}
	return time.Since(started)
}

var started = time.Now()
