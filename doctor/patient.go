package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/model/gguf"
	"vkdecode/runtime"
	"vkdecode/vk"
)

// patient is a model on a device under a tuning.
type patient struct {
	device *vk.Device
	engine *runtime.Engine
	model  *model.Model
	file   *gguf.File
}

func newPatient(e *runtime.Engine, file *gguf.File) (*patient, error) {
	m, err := model.Load(e, file, nil)
	if err != nil {
		return nil, err
	}
	return &patient{device: e.Device, engine: e, model: m, file: file}, nil
}

func (p *patient) close() { p.model.Close() }

// open opens a session for so many tokens.
func (p *patient) open(ctx context.Context, policy h2o.Spec, budget h2o.Budget, recent float64, types string, chunk, length int) (*model.Session, error) {
	return p.model.NewSession(ctx, model.SessionOptions{Length: length, KV: h2o.Settings{Policy: policy, Budget: budget, RecentRatio: recent, Sinks: -1,
		Prompt: "auto", Type: types, Positions: "auto", Chunk: chunk}})
}

// full opens a session that evicts nothing.
func (p *patient) full(ctx context.Context, types string, chunk, length int) (*model.Session, error) {
	policy, err := h2o.ParseSpec("full")
	if err != nil {
		return nil, err
	}
	budget, err := h2o.ParseBudget("100%")
	if err != nil {
		return nil, err
	}
	return p.open(ctx, policy, budget, 0.5, types, chunk, length)
}

// bounds are what the logits may differ from the reference's, as a normalised squared error, by the type of K and V. Where
// no number is rounded otherwise than in the reference, sums in f32 come to 1e-13. A key or value that falls on the other
// side of a rounding step takes a whole step: one such came to 6e-12 in f16 and 6e-8 in q8_0, and would to 2e-5 in q4_0.
// The bounds leave room for some of them. Keys and values that are not rounded at all are 8e-9, 8e-6 and 2e-3 away, so
// that a cache of another type than it says is found, too.
var bounds = map[string]float64{"f32": 1e-9, "f16": 1e-9, "q8_0": 1e-6, "q4_0": 1e-4}

// logits checks those of the reference's positions, in chunks of so many tokens.
func (p *patient) logits(ctx context.Context, r *reference, types string, chunk int) (finding, error) {
	s, err := p.full(ctx, types, chunk, len(r.IDs))
	if err != nil {
		return finding{}, err
	}
	defer s.Close()
	var got []float32
	if chunk == 1 {
		got, err = p.stops(ctx, s, r)
	} else {
		got, err = p.rows(ctx, s, r)
	}
	return compareLogits(got, r, types), err
}

// mixed checks the same, of a chunk up to the second position, and of tokens one by one after it.
func (p *patient) mixed(ctx context.Context, r *reference, types string) (finding, error) {
	s, err := p.full(ctx, types, referenceChunk, len(r.IDs))
	if err != nil {
		return finding{}, err
	}
	defer s.Close()
	var got []float32
	for i, want := range r.Positions {
		for seen := len(s.Tokens); seen <= want; seen = len(s.Tokens) {
			end := seen + 1
			if i == 1 {
				end = want + 1
			}
			if err := s.Prompt(ctx, r.IDs[seen:end], model.Observer{}, nil); err != nil {
				return finding{}, err
			}
		}
		row, err := s.Logits()
		if err != nil {
			return finding{}, err
		}
		got = append(got, row...)
	}
	return compareLogits(got, r, types), nil
}

// stops gives the logits of the reference's positions, of a prompt that ends at each.
func (p *patient) stops(ctx context.Context, s *model.Session, r *reference) (got []float32, err error) {
	for _, last := range r.Positions {
		if err := s.Prompt(ctx, r.IDs[len(s.Tokens):last+1], model.Observer{}, nil); err != nil {
			return nil, err
		}
		row, err := s.Logits()
		if err != nil {
			return nil, err
		}
		got = append(got, row...)
	}
	return got, nil
}

// rows gives the same out of the logits of all positions.
func (p *patient) rows(ctx context.Context, s *model.Session, r *reference) (got []float32, err error) {
	var all []float32
	err = s.Prompt(ctx, r.IDs, model.Observer{Logits: true, Step: func(step model.Step) error {
		all = append(all, step.Logits...)
		return nil
	}}, nil)
	if vocab := p.model.Vocab; err == nil {
		for _, at := range r.Positions {
			got = append(got, all[at*vocab:(at+1)*vocab]...)
		}
	}
	return got, err
}

func compareLogits(got []float32, r *reference, types string) finding {
	f := finding{what: "NMSE", bound: bounds[types]}
	f.error = nmse(got, r.Logits[types])
	return f
}

// nmse is the squared error of values by the squares of those wanted; NaN where they cannot be compared.
func nmse(got, want []float32) float64 {
	if len(got) != len(want) || len(want) == 0 {
		return math.NaN()
	}
	var wrong, all float64
	for i := range want {
		d := float64(got[i]) - float64(want[i])
		wrong += d * d
		all += float64(want[i]) * float64(want[i])
	}
	return wrong / all
}

// errNothing is a check that found nothing to check, which would pass on every device.
var errNothing = errors.New("doctor: nothing was there to compare")

func wrongAt(seen, layer, head int, format string, args ...any) string {
	return fmt.Sprintf("after %d tokens, layer %d, KV head %d: ", seen, layer, head) + fmt.Sprintf(format, args...)
}
