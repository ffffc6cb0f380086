package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"vkdecode/model"
)

// records are the files that are written while a run goes on: the eviction log and the logits.
type records struct {
	session *model.Session
	log     *os.File
	out     *bufio.Writer
	npy     *npyWriter
}

func (f *runFlags) records(s *model.Session, vocab int) (r *records, err error) {
	r = &records{session: s}
	if f.evictLog != "" {
		if r.log, err = os.Create(f.evictLog); err != nil {
			return nil, err
		}
		r.out = bufio.NewWriter(r.log)
	}
	if f.logits != "" {
		if r.npy, err = createNPY(f.logits, vocab); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// observer is what the session must report for the files; empty if there are none.
func (r *records) observer() model.Observer {
	if r.log == nil && r.npy == nil {
		return model.Observer{}
	}
	return model.Observer{Logits: r.npy != nil, Step: r.step}
}

func (r *records) step(s model.Step) error {
	if r.npy != nil {
		if err := r.npy.Write(s.Logits); err != nil {
			return err
		}
	}
	if r.log == nil {
		return nil
	}
	evictions, err := r.session.Cache().Evicted(0, s.Seen)
	if err != nil {
		return err
	}
	e := json.NewEncoder(r.out)
	for _, v := range evictions {
		v.Token = r.session.Tokens[v.Position]
		if err := e.Encode(v); err != nil {
			return fmt.Errorf("eviction log: %w", err)
		}
	}
	return nil
}

// close finishes the files; after a failure the logits, which would be incomplete, are dropped.
func (r *records) close(succeeded bool) error {
	if r.npy != nil {
		if !succeeded {
			r.npy.Discard()
		} else if err := r.npy.Close(); err != nil {
			return err
		}
	}
	if r.log == nil {
		return nil
	}
	err := r.out.Flush()
	if closed := r.log.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("eviction log: %w", err)
	}
	return nil
}
