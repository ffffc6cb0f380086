// Package replay writes and reads logs of evictions, and checks them: the same run on the same device leaves the same log,
// line by line, and at every step a policy's twin on the CPU chooses the same victims from the scores read back.
package replay

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"strings"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/runtime"
	"vkdecode/shaders"
)

// Format is the version of the log. A log is lines of JSON: a Header, an h2o.Eviction for each eviction, in the order in
// which they happened, and an End.
const Format = 1

// The kinds of lines beside evictions, which have none.
const (
	kindHeader = "run"
	kindEnd    = "end"
)

// Header is the first line: all that it takes to do the same again.
type Header struct {
	Kind      string       `json:"kind"`
	Format    int          `json:"format"`
	Version   string       `json:"version"` // of the program
	Model     Model        `json:"model"`
	Device    Device       `json:"device"`
	KV        h2o.Settings `json:"kv"` // as given, like the next four
	Length    int          `json:"length"`
	Context   int          `json:"context"` // 0 = Length
	Longest   int          `json:"longest_prompt"`
	IgnoreEOS bool         `json:"ignore_eos"`
	Session   *Session     `json:"session,omitempty"` // what the run went on from
	Prompt    []int32      `json:"prompt_tokens"`
}

// Model is the one that decoded.
type Model struct {
	Path        string `json:"path"`
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"`
}

// Device is what it decoded on, and in which form of the kernels.
type Device struct {
	Name    string         `json:"name"`
	Driver  string         `json:"driver"`
	Form    string         `json:"form"`    // of the kernels
	Tuning  runtime.Tuning `json:"tuning"`  // how they were launched
	Kernels string         `json:"kernels"` // fingerprint of their code

	Measured string `json:"measured,omitempty"` // runtime.Engine.Otherwise
}

// Session is a saved session that a run began with.
type Session struct {
	Tokens int    `json:"tokens"`
	SHA256 string `json:"sha256"` // model.Session.Origin
}

// End is the last line.
type End struct {
	Kind      string           `json:"kind"`
	Tokens    []int32          `json:"tokens"` // decoded; the last one was not processed
	Seen      int              `json:"seen"`   // tokens processed, those of a session that was loaded included
	Evictions int              `json:"evictions"`
	Stop      model.StopReason `json:"stop_reason"`
}

// DeviceOf describes an engine.
func DeviceOf(e *runtime.Engine) Device {
	info := e.Device.Info
	return Device{info.Name, info.Driver, e.Tuning.Form.String(), e.Tuning, shaders.Fingerprint(), strings.Join(e.Otherwise(), "; ")}
}

// differences are the reasons why bits need not be the same on two devices.
func (d Device) differences(here Device) (all []string) {
	a, b := reflect.ValueOf(d), reflect.ValueOf(here)
	for i := range a.NumField() {
		if there, own := a.Field(i).Interface(), b.Field(i).Interface(); there != own {
			name := strings.ToLower(a.Type().Field(i).Name)
			all = append(all, fmt.Sprintf("%s: %+v in the log, %+v here", name, there, own))
		}
	}
	return all
}

// HeaderOf describes a run that is about to begin in a session.
func HeaderOf(s *model.Session, m *model.Model, e *runtime.Engine, path, version string, prompt []int32) Header {
	o := s.Options()
	h := Header{
		Version: version, Model: Model{path, m.Name, m.Fingerprint}, Device: DeviceOf(e),
		KV: o.KV, Length: o.Length, Context: o.Context, Longest: o.Prompt, IgnoreEOS: !o.Ends, Prompt: prompt,
	}
	if s.Origin != "" {
		h.Session = &Session{len(s.Tokens), s.Origin}
	}
	return h
}

// Options are what a session has to be opened with to do the same.
func (h *Header) Options() model.SessionOptions {
	return model.SessionOptions{KV: h.KV, Length: h.Length, Context: h.Context, Prompt: h.Longest, Ends: !h.IgnoreEOS}
}

// check refuses what no run has written.
func (h *Header) check() error {
	switch {
	case h.Kind != kindHeader:
		return fmt.Errorf("its first line is of kind %q, want %q", h.Kind, kindHeader)
	case h.Format != Format:
		return fmt.Errorf("format %d, want %d", h.Format, Format)
	case h.Length < 1 || h.Length > math.MaxInt32 || h.Context < 0 || h.Context > math.MaxInt32 || h.Longest < 0 || h.Longest > h.Length:
		return fmt.Errorf("a length of %d tokens, a context of %d, prompts of %d", h.Length, h.Context, h.Longest)
	case h.Session != nil && (h.Session.Tokens < 1 || h.Session.Tokens > h.Length):
		return fmt.Errorf("a session of %d tokens, of %d", h.Session.Tokens, h.Length)
	case len(h.Prompt) == 0 && h.Session == nil:
		return fmt.Errorf("no prompt")
	}
	return nil
}

// base is the number of tokens before the prompt.
func (h *Header) base() int {
	if h.Session == nil {
		return 0
	}
	return h.Session.Tokens
}

// Writer writes a log.
type Writer struct {
	lines     *json.Encoder
	evictions int
}

// NewWriter begins a log with its header.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	l := &Writer{lines: json.NewEncoder(w)}
	h.Kind, h.Format = kindHeader, Format
	return l, l.lines.Encode(h)
}

// Write adds the evictions of a step, of a text with these tokens.
func (l *Writer) Write(evicted []h2o.Eviction, tokens []int32) error {
	for _, e := range evicted {
		e.Token = tokens[e.Position]
		if err := l.lines.Encode(e); err != nil {
			return err
		}
		l.evictions++
	}
	return nil
}

// End completes the log of a run that decoded tokens and processed so many.
func (l *Writer) End(tokens []int32, seen int, stop model.StopReason) error {
	return l.lines.Encode(End{kindEnd, tokens, seen, l.evictions, stop})
}

// Log is a log that was read.
type Log struct {
	Path   string
	Header Header
	End    End
	file   *os.File
}
