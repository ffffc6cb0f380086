package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"vkdecode/h2o"
	"vkdecode/model"
)

// sessionFlags name the files in which a session outlives the program.
type sessionFlags struct{ save, load string }

func (f *sessionFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.save, "save-session", "", "write the session to `FILE` at the end, to go on from there with --load-session")
	flags.StringVar(&f.load, "load-session", "", "go on from the session in `FILE`, with its settings; without a prompt, with the text where it ended")
}

// loadedSession is a file that a session is to go on from.
type loadedSession struct {
	*model.SavedSession
	path string
	file *os.File
}

// open opens the file of --load-session; nil without one.
func (f *sessionFlags) open() (*loadedSession, error) {
	if f.load == "" {
		return nil, nil
	}
	file, err := os.Open(f.load)
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	l := &loadedSession{path: f.load, file: file}
	if l.SavedSession, err = model.ReadSaved(file); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("session: %s: %w", f.load, err), file.Close())
	}
	return l, nil
}

func (l *loadedSession) close() {
	if l != nil {
		l.file.Close() // was only read
	}
}

// restore puts the session where it was saved.
func (l *loadedSession) restore(s *model.Session) error {
	if err := s.Restore(l.file); err != nil {
		return fmt.Errorf("session: %s: %w", l.path, err)
	}
	return nil
}

// adopt takes the settings of the cache from the session, but for those that flags give. What these change is refused
// later, when the session is restored, with a reason.
func (c *configuration) adopt(cmd *cobra.Command, l *loadedSession) {
	kv, own := l.KV, &c.KV
	for flag, take := range map[string]func(){
		"kv":             func() { own.Policies = []h2o.Spec{kv.Policy} },
		"prefill-policy": func() { own.Prefiller = kv.Prefill },
		"prefill":        func() { own.Prefill = kv.Prompt },
		"budget":         func() { own.Budget, own.Budgets = kv.Budget, []h2o.Budget{kv.Budget} },
		"kv-layers":      func() { own.Layers = kv.Layers },
		"recent-ratio":   func() { own.RecentRatio = kv.RecentRatio },
		"sinks":          func() { own.Sinks = kv.Sinks },
		"kv-type":        func() { own.Type = kv.Type },
		"positions":      func() { own.Positions = kv.Positions },
		"chunk":          func() { own.Chunk = kv.Chunk },
		"ctx":            func() { own.Context = l.context() },
	} {
		if !cmd.Flags().Changed(flag) {
			take()
		}
	}
}

// context is what a share of the context was of. Where nothing depends on it, it is as it was given.
func (l *loadedSession) context() int {
	policy, err := h2o.Find(l.KV.Policy)
	if l.Context == 0 && err == nil && policy.Evicts && l.KV.Relative() {
		return l.Length
	}
	return l.Context
}

// options are what a session for a prompt and new tokens is opened with. One that is saved or was loaded is opened for the
// whole context, so that the next turn finds the same settings; none is shorter than it was.
func (f *sessionFlags) options(c *configuration, kv h2o.Settings, from *loadedSession, prompt, tokens int) model.SessionOptions {
	o := model.SessionOptions{KV: kv, Context: c.KV.Context, Prompt: prompt}
	o.Length = prompt + max(tokens-1, 0) // the last new token is not processed, so it needs no slot
	if from != nil {
		if prompt == 0 && from.Pending != model.NoToken && tokens > 0 {
			o.Length++ // the pending token is processed
		}
		o.Length = max(o.Length+from.Tokens, from.Length)
		o.Prompt = max(prompt, from.Prompt)
	}
	if from != nil || f.save != "" {
		o.Length = max(o.Length, o.Context)
	}
	return o
}
