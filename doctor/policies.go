package doctor

import (
	"context"
	"fmt"
	"math"
	"slices"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/replay"
)

// scoreBounds are how far a score may lie from the reference's, relative to it, by the type of K and V. Sums and
// exponentials in f32 come to a few 1e-6; a key in f16 that is rounded to the other side than the reference's, to 1e-4. A
// probability that is left out of a sum is 1e-2. They are below half of the gaps between scores that decide, so that the
// victims are certain.
var scoreBounds = map[string]float64{"f32": 5e-5, "f16": 5e-4}

// stepwise runs a policy over the reference's prompt and shows what it did at every step.
func (p *patient) stepwise(ctx context.Context, r *reference, run *policyRun, each func(s *model.Session, step model.Step, last bool) error) error {
	s, err := p.open(ctx, run.Policy, run.Budget, run.RecentRatio, run.Type, run.Chunk, len(r.IDs))
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Prompt(ctx, r.IDs, model.Observer{Evictions: true, Step: func(step model.Step) error {
		last := step.Seen == len(r.IDs)
		if s.Plan().Exact && !last {
			return nil // it is cut once, which its last chunk tells
		}
		return each(s, step, last)
	}}, nil)
}

// scores checks those that are left at the end.
func (p *patient) scores(ctx context.Context, r *reference, run *policyRun) (finding, error) {
	f, count := finding{what: "relative error", bound: scoreBounds[run.Type]}, 0
	err := p.stepwise(ctx, r, run, func(s *model.Session, step model.Step, last bool) error {
		if !last {
			return nil
		}
		state, err := s.Cache().State(0)
		if err != nil {
			return err
		}
		for layer, heads := range run.Kept {
			for kv, want := range heads {
				here := state.Layers[layer].Heads[kv]
				for i, pos := range want.Positions {
					at := slices.Index(here.Positions, pos)
					if at < 0 {
						f.note = wrongAt(step.Seen, layer, kv, "position %d is gone", pos)
						return nil
					}
					count++
					if e := math.Abs(float64(here.Scores[at])-want.Scores[i]) / want.Scores[i]; !(e <= f.error) {
						f.error = e
					}
				}
			}
		}
		return nil
	})
	if err == nil && count == 0 && f.note == "" {
		err = errNothing
	}
	return f, err
}

// victims checks at every step that those go which the reference's scores choose, and that they are the lowest of the
// scores read back, by the policy's twin.
func (p *patient) victims(ctx context.Context, r *reference, run *policyRun) (finding, error) {
	f, at := finding{what: "wrong victims"}, 0
	var twin *replay.Twin
	if least := 2 * scoreBounds[run.Type]; !(run.Gap > least) {
		return f, fmt.Errorf("doctor: reference of %s: scores %g apart decide, want more than %g", run.Policy, run.Gap, least)
	}
	watch := func(s *model.Session, step model.Step, last bool) error {
		state, err := s.Cache().State(0)
		if err != nil {
			return err
		}
		if twin == nil {
			twin = replay.NewTwin(s.Plan(), empty(state), 0)
		}
		twin.Step(replay.Step{Seen: step.Seen, Prompt: true, Last: last, State: state, Evicted: step.Evicted})
		if len(step.Evicted) == 0 {
			return nil
		}
		if at == len(run.LastPositions) || run.LastPositions[at] != step.Seen-1 {
			f.note, f.error = fmt.Sprintf("after %d tokens some go, when none should", step.Seen), f.error+float64(len(step.Evicted))
			return nil
		}
		wrong, note := compareVictims(step, run.Victims[at])
		if f.error += float64(wrong); f.note == "" {
			f.note = note
		}
		at++
		return nil
	}
	if err := p.stepwise(ctx, r, run, watch); err != nil {
		return f, err
	}
	switch {
	case at != len(run.LastPositions):
		f.note = fmt.Sprintf("tokens go at %d steps, want %d", at, len(run.LastPositions))
	case twin.Checked == 0:
		return f, errNothing
	case twin.Wrong > 0 && f.note == "":
		c := twin.First
		f.note = wrongAt(c.Step, c.Layer, c.Head, "%s: %v went, want %v", c.Reason, c.Device, c.Expected)
	}
	f.error += float64(twin.Wrong)
	return f, nil
}

// compareVictims counts the KV heads in which others went.
func compareVictims(step model.Step, want [][][]uint32) (wrong int, note string) {
	for layer, heads := range want {
		for kv, positions := range heads {
			var gone []uint32
			for _, e := range step.Evicted {
				if e.Layer == layer && e.Head == kv {
					gone = append(gone, e.Position)
				}
			}
			if slices.Sort(gone); slices.Equal(gone, positions) {
				continue
			}
			if wrong++; note == "" {
				note = wrongAt(step.Seen, layer, kv, "%v went, want %v", gone, positions)
			}
		}
	}
	return wrong, note
}

// empty is the state of a cache before the first token.
func empty(s *h2o.State) *h2o.State {
	before := &h2o.State{}
	for _, l := range s.Layers {
		layer := h2o.LayerState{}
		for _, h := range l.Heads {
			layer.Heads = append(layer.Heads, h2o.HeadState{Budget: h.Budget})
		}
		before.Layers = append(before.Layers, layer)
	}
	return before
}
