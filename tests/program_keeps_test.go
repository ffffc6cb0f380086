package tests

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/model/builtin"
	"vkdecode/model/gguf"
	"vkdecode/replay"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// programModels are those that programs run on: the one inside the program, and random ones with numbers of KV heads that
// differ from layer to layer, with three query heads to a KV head, and with heads that are rotated in part. Where drivers
// compile slowly the first two will do.
var programModels = []string{"builtin", "layers-kv-ffn", "group3-q8_0", "partial"}

// subject is a model on a device, and in float64.
type subject struct {
	m *model.Model
	w *twin
}

func subjectsOn(t *testing.T, d *vk.Device) (subjects map[string]subject, shapes map[string]h2o.Geometry) {
	t.Helper()
	subjects, shapes = map[string]subject{}, map[string]h2o.Geometry{}
	names := programModels
	if slow(d) {
		names = names[:2]
	}
	for _, name := range names {
		f, err := gguf.Parse(builtin.Model)
		if name != "builtin" {
			f, err = gguf.Open("testdata/llama/" + name + ".gguf")
		}
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m, err := model.Load(engineOf(d).Engine, f, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		s := subject{m, newTwinOf(t, m.Config, f)}
		ids := operation{tokens: 20}.ids(m.Vocab)
		session, err := m.NewSession(t.Context(), model.SessionOptions{KV: fullKV(16), Length: len(ids)})
		if err != nil {
			t.Fatal(err)
		}
		got := promptLogits(t, session, ids)
		session.Close()
		if e := nmse(got, s.w.logits(s.w.process(ids))); !(e <= errorF32) {
			t.Fatalf("%s: the twin is another model, NMSE %.1e", name, e)
		}
		subjects[name], shapes[name] = s, m.Geometry()
	}
	return subjects, shapes
}

// keeps tells what is wrong with a program, run twice: as it is, and plainly.
func (s subject) keeps(ctx context.Context, p program) error {
	whole, err := p.run(ctx, s.m, false, nil)
	if err != nil {
		return err
	}
	plain, err := p.run(ctx, s.m, true, nil)
	if err != nil {
		return err
	}
	if err := whole.difference(plain); err != nil {
		return err
	}
	return p.check(s.w, whole)
}

// drawing sets how many programs are drawn, and from which seed, where the command line does not: -rapid.checks and
// -rapid.seed.
func drawing(t *testing.T, checks string) {
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": checks, "rapid.seed": "1", "rapid.nofailfile": "true"} {
		if given[name] {
			continue
		}
		before := flag.Lookup(name).Value.String()
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { flag.Set(name, before) })
	}
}

// Whatever is done with a session, under whatever settings: those go whom the policy's rule says, by the scores that the same
// model in float64 gives; no slot is used that was not planned; what is protected stays; and saving and restoring, taking
// back and resetting change nothing, bit for bit. A program that fails is printed in its shortest form, with the seed.
func TestProgramsKeepTheirPromises(t *testing.T) {
	drawing(t, "20")
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		subjects, shapes := subjectsOn(t, d)
		rapid.Check(t, func(r *rapid.T) {
			p := drawProgram(r, shapes)
			if err := subjects[p.model].keeps(t.Context(), p); err != nil {
				r.Fatalf("%v\n%v", p, err)
			}
		})
	})
}

// Every option of every policy is drawn.
func TestProgramsDrawEveryOption(t *testing.T) {
	for _, policy := range h2o.Policies {
		for _, o := range policy.Parameters {
			if len(optionValues[o.Key]) < 2 {
				t.Errorf("option %s of %s has %q", o.Key, policy.Name, optionValues[o.Key])
			}
		}
	}
}

// programFault is what the checks of programs must find. It changes a trace, or what is saved, and tells whether it could.
type programFault struct {
	name   string
	trace  func(out trace) bool
	tamper func(s *model.Session, file []byte) ([]byte, bool)
}

// in runs a program with the fault in it, if that is possible, and tells what was found.
func (f programFault) in(ctx context.Context, p program, s subject) (changed bool, found error) {
	if f.tamper == nil {
		whole, err := p.run(ctx, s.m, false, nil)
		if err != nil || !f.trace(whole) {
			return false, err
		}
		return true, p.check(s.w, whole)
	}
	if !slices.ContainsFunc(p.steps, func(o operation) bool { return o.kind == restores }) {
		return false, nil
	}
	whole, err := p.run(ctx, s.m, false, func(s *model.Session, file []byte) []byte {
		file, ok := f.tamper(s, file)
		changed = changed || ok
		return file
	})
	if err != nil || !changed {
		return changed, err
	}
	plain, err := p.run(ctx, s.m, true, nil)
	if err != nil {
		return false, err
	}
	return true, whole.difference(plain)
}

var programFaults = []programFault{
	{name: "a rule that protects one token more", trace: func(out trace) (changed bool) {
		for _, h := range out.histories {
			plan := *h.plan
			plan.Sinks++
			for _, s := range h.steps {
				changed = changed || slices.ContainsFunc(s.Evicted, func(e h2o.Eviction) bool { return int(e.Position) == h.plan.Sinks })
			}
			h.plan = &plan
		}
		return changed
	}},
	{name: "an eviction that is skipped", trace: func(out trace) bool {
		for _, h := range out.histories {
			for i, s := range h.steps {
				if len(s.Evicted) > 0 {
					h.steps[i] = skipped(s)
					return true
				}
			}
		}
		return false
	}},
	{name: "a position that is altered between saving and restoring", tamper: otherPosition},
}

// skipped is a step without its first eviction.
func skipped(s historyStep) historyStep {
	gone := s.Evicted[0]
	state := &h2o.State{}
	for layer, l := range s.State.Layers {
		heads := slices.Clone(l.Heads)
		if layer == gone.Layer {
			h := &heads[gone.Head]
			at, _ := slices.BinarySearch(h.Positions, gone.Position)
			h.Positions, h.Scores = slices.Insert(slices.Clone(h.Positions), at, gone.Position), slices.Insert(slices.Clone(h.Scores), at, gone.Score)
			h.Evicted--
		}
		state.Layers = append(state.Layers, h2o.LayerState{Heads: heads})
	}
	s.Step = replay.Step{Seen: s.Seen, Prompt: s.Prompt, Last: s.Last, State: state, Evicted: s.Evicted[1:]}
	return s
}

// otherPosition gives the first slot of the first KV head of a saved session the position of a token that was evicted, if
// there is one.
func otherPosition(s *model.Session, file []byte) (altered []byte, ok bool) {
	state, err := s.Cache().State(0)
	logits, failed := s.Logits()
	if err != nil || failed != nil {
		return file, false
	}
	live := state.Layers[0].Heads[0].Positions
	for pos := range uint32(len(s.Tokens)) {
		if !slices.Contains(live, pos) {
			const preamble, head = 16, 12 // bytes: before the header; live, evicted, budget
			altered = slices.Clone(file[:len(file)-sha256.Size])
			at := preamble + int(binary.LittleEndian.Uint32(file[12:])) + 4*len(s.Tokens) + 4*len(logits) + head
			binary.LittleEndian.PutUint32(altered[at:], pos)
			sum := sha256.Sum256(altered)
			return append(altered, sum[:]...), true
		}
	}
	return file, false
}

// The checks are made on the host: one driver shows that they can fail.
func TestProgramsFindFaults(t *testing.T) {
	subjects, shapes := subjectsOn(t, drivers.Open(t, drivers.Names()[0], true))
	programs := rapid.Custom(func(r *rapid.T) program { return drawProgram(r, shapes) })
	for _, fault := range programFaults {
		t.Run(fault.name, func(t *testing.T) {
			for tried, seed := 0, 1; tried < 3; seed++ {
				if seed == 200 {
					t.Fatalf("only %d programs of %d can have the fault", tried, seed)
				}
				p := programs.Example(seed)
				changed, err := fault.in(t.Context(), p, subjects[p.model])
				if !changed {
					continue
				}
				if tried++; err == nil {
					t.Errorf("not found in %v", p)
				}
			}
		})
	}
}
