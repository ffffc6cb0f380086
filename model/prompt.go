package model

import (
	"context"
	"errors"
	"fmt"

	"vkdecode/h2o"
	"vkdecode/runtime"
	"vkdecode/shaders"
)

// prompter is the part of a session that processes prompts. Most go through the model chunk by chunk. One that is exact
// goes layer by layer: all its rows through the first layer, which is then cut to its budget, and so on, so that the whole
// prompt's keys and values are held for one layer only.
type prompter struct {
	chunk, row *runtime.Program // bodies of a chunk, and of one row
	observed   *runtime.Step    // the prompt's last queries, nil where nobody looks at them
	exact      *layerwise       // nil unless the plan is exact
	broken     bool             // a layerwise prompt was interrupted: the layers hold different tokens
}

// layerwise are the programs of an exact prompt.
type layerwise struct {
	rows         int                // of a prompt, at most
	x            *runtime.Tensor    // (prompt rows, widths.x) f32: activations between two layers
	first, load  *runtime.Program   // embeds a chunk into x; brings a chunk back from x
	enter, leave []*runtime.Program // by layer
	layers       []*runtime.Program // by layer: a chunk from x to x
}

// planPrompts names the tensors.
func (s *Session) planPrompts(rows int) {
	if s.cache.Plan.Exact {
		s.prompt.exact = &layerwise{rows: rows, x: s.arena.Tensor("scratch.prompt", int64(4*rows*s.widths.x))}
	}
}

// preparePrompts records the programs.
func (s *Session) preparePrompts(ctx context.Context) error {
	if s.cache.Observes() > 0 {
		s.prompt.observed = runtime.NewStep(s.model.engine.Device, s.cache.Observed())
	}
	attend := func(p *runtime.Program, layer, rows int, x h2o.Activations) *h2o.Parts {
		s.cache.Prompt(p, s.step, layer, rows, x)
		return nil
	}
	if l := s.prompt.exact; l != nil {
		l.record(s, attend)
	} else {
		s.prompt.row = s.decode
		if s.cache.Plan.Staged {
			s.prompt.row = s.body("row", 1, attend)
		}
		s.prompt.chunk = s.prompt.row
		if s.chunk > 1 {
			s.prompt.chunk = s.body("chunk", s.chunk, attend)
		}
	}
	for _, p := range s.prompt.programs(s.decode) {
		if err := p.Record(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (l *layerwise) record(s *Session, attend attention) {
	e, rows := s.model.engine, s.chunk
	carry := func(p *runtime.Program, from, to *runtime.Tensor, back uint32) {
		quads := s.widths.x / 4
		p.Dispatch(shaders.Carry{Lanes: uint32(e.Tuning.Lanes), Back: back, Quads: uint32(quads), Step: s.step.Range, X: from.Range, Y: to.Range},
			e.Variant("", ""), ceil(quads, e.Tuning.Lanes), rows, 1)
	}
	l.first, l.load = e.NewProgram("first"), e.NewProgram("load")
	s.model.arch.embedding(l.first, &s.activations, s.step, s.x.Range, rows)
	carry(l.first, s.x, l.x, 0)
	carry(l.load, l.x, s.x, 1)
	for i := range s.model.Layers {
		enter, layer, leave := e.NewProgram("enter"), e.NewProgram("layer"), e.NewProgram("leave")
		layer.Long = true
		s.cache.Enter(enter, s.step, i)
		carry(layer, l.x, s.x, 1)
		s.model.arch.layer(layer, &s.activations, i, rows, attend)
		carry(layer, s.x, l.x, 0)
		s.cache.Leave(leave, s.step, i, s.model.arch.rotation(s.rope))
		l.enter, l.layers, l.leave = append(l.enter, enter), append(l.layers, layer), append(l.leave, leave)
	}
}

// programs are all but that of a decode step, which may stand for a prompt of one row.
func (p *prompter) programs(decode *runtime.Program) (all []*runtime.Program) {
	if l := p.exact; l != nil {
		all = append(all, l.first)
		for i := range l.layers {
			all = append(all, l.enter[i], l.layers[i], l.leave[i])
		}
		return append(all, l.load)
	}
	if p.chunk != p.row {
		all = append(all, p.chunk)
	}
	if p.row != decode {
		all = append(all, p.row)
	}
	return all
}

// Prompt processes tokens in chunks. Afterwards Logits gives those of the last. progress, if not nil, is called with the
// tokens done. It stops between chunks when ctx ends.
func (s *Session) Prompt(ctx context.Context, tokens []int32, o Observer, progress func(done int)) error {
	if len(tokens) == 0 {
		return errors.New("model: the prompt is empty")
	}
	if err := s.check(tokens, s.addedBy(tokens)); err != nil {
		return err
	}
	if plan := s.cache.Plan; plan.OneTurn() && len(s.Tokens) > 0 {
		return fmt.Errorf("model: a second prompt: policy %s wants the same tokens in all heads of a layer, and %s has left different ones; reset the session or choose another policy for prompts", plan.Prefill.Name, plan.Policy.Name)
	}
	if l := s.prompt.exact; l != nil && len(tokens) > l.rows {
		return fmt.Errorf("model: a prompt of %d tokens, the session was opened for prompts of %d", len(tokens), l.rows)
	}
	if progress == nil {
		progress = func(int) {}
	}
	end := len(s.Tokens) + len(tokens)
	return s.process(ctx, tokens, o.Evictions, progress, func(rows []runtime.Row, evicted []h2o.Eviction) (err error) {
		last := int(rows[len(rows)-1].Pos)+1 == end
		if last && !o.Logits {
			if err := s.control.Write(rows, []int{len(rows) - 1}, 0); err != nil {
				return err
			}
			s.lastRow = 0
			if err := s.run(s.head); err != nil {
				return err
			}
		}
		if o.Step == nil {
			return nil
		}
		step := Step{Seen: len(s.Tokens), Evicted: evicted}
		if o.Logits {
			if step.Logits, err = s.logitsOf(rows); err != nil {
				return err
			}
		}
		return o.Step(step)
	})
}

// addedBy is how many tokens of a prompt are added to the layers' pools before the first of them is cut back.
func (s *Session) addedBy(prompt []int32) int {
	if s.cache.Plan.Staged {
		return 0
	}
	return min(len(prompt), s.chunk)
}

// process brings tokens through the layers. After each chunk, whose last activations are in s.x, it calls then, with what
// was evicted if that is asked for.
func (s *Session) process(ctx context.Context, tokens []int32, evictions bool, progress func(done int), then func([]runtime.Row, []h2o.Eviction) error) error {
	s.Pending, s.longest = NoToken, max(s.longest, len(tokens))
	chunks := s.chunks(tokens)
	if s.prompt.exact != nil {
		return s.processLayerwise(ctx, chunks, evictions, progress, then)
	}
	done := 0
	for i, rows := range chunks {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.write(rows, nil, i == len(chunks)-1); err != nil {
			return err
		}
		body := s.prompt.chunk
		if len(rows) == 1 {
			body = s.prompt.row
		}
		if err := s.runRows(body, len(rows)); err != nil {
			return err
		}
		s.Tokens = append(s.Tokens, tokens[done:done+len(rows)]...)
		done += len(rows)
		var evicted []h2o.Eviction
		if evictions {
			var err error
			if evicted, err = s.cache.EvictedFrom(0, len(s.Tokens), 0); err != nil {
				return err
			}
		}
		if err := then(rows, evicted); err != nil {
			return err
		}
		progress(done)
	}
	return nil
}

// processLayerwise is process for an exact prompt.
func (s *Session) processLayerwise(ctx context.Context, chunks [][]runtime.Row, evictions bool, progress func(done int), then func([]runtime.Row, []h2o.Eviction) error) error {
	l, total, last := s.prompt.exact, 0, len(chunks)-1
	tokens := make([]int32, 0, len(chunks)*s.chunk)
	for _, rows := range chunks {
		total += len(rows)
		for _, r := range rows {
			tokens = append(tokens, r.Token)
		}
	}
	seen := len(s.Tokens) + total
	each := func(p *runtime.Program, done int) error { // over all chunks; done of the total before, for progress
		for i, rows := range chunks {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := s.write(rows, nil, i == last); err != nil {
				return err
			}
			if err := s.runRows(p, len(rows)); err != nil {
				return err
			}
			progress((done + (i*s.chunk+len(rows))/len(l.layers)))
		}
		return nil
	}
	if err := each(l.first, 0); err != nil {
		return err
	}
	s.prompt.broken = true // until every layer has seen the prompt
	var evicted []h2o.Eviction
	for i, layer := range l.layers {
		if err := s.run(l.enter[i]); err != nil {
			return err
		}
		if err := each(layer, i*total/len(l.layers)); err != nil {
			return err
		}
		if err := s.run(l.leave[i]); err != nil {
			return err
		}
		if evictions {
			gone, err := s.cache.EvictedFrom(0, seen, i)
			if err != nil {
				return err
			}
			evicted = append(evicted, gone...)
		}
	}
	s.prompt.broken = false
	for i, rows := range chunks {
		if err := s.control.Write(rows, nil, 0); err != nil {
			return err
		}
		if err := s.runRows(l.load, len(rows)); err != nil {
			return err
		}
		s.Tokens = append(s.Tokens, tokens[i*s.chunk:i*s.chunk+len(rows)]...)
		var gone []h2o.Eviction
		if i == last {
			gone = evicted
		}
		if err := then(rows, gone); err != nil {
			return err
		}
	}
	progress(total)
	return nil
}

// chunks cuts tokens into the rows of steps.
func (s *Session) chunks(tokens []int32) (all [][]runtime.Row) {
	for first := 0; first < len(tokens); first += s.chunk {
		rows := make([]runtime.Row, min(s.chunk, len(tokens)-first))
		for i := range rows {
			rows[i] = runtime.Row{Token: tokens[first+i], Pos: int32(len(s.Tokens) + first + i), Place: int32(first + i)}
		}
		all = append(all, rows)
	}
	return all
}

// write sets the rows of a prompt's step, which of them have their logits wanted, and which queries are the last ones after
// it. Chunks settle; in chunks of one token, which stand for decoding, only the last does, unless decoding evicts nothing. In
// a pool of their own prompts are cut at the end of the stage.
func (s *Session) write(rows []runtime.Row, outs []int, ends bool) error {
	plan, flags := s.cache.Plan, runtime.StepFlags(0)
	if !plan.Staged && (s.chunk > 1 || ends || plan.Policy.Every == 0) {
		flags |= runtime.Settles
	}
	if ends {
		flags |= runtime.Ends
	}
	if err := s.control.Write(rows, outs, flags); err != nil || s.prompt.observed == nil {
		return err
	}
	// Those of this prompt only: what was decoded before it left no queries behind. shaders/observe.comp has their order.
	last, window := rows[len(rows)-1], s.cache.Observes()
	first, end := last.Pos-last.Place, int(last.Place)+1
	queries := make([]runtime.Row, min(end, window))
	for place := end - len(queries); place < end; place++ {
		queries[place%window] = runtime.Row{Pos: first + int32(place)}
	}
	return s.prompt.observed.Write(queries, nil, runtime.Observes)
}
