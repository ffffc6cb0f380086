package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"vkdecode/model"
	"vkdecode/replay"
)

// recordFlags name the files that a run writes.
type recordFlags struct{ evictLog, kvState, logits string }

func (f *recordFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.evictLog, "evict-log", "", "write every eviction to `FILE`, one JSON object per line, for people and for \"vkdecode replay\"")
	flags.StringVar(&f.kvState, "kv-state", "", "write the positions and scores of the live slots to `FILE` as JSON")
	flags.StringVar(&f.logits, "logits", "", "write the logits of every processed token to `FILE.npy`")
}

// records are the files of a run. An interrupted one completes them with what there is: the lines and rows of the
// tokens processed. After a failure the eviction log stays as far as it came, the others do not appear.
type records struct {
	session *model.Session
	log     *os.File
	lines   *bufio.Writer  // of log
	evicted *replay.Writer // into lines
	logits  *npyWriter
	state   *partialFile
	saved   *partialFile // the session
	cut     bool         // the prompt was interrupted: there is no session to go on from
}

// create opens the files before the work begins: a wrong name is told at once. save is where the session goes, if that is
// wanted, and h describes the run.
func (f *recordFlags) create(s *model.Session, vocab int, save string, h replay.Header) (_ *records, err error) {
	r := &records{session: s}
	defer func() {
		if err != nil {
			r.discard()
		}
	}()
	if f.kvState != "" {
		if r.state, err = createPartial(f.kvState); err != nil {
			return nil, fmt.Errorf("kv state: %w", err)
		}
	}
	if save != "" {
		if r.saved, err = createPartial(save); err != nil {
			return nil, fmt.Errorf("session: %w", err)
		}
	}
	if f.logits != "" {
		if r.logits, err = createNPY(f.logits, vocab); err != nil {
			return nil, err
		}
	}
	if f.evictLog != "" {
		if r.log, err = os.Create(f.evictLog); err != nil {
			return nil, fmt.Errorf("eviction log: %w", err)
		}
		r.lines = bufio.NewWriterSize(r.log, logBuffer)
		if r.evicted, err = replay.NewWriter(r.lines, h); err != nil {
			return nil, fmt.Errorf("eviction log: %w", err)
		}
	}
	return r, nil
}

// logBuffer is how much of an eviction log waits to be written, in bytes: some steps of a large model.
const logBuffer = 8 << 10

// observer is what the session must report for the files; empty if there are none.
func (r *records) observer() model.Observer {
	if r.log == nil && r.logits == nil {
		return model.Observer{}
	}
	return model.Observer{Logits: r.logits != nil, Evictions: r.log != nil, Step: r.step}
}

func (r *records) step(s model.Step) error {
	if r.logits != nil {
		if err := r.logits.Write(s.Logits); err != nil {
			return err
		}
	}
	if r.log == nil {
		return nil
	}
	if err := r.evicted.Write(s.Evicted, r.session.Tokens); err != nil {
		return fmt.Errorf("eviction log: %w", err)
	}
	return nil
}

// complete finishes all files, each whatever becomes of the others.
func (r *records) complete(report *runReport) error {
	var errs []error
	if r.state != nil {
		if err := r.writeState(); err != nil {
			errs = append(errs, fmt.Errorf("kv state: %w", err))
		}
	}
	if r.saved != nil && !r.cut {
		if err := r.saveSession(); err != nil {
			errs = append(errs, fmt.Errorf("session: %w", err))
		}
	}
	if r.logits != nil {
		errs = append(errs, r.logits.Close())
	}
	if r.log != nil {
		err := r.evicted.End(report.Tokens, len(r.session.Tokens), report.StopReason)
		if err = cmp.Or(err, r.closeLog()); err != nil {
			errs = append(errs, fmt.Errorf("eviction log: %w", err))
		}
	}
	return errors.Join(errs...)
}

// writeState writes the live slots of every layer and head.
func (r *records) writeState() error {
	state, err := r.session.Cache().State(0)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(r.state).Encode(state); err != nil {
		return err
	}
	return r.state.Complete()
}

func (r *records) saveSession() error {
	if err := r.session.Save(r.saved); err != nil {
		return err
	}
	return r.saved.Complete()
}

func (r *records) closeLog() error {
	err := r.lines.Flush()
	if closed := r.log.Close(); err == nil {
		err = closed
	}
	return err
}

// discard drops what is not complete. After complete it does nothing.
func (r *records) discard() {
	for _, f := range []*partialFile{r.state, r.saved} {
		if f != nil {
			f.Discard()
		}
	}
	if r.logits != nil {
		r.logits.Discard()
	}
	if r.log != nil {
		r.closeLog() // keeps the lines so far; the failure before is the one to report
	}
}
