package model

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"vkdecode/h2o"
	"vkdecode/runtime"
	"vkdecode/vk"
)

// outRows is how many rows of logits are computed at once; more are wanted only when every position's are.
const outRows = 16

// ringSteps is the number of decode steps whose tokens the device keeps for the host.
const ringSteps = 64

// inFlight is the number of submits of decode steps that are under way, that one counted which the host waits for.
const inFlight = 2

// SessionOptions are what a session is opened with.
type SessionOptions struct {
	KV      h2o.Settings
	Length  int  // tokens it can process, prompt and new ones
	Context int  // tokens that a budget in percent is of, 0 = Length
	Prompt  int  // tokens of the longest prompt, 0 = Length; a chunk is never longer
	Ends    bool // decoding stops at the model's end tokens

	Likelihood bool     // Session.Likelihood can be called
	Full       *Session // opened for likelihoods with the same chunk, closed later: what Likelihood compares with, nil = nothing
}

// Session is one sequence being decoded: its cache, its position and the recorded programs.
type Session struct {
	Tokens  []int32 // processed so far
	Pending int32   // the token that Generate sampled last and did not process, NoToken = none: with it a next prompt begins
	Origin  string  // the SHA-256, in hexadecimal, of the saved session that this one was restored from; empty if from none

	activations
	arena  *runtime.Arena
	cache  *h2o.Cache
	chunk  int
	opened SessionOptions

	tokens, ring, endList *runtime.Tensor
	control               *runtime.Step
	decode                *runtime.Program // a step of one row
	prompt                prompter
	sampler               *runtime.Sampler
	head, headAll, sample *runtime.Program // logits of one row, of outRows rows; the next token and step
	ends                  []int32          // tokens that end a generation
	lastRow               int              // of logits: the last token processed
	longest               int              // tokens of the longest prompt so far
	pace                  pace
	likely                *likelihood // nil unless asked for
}

// SessionPlan is a session that is known to be possible and takes no memory yet.
type SessionPlan struct {
	*h2o.Plan
	model   *Model
	options SessionOptions
}

// PlanSession plans a session. An error is about the options.
func (m *Model) PlanSession(o SessionOptions) (*SessionPlan, error) {
	if o.Prompt <= 0 || o.Prompt > o.Length {
		o.Prompt = o.Length
	}
	plan, err := h2o.NewPlan(o.KV, m.Geometry(), o.Context, o.Length, o.Prompt)
	return &SessionPlan{plan, m, o}, err
}

// NewSession plans and opens a session.
func (m *Model) NewSession(ctx context.Context, o SessionOptions) (*Session, error) {
	p, err := m.PlanSession(o)
	if err != nil {
		return nil, err
	}
	return p.Open(ctx)
}

// Open allocates and records the session. Its programs are compiled here, so that decoding is only work. It stops between
// tensors and between pipelines when ctx ends.
func (p *SessionPlan) Open(ctx context.Context) (_ *Session, err error) {
	m, o, e := p.model, p.options, p.model.engine
	s := &Session{arena: &runtime.Arena{}, chunk: p.Chunk, opened: o}
	if s.cache, err = h2o.NewCache(e, s.arena, m.Geometry(), p.Plan, 1, s.chunk); err != nil {
		return nil, err
	}
	s.plan(m, o)
	if err := s.arena.Allocate(ctx, e.Device); err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, o); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// plan names the tensors beside the cache.
func (s *Session) plan(m *Model, o SessionOptions) {
	s.activations = m.planActivations(s.arena, m.arch.widths(), max(s.chunk, outRows), outRows)
	s.planChains(s.arena, s.cache)
	s.tokens = s.arena.Tensor("step.tokens", 4*outRows)
	s.ring = s.arena.Tensor("step.ring", 4*ringSteps)
	s.ring.Use = vk.Readback
	s.endList = s.arena.Tensor("step.ends", int64(4*(1+len(s.model.ends))))
	s.rope = s.arena.Tensor("rope.table", int64(4*o.Length*s.model.RopeDim))
	s.sampler = runtime.PlanSampler(s.model.engine, s.arena, 1, s.model.Vocab, o.Length)
	s.planPrompts(o.Prompt)
	if o.Likelihood {
		s.planLikelihood(o)
	}
}

// prepare fills the constant tensors and records the programs.
func (s *Session) prepare(ctx context.Context, o SessionOptions) error {
	e := s.model.engine
	s.control = runtime.NewStep(e.Device, s.step)
	if err := writeFloats(e.Device, s.rope, s.model.ropeTable(o.Length)); err != nil {
		return err
	}
	if o.Ends {
		s.ends = s.model.ends
	}
	ends := []uint32{uint32(len(s.ends))}
	for _, id := range s.ends {
		ends = append(ends, uint32(id))
	}
	if err := e.Device.Write(s.endList.Slice(0, int64(4*len(ends))), wordBytes(ends)); err != nil {
		return err
	}
	if s.chains != nil {
		if err := s.writeTable(); err != nil {
			return err
		}
	}
	s.decode = s.body("decode", 1, func(p *runtime.Program, layer, rows int, x h2o.Activations) *h2o.Parts {
		return s.cache.Decode(p, s.step, layer, rows, true, x)
	})
	if err := s.decode.Record(ctx); err != nil {
		return err
	}
	if err := s.preparePrompts(ctx); err != nil {
		return err
	}
	s.head = e.NewProgram("head")
	s.model.arch.logits(s.head, &s.activations, 1)
	s.sample = e.NewProgram("sample")
	s.sample.Shows = true // the ring
	s.sampler.Record(s.sample, s.step, s.logits.Range, s.tokens, s.endList, s.ring, s.logitsStride, ringSteps)
	if err := s.head.Record(ctx); err != nil {
		return err
	}
	if err := s.sample.Record(ctx); err != nil {
		return err
	}
	if s.likely != nil {
		if err := s.recordLikelihood(ctx); err != nil {
			return err
		}
	}
	return s.warm()
}

// programs are those that every session has, in the order of their first use.
func (s *Session) programs() []*runtime.Program {
	all := append(s.prompt.programs(s.decode), s.decode, s.head, s.sample)
	if s.likely != nil {
		all = append(all, s.headAll, s.likely.rows, s.likely.step)
	}
	return all
}

// warm runs every program on a step without rows, so that drivers that compile at the first launch have done so, and
// leaves the session empty.
func (s *Session) warm() error {
	if err := s.control.Write(nil, nil, 0); err != nil {
		return err
	}
	if err := s.model.engine.Run(runtime.Idle, s.programs()...); err != nil {
		return err
	}
	return s.Reset()
}

// Options are what the session was opened with.
func (s *Session) Options() SessionOptions { return s.opened }

// Plan is what the cache's settings came to.
func (s *Session) Plan() *h2o.Plan { return s.cache.Plan }

// Cache gives reports access to what the cache holds. No step may be running.
func (s *Session) Cache() *h2o.Cache { return s.cache }

// Held is the memory that K and V take on the device.
func (s *Session) Held() int64 { return s.model.engine.Device.HeldBy("kv.") }

// Memory is the device memory of the session by class of tensor.
func (s *Session) Memory() *runtime.Arena { return s.arena }

// Times is what each kernel took in the last decode step. It needs an engine with Debug >= 2.
func (s *Session) Times() (times []runtime.KernelTime, err error) {
	return timesOf(s.decode, s.head, s.sample)
}

func timesOf(programs ...*runtime.Program) (times []runtime.KernelTime, err error) {
	for _, p := range programs {
		if times, err = p.Times(times); err != nil {
			return nil, err
		}
	}
	return times, nil
}

// PrintGraph writes the recorded programs, one line per dispatch.
func (s *Session) PrintGraph(w io.Writer) {
	for _, p := range s.programs() {
		fmt.Fprintf(w, "program %s\n", p.Name)
		p.Print(w)
	}
}

// Reset empties the session: the next prompt starts at position 0.
func (s *Session) Reset() error {
	s.Tokens, s.Pending, s.longest, s.prompt.broken = s.Tokens[:0], NoToken, 0, false
	s.Origin = ""
	return s.cache.Reset()
}

// Close frees the session's memory and programs.
func (s *Session) Close() {
	s.model.engine.Device.WaitIdle()
	if s.likely != nil {
		s.likely.free()
	}
	for _, p := range append(s.prompt.programs(s.decode), s.decode, s.head, s.headAll, s.sample) {
		if p != nil {
			p.Free()
		}
	}
	s.arena.Free()
}

// Step is what an observer sees after each step: the tokens processed so far, and the logits of the rows that were
// asked for (valid during the call).
type Step struct {
	Seen   int
	Logits []float32 // (rows of the step, vocab), nil unless asked for

	Evicted []h2o.Eviction // nil unless asked for; a prompt that is cut once tells with its last chunk
}

// Observer is called after each step that the host waits for, nil for none. Decoding with one waits for every step.
type Observer struct {
	Logits    bool // wants the logits of every row
	Evictions bool // wants to know who was evicted
	Step      func(Step) error
}

// check refuses tokens that the session cannot process, of which so many are added before anything is evicted.
func (s *Session) check(tokens []int32, added int) error {
	if err := s.checkIDs(tokens); err != nil {
		return err
	}
	if s.prompt.broken {
		return errBroken
	}
	if have := s.cache.Plan.Length; len(s.Tokens)+len(tokens) > have {
		return fmt.Errorf("model: %d tokens are more than the %d the session was opened for", len(s.Tokens)+len(tokens), have)
	}
	if plan := s.cache.Plan; plan.Policy.Every == 0 && plan.Evicts() { // otherwise there is always room for the next one
		room, err := s.cache.Room(0)
		if err != nil {
			return err
		}
		if added > room {
			return fmt.Errorf("model: %d tokens, and there is room for %d until a prompt is cut: the session, of %d tokens, was opened for a prompt of %d", added, room, plan.Length, s.opened.Prompt)
		}
	}
	return nil
}

func (s *Session) checkIDs(tokens []int32) error {
	for _, t := range tokens {
		if t < 0 || int(t) >= s.model.Vocab {
			return fmt.Errorf("model: token id %d, want 0 to %d", t, s.model.Vocab-1)
		}
	}
	return nil
}

// run runs programs that have all their rows to do, and waits for them.
func (s *Session) run(programs ...*runtime.Program) error {
	return s.model.engine.Run(runtime.Full, programs...)
}

// runRows runs a program of a chunk on so many rows.
func (s *Session) runRows(p *runtime.Program, rows int) error {
	load := runtime.Full
	if rows < s.chunk && p != s.prompt.row {
		load = runtime.Part
	}
	return s.model.engine.Run(load, p)
}

// logitsOf computes the logits of all rows of the step just run.
func (s *Session) logitsOf(rows []runtime.Row) ([]float32, error) {
	if err := s.recordHeads(context.Background()); err != nil {
		return nil, err
	}
	all := make([]float32, 0, len(rows)*s.model.Vocab)
	for first := 0; first < len(rows); first += outRows {
		outs := make([]int, min(outRows, len(rows)-first))
		for i := range outs {
			outs[i] = first + i
		}
		if err := s.control.Write(rows, outs, 0); err != nil {
			return nil, err
		}
		if err := s.run(s.headAll); err != nil {
			return nil, err
		}
		s.lastRow = len(outs) - 1
		for i := range outs {
			var err error
			if all, err = s.readLogits(all, i); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// recordHeads makes the program for the logits of outRows rows, once.
func (s *Session) recordHeads(ctx context.Context) error {
	if s.headAll != nil {
		return nil
	}
	s.headAll = s.model.engine.NewProgram("heads")
	s.model.arch.logits(s.headAll, &s.activations, outRows)
	return s.headAll.Record(ctx)
}

// Logits reads the logits (vocab) of the last token processed.
func (s *Session) Logits() ([]float32, error) { return s.readLogits(nil, s.lastRow) }

func wordBytes(words []uint32) []byte {
	b := make([]byte, 0, 4*len(words))
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}
