package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"vkdecode/h2o"
	"vkdecode/model"
)

// Result is what a replay found.
type Result struct {
	Log       string `json:"log"`
	Model     string `json:"model"`
	Device    string `json:"device"`
	Driver    string `json:"driver"`
	Tokens    int    `json:"tokens"` // processed by the replay
	Evictions struct {
		Log  int `json:"log"`
		Here int `json:"here"`
	} `json:"evictions"`

	NotComparable []string    `json:"not_comparable,omitempty"` // why bits need not be the same
	Difference    *Difference `json:"difference"`               // the first one of lines that have to be the same
	Sets          *Sets       `json:"sets,omitempty"`           // where they need not be
	Choices       Choices     `json:"choices"`
	Holds         bool        `json:"holds"`
}

// Difference is a line of the log and what stands there in the replay's own; empty where one has ended.
type Difference struct {
	Line int    `json:"line"`
	Log  string `json:"log"`
	Here string `json:"here"`
}

// Sets compares who went, whenever that was.
type Sets struct {
	Both      int `json:"both"`       // (layer, head, position) evicted in both
	OtherStep int `json:"other_step"` // of these, at another step
	OnlyLog   int `json:"only_log"`
	OnlyHere  int `json:"only_here"`
}

// Choices are the evictions of the replay, by the twin's judgement.
type Choices struct {
	Checked   int     `json:"checked"`   // by the twin
	Unchecked int     `json:"unchecked"` // scores are gone that the choice was made by
	Wrong     int     `json:"wrong"`     // heads of steps in which others should have gone
	First     *Choice `json:"first"`     // of the wrong ones
}

// replayer goes through a run again.
type replayer struct {
	log     *Log
	session *model.Session
	twin    *Twin
	result  *Result
	lines   *lines               // of the log
	ended   bool                 // the log has no evictions any more
	steps   map[[3]uint32][2]int // (layer, head, position): steps in the log and here; nil where lines have to be the same
	buffer  bytes.Buffer
	own     *Writer // into buffer
}

// Run does in a session what the log says was done, and compares. The session was opened with Header.Options and stands
// where the run began. progress, if not nil, is called with the tokens done.
func Run(ctx context.Context, l *Log, s *model.Session, here Device, progress func(done int)) (*Result, error) {
	r := &replayer{log: l, session: s, result: &Result{Log: l.Path, Model: l.Header.Model.Path, Device: here.Name, Driver: here.Driver}}
	if r.result.NotComparable = l.Header.Device.differences(here); r.result.NotComparable != nil {
		r.steps = map[[3]uint32][2]int{}
	}
	state, err := s.Cache().State(0)
	if err != nil {
		return nil, err
	}
	r.twin = NewTwin(s.Plan(), state, len(s.Tokens))
	if r.lines, err = l.evictions(); err != nil {
		return nil, err
	}
	r.own = &Writer{lines: json.NewEncoder(&r.buffer)}
	if err := r.run(ctx, progress); err != nil {
		return nil, err
	}
	return r.result, r.finish()
}

// errEnough stops a prompt where the run was interrupted.
var errEnough = errors.New("replay: the run was interrupted here")

// run processes the tokens.
func (r *replayer) run(ctx context.Context, progress func(int)) error {
	h, end, s := &r.log.Header, &r.log.End, r.session
	promptEnd := len(s.Tokens) + len(h.Prompt)
	observe := func(prompt bool) model.Observer {
		return model.Observer{Evictions: true, Step: func(step model.Step) error {
			if progress != nil {
				progress(step.Seen)
			}
			if prompt && s.Plan().Exact && step.Seen < promptEnd {
				return nil // it was cut once, which its last chunk tells
			}
			if err := r.step(step, prompt, step.Seen == promptEnd); err != nil {
				return err
			}
			if prompt && step.Seen >= end.Seen && step.Seen < promptEnd {
				return errEnough
			}
			return nil
		}}
	}
	if len(h.Prompt) > 0 && end.Seen > len(s.Tokens) {
		if err := s.Prompt(ctx, h.Prompt, observe(true), nil); err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	if len(end.Tokens) == 0 || end.Seen < promptEnd {
		return nil
	}
	_, err := s.Generate(ctx, model.Generation{Tokens: len(end.Tokens), Given: end.Tokens, Observer: observe(false),
		Continue: len(h.Prompt) == 0, Emit: func(int32) error { return nil }})
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// step compares what a step evicted.
func (r *replayer) step(step model.Step, prompt, last bool) error {
	state, err := r.session.Cache().State(0)
	if err != nil {
		return err
	}
	r.twin.Step(Step{Seen: step.Seen, Prompt: prompt, Last: prompt && last, State: state, Evicted: step.Evicted})
	r.buffer.Reset()
	if err := r.own.Write(step.Evicted, r.session.Tokens); err != nil {
		return err
	}
	for _, e := range step.Evicted {
		line, err := r.buffer.ReadBytes('\n')
		if err != nil {
			return err
		}
		if err := r.compare(line[:len(line)-1], e); err != nil {
			return err
		}
	}
	return nil
}

// compare takes the next line of the log for that of an eviction, which may be nil: then there is none here.
func (r *replayer) compare(line []byte, here h2o.Eviction) error {
	if r.result.Difference != nil {
		return nil
	}
	var there []byte
	if !r.ended {
		var e h2o.Eviction
		var err error
		if there, e, err = r.lines.eviction(); errors.Is(err, io.EOF) {
			r.ended = true
		} else if err != nil {
			return err
		} else {
			r.result.Evictions.Log++
			r.note(e, 0)
		}
	}
	if line != nil {
		r.note(here, 1)
	}
	if r.steps == nil && !bytes.Equal(there, line) {
		if there == nil {
			there = r.lines.held // what stands there is no eviction
		}
		r.result.Difference = &Difference{Line: r.lines.number, Log: string(there), Here: string(line)}
	}
	return nil
}

// note remembers an eviction of the log (0) or of the replay (1).
func (r *replayer) note(e h2o.Eviction, side int) {
	if r.steps == nil {
		return
	}
	key := [3]uint32{uint32(e.Layer), uint32(e.Head), e.Position}
	steps := r.steps[key]
	steps[side] = e.Step
	r.steps[key] = steps
}

// finish reads what is left of the log and sums up.
func (r *replayer) finish() error {
	for !r.ended && r.result.Difference == nil {
		if err := r.compare(nil, h2o.Eviction{}); err != nil {
			return err
		}
	}
	out, end := r.result, &r.log.End
	out.Tokens, out.Evictions.Here = len(r.session.Tokens), r.own.evictions
	if r.steps == nil && out.Difference == nil {
		if err := r.compareEnd(); err != nil {
			return err
		}
	}
	if r.steps != nil && out.Evictions.Log != end.Evictions {
		return fmt.Errorf("line %d is no eviction, and there are %d before; the end tells of %d", r.lines.number, out.Evictions.Log, end.Evictions)
	}
	out.Evictions.Log = end.Evictions
	if r.steps != nil {
		out.Sets = &Sets{}
		for _, s := range r.steps {
			switch {
			case s[0] == 0:
				out.Sets.OnlyHere++
			case s[1] == 0:
				out.Sets.OnlyLog++
			default:
				out.Sets.Both++
				if s[0] != s[1] {
					out.Sets.OtherStep++
				}
			}
		}
	}
	t := r.twin
	out.Choices = Choices{t.Checked, t.Unchecked, t.Wrong, t.First}
	out.Holds = out.Difference == nil && t.Wrong == 0
	return nil
}

// compareEnd compares the last line with what the replay would write, and that it is the next one.
func (r *replayer) compareEnd() error {
	line, err := r.lines.next()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	there := string(line)
	r.buffer.Reset()
	if err := r.own.End(r.log.End.Tokens, len(r.session.Tokens), r.log.End.Stop); err != nil {
		return err
	}
	if here := string(bytes.TrimSuffix(r.buffer.Bytes(), []byte("\n"))); there != here {
		r.result.Difference = &Difference{r.lines.number, there, here}
		return nil
	}
	if line, err := r.lines.next(); !errors.Is(err, io.EOF) {
		r.result.Difference = &Difference{r.lines.number, string(line), ""}
	}
	return nil
}
