package runtime

import (
	"context"
	"fmt"
	"io"
	"time"

	"vkdecode/shaders"
	"vkdecode/vk"
)

// Program is a list of dispatches that is recorded once and submitted for every step. What changes from step to step
// lives in buffers. It is cut into segments, each for a submit of its own, by what they were seen to take.
type Program struct {
	Name     string
	Shows    bool // ends with a barrier: the host looks at what it wrote as soon as it was waited for
	Long     bool // as long as it was not measured each dispatch is a segment; otherwise what stands between two cuts
	engine   *Engine
	calls    []dispatch
	cuts     []int // index of the first call of each segment but the first, before it was measured
	err      error // the first error while building
	segments []segment
	records  []*vk.Commands // one for each segment
	next     []segment      // to be recorded before the next run, nil = the same
}

// dispatch is a kernel over a grid; one without a module fills its only binding with zeros.
type dispatch struct {
	shaders.Call
	x, y, z uint32
}

// NewProgram begins an empty program.
func (e *Engine) NewProgram(name string) *Program { return &Program{Name: name, engine: e} }

// Variant is the form of the engine's kernels for a weight type and a cache type.
func (e *Engine) Variant(weight, cache string) shaders.Variant {
	return shaders.Variant{Form: e.Tuning.Form, Weight: weight, Cache: cache}
}

// Dispatch appends a kernel over a grid of workgroups. Errors are kept until Record.
func (p *Program) Dispatch(k shaders.Kernel, v shaders.Variant, x, y, z int) {
	c, err := k.Call(v)
	if err != nil && p.err == nil {
		p.err = err
	}
	p.calls = append(p.calls, dispatch{c, uint32(x), uint32(y), uint32(z)})
}

// Zero appends the zeroing of a range.
func (p *Program) Zero(r vk.Range) {
	p.calls = append(p.calls, dispatch{Call: shaders.Call{Kernel: "zero", Bindings: []vk.Range{r}, Access: []shaders.Access{shaders.Write}}})
}

// Beside appends what programs do that know nothing of each other: the first dispatch of each, then the second, and so on,
// so that they wait side by side.
func (p *Program) Beside(each ...*Program) {
	for i, more := 0, true; more; i++ {
		more = false
		for _, o := range each {
			if p.err == nil {
				p.err = o.err
			}
			if i < len(o.calls) {
				p.calls, more = append(p.calls, o.calls[i]), true
			}
		}
	}
}

// Cut ends a segment: what follows may go into another submit.
func (p *Program) Cut() {
	if n := len(p.calls); n > 0 && (len(p.cuts) == 0 || p.cuts[len(p.cuts)-1] != n) {
		p.cuts = append(p.cuts, n)
	}
}

// Record compiles the pipelines and records the commands. It stops between two pipelines when ctx ends.
func (p *Program) Record(ctx context.Context) error {
	if p.err != nil {
		return fmt.Errorf("runtime: program %s: %w", p.Name, p.err)
	}
	p.segments, p.next = p.coming(), nil
	var needed []build
	for _, s := range p.segments {
		for _, part := range s {
			if p.calls[part.call].Module != nil {
				needed = append(needed, p.build(part))
			}
		}
	}
	if err := p.engine.compile(ctx, needed); err != nil {
		return err
	}
	p.Free()
	for i, s := range p.segments {
		ops := p.ops(s)
		if p.Shows && i == len(p.segments)-1 {
			ops = append(ops, vk.Op{Kind: vk.Barrier})
		}
		c, err := p.engine.Device.Record(fmt.Sprintf("%s.%d", p.Name, len(p.records)), ops)
		if err != nil {
			return fmt.Errorf("runtime: program %s: %w", p.Name, err)
		}
		p.records = append(p.records, c)
	}
	return nil
}

// coming are the segments of the next run.
func (p *Program) coming() []segment {
	switch {
	case p.next != nil:
		return p.next
	case p.segments != nil:
		return p.segments
	}
	return p.begin()
}

func (p *Program) build(part piece) build {
	return build{p.calls[part.call].Call, p.partial(part)}
}

// ops turns dispatches into operations with the barriers they need. A segment begins with a barrier: what ran before it
// is the previous segment, another program, or this one's own previous replay.
func (p *Program) ops(s segment) []vk.Op {
	ops := []vk.Op{{Kind: vk.Barrier}}
	timed := p.engine.Debug >= 2 && p.engine.Device.Info.Limits.TimestampPeriod > 0
	if timed {
		ops = append(ops, vk.Op{Kind: vk.Timestamp})
	}
	var since hazards
	for i, part := range s {
		c := p.calls[part.call]
		if timed || since.conflict(c.Call) {
			ops = append(ops, vk.Op{Kind: vk.Barrier})
			since = hazards{}
		}
		since.add(c.Call)
		if c.Module == nil {
			ops = append(ops, vk.Op{Kind: vk.Fill, Name: c.Kernel, Dst: c.Bindings[0]})
		} else {
			ops = append(ops, vk.Op{Kind: vk.Dispatch, Name: c.Kernel, Pipeline: p.engine.pipeline(p.build(part)), Push: c.Push, Bindings: c.Bindings,
				X: part.groups[0], Y: part.groups[1], Z: part.groups[2], First: part.first})
		}
		if timed {
			ops = append(ops, vk.Op{Kind: vk.Timestamp, Query: uint32(i + 1)})
		}
	}
	return ops
}

// hazards are the ranges read and written since the last barrier.
type hazards struct{ reads, writes []vk.Range }

// conflict tells whether a call must wait for what ran since the last barrier: it reads or writes what was written, or
// writes what was read.
func (h *hazards) conflict(c shaders.Call) bool {
	for i, r := range c.Bindings {
		if overlaps(h.writes, r) || c.Access[i]&shaders.Write != 0 && overlaps(h.reads, r) {
			return true
		}
	}
	return false
}

func (h *hazards) add(c shaders.Call) {
	for i, r := range c.Bindings {
		if c.Access[i]&shaders.Write != 0 {
			h.writes = append(h.writes, r)
		}
		if c.Access[i]&shaders.Read != 0 {
			h.reads = append(h.reads, r)
		}
	}
}

func overlaps(list []vk.Range, r vk.Range) bool {
	for _, o := range list {
		if o.Overlaps(r) {
			return true
		}
	}
	return false
}

// Commands are the recorded segments, to be submitted in order. They are recorded anew first where the last run has cut the
// program anew, which must be over, and with Engine.Anew.
func (p *Program) Commands() ([]*vk.Commands, error) {
	if p.next != nil && !p.engine.Anew {
		if err := p.Record(context.Background()); err != nil {
			return nil, err
		}
	}
	if p.engine.Anew {
		if err := p.engine.Device.WaitIdle(); err != nil {
			return nil, err
		}
		if err := p.Record(context.Background()); err != nil { // nothing is compiled any more
			return nil, err
		}
	}
	return p.records, nil
}

// KernelTime is what the dispatches of one kernel took in a replay.
type KernelTime struct {
	Kernel     string
	Time       time.Duration
	Dispatches int
}

// Times adds the time of every dispatch of the last replay to the list, by kernel. It needs Engine.Debug >= 2 when the
// program was recorded.
func (p *Program) Times(sums []KernelTime) ([]KernelTime, error) {
	for i, r := range p.records {
		times, err := r.Times()
		if err != nil {
			return sums, err
		}
		for t := 1; t < len(times); t++ {
			sums = addTime(sums, p.calls[p.segments[i][t-1].call].Kernel, times[t]-times[t-1])
		}
	}
	return sums, nil
}

func addTime(sums []KernelTime, kernel string, d time.Duration) []KernelTime {
	for i := range sums {
		if sums[i].Kernel == kernel {
			sums[i].Time += d
			sums[i].Dispatches++
			return sums
		}
	}
	return append(sums, KernelTime{kernel, d, 1})
}

// Print writes the graph, one line per dispatch: kernel, grid, constants and bindings by name; of a part of a dispatch its
// first workgroup stands before them. A line `--` is a barrier, `-- cut` the end of a submit.
func (p *Program) Print(w io.Writer) {
	for i, s := range p.coming() {
		if i > 0 {
			fmt.Fprintln(w, "-- cut")
		}
		var since hazards
		for _, part := range s {
			c := p.calls[part.call]
			if since.conflict(c.Call) {
				fmt.Fprintln(w, "--")
				since = hazards{}
			}
			since.add(c.Call)
			if c.Module == nil {
				fmt.Fprint(w, c.Kernel)
			} else {
				fmt.Fprintf(w, "%s (%d,%d,%d)", c.Module.Name, part.groups[0], part.groups[1], part.groups[2])
				if p.partial(part) {
					fmt.Fprintf(w, " from (%d,%d,%d)", part.first[0], part.first[1], part.first[2])
				}
				fmt.Fprintf(w, " %v", c.Constants)
			}
			for _, b := range c.Bindings {
				fmt.Fprintf(w, " %s", b.Buffer.Name)
			}
			fmt.Fprintln(w)
		}
	}
}

// Free releases the recorded commands. The device must have finished with them.
func (p *Program) Free() {
	for _, c := range p.records {
		c.Free()
	}
	p.records = nil
}

// Patience is how long a submit may take before the device counts as hung.
const Patience = 10 * time.Minute
