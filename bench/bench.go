// Package bench measures how fast a model runs on a device: prompts and decoding by KV policy, depth of the context and
// rows in a step, beside what the device's memory can do.
package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/runtime"
	"vkdecode/vk"
)

// Options are what is measured: every setting at every depth, a prompt once and decoding with each number of rows.
type Options struct {
	Settings []h2o.Settings
	Depths   []int // tokens in the cache before
	Rows     []int // in a step of decoding: sequences beside each other
	Prompt   int   // tokens, 0 = prompts are not measured
	Tokens   int   // of each sequence to decode, 0 = decoding is not measured
	Repeats  int
}

// Bench is a model under measurement.
type Bench struct {
	Options
	Name      string // of the model, in results
	Model     *model.Model
	Engine    *runtime.Engine
	Bandwidth Bandwidth
	Meter     *Meter                           // of energy, nil = none
	Emit      func(Result) error               // called with each result as it is ready
	Progress  func(what string, done, all int) // called with the measurements done
	done      int
}

// Run measures everything. When ctx ends it emits what there is and returns the context's error.
func (b *Bench) Run(ctx context.Context) error {
	if err := b.Check(b.Model.Geometry()); err != nil {
		return err
	}
	debug := b.Engine.Debug
	b.Engine.Debug = 0 // timestamps would slow every session down
	defer func() { b.Engine.Debug = debug }()
	for _, depth := range b.Depths {
		prompts := b.group(depth, 0)
		err := b.measure(ctx, prompts)
		var decodes []*subject
		for _, rows := range b.Rows {
			if err == nil {
				group := b.group(depth, rows)
				decodes = append(decodes, group...)
				err = b.measure(ctx, group)
			}
		}
		if failed := b.emit(prompts, decodes); err == nil {
			err = failed
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Check refuses what cannot be measured with a model of this shape, before anything is.
func (b *Options) Check(g h2o.Geometry) error {
	for _, depth := range b.Depths {
		for _, s := range b.all(depth) {
			if _, err := s.plan(g); err != nil {
				return err
			}
		}
	}
	return nil
}

// Largest is the most bytes that K and V of one measurement take, and the plan of each of its caches.
func (b *Options) Largest(g h2o.Geometry) (of *h2o.Plan, bytes int64, err error) {
	for _, depth := range b.Depths {
		for _, s := range b.all(depth) {
			p, err := s.plan(g)
			if err != nil {
				return nil, 0, err
			}
			if n := p.Bytes * int64(s.sequences()); n > bytes {
				of, bytes = p, n
			}
		}
	}
	return of, bytes, nil
}

// all are the subjects at a depth.
func (b *Options) all(depth int) (all []*subject) {
	all = b.group(depth, 0)
	for _, rows := range b.Rows {
		all = append(all, b.group(depth, rows)...)
	}
	return all
}

// group are the subjects that are measured in turns, one for each setting: a prompt where rows is 0.
func (b *Options) group(depth, rows int) (group []*subject) {
	if rows == 0 && b.Prompt == 0 || rows > 0 && b.Tokens == 0 {
		return nil
	}
	for _, kv := range b.Settings {
		s := &subject{kv: kv, depth: depth, rows: rows, tokens: b.Prompt, context: depth + b.Prompt}
		if rows > 0 {
			s.tokens, s.context = b.Tokens, depth+b.Tokens
		}
		group = append(group, s)
	}
	return group
}

// measure measures a group: in each round every subject once, in the next round in the opposite order, so that a device that
// gets slower as it warms up is so for all of them.
func (b *Bench) measure(ctx context.Context, group []*subject) (err error) {
	defer closeAll(group)
	for round := range b.Repeats {
		order := slices.Clone(group)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, s := range order {
			if err := b.open(ctx, s, group); err != nil {
				return err
			}
			b.tell(s)
			if err := s.measure(ctx, b); err != nil {
				return err
			}
			b.done++
		}
	}
	closeAll(group) // before one with timestamps is opened
	for _, s := range group {
		if err := s.time(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bench) tell(s *subject) {
	if b.Progress == nil {
		return
	}
	kinds := len(b.Rows)
	if b.Tokens == 0 {
		kinds = 0
	}
	if b.Prompt > 0 {
		kinds++
	}
	what := "prompt"
	if s.rows > 0 {
		what = fmt.Sprintf("decode, %d rows", s.rows)
	}
	b.Progress(fmt.Sprintf("%s %s, depth %d, %s", s.kv.Policy, s.kv.Budget, s.depth, what), b.done, len(b.Depths)*len(b.Settings)*kinds*b.Repeats)
}

// open opens the subject's sessions. Those of its group stay open for the next round, unless there is no room for all of
// them.
func (b *Bench) open(ctx context.Context, s *subject, group []*subject) error {
	if len(s.sessions) > 0 {
		return nil
	}
	if p, err := s.plan(b.Model.Geometry()); err != nil {
		return err
	} else if free, told := b.Engine.Free(); told && p.Bytes*int64(s.sequences()) > free {
		closeAll(group)
	}
	err := s.open(ctx, b.Model)
	var full *vk.OutOfMemoryError
	if !errors.As(err, &full) {
		return err
	}
	s.close()
	if closeAll(group) > 0 {
		err = s.open(ctx, b.Model)
	}
	return err
}

// closeAll closes the sessions of a group and tells how many subjects had any open.
func closeAll(group []*subject) (n int) {
	for _, s := range group {
		if s.close() {
			n++
		}
	}
	return n
}
