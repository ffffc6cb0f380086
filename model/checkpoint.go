package model

import (
	"errors"
	"slices"

	"vkdecode/h2o"
)

// Checkpoint is the state of a session after a step, in the host's memory.
type Checkpoint struct {
	session *Session
	tokens  []int32
	pending int32
	longest int
	origin  string
	logits  []float32 // (vocab) of the last token
	layers  []*h2o.LayerImage
}

// Checkpoint copies what the session holds, which what comes next cannot change.
func (s *Session) Checkpoint() (*Checkpoint, error) {
	if s.prompt.broken {
		return nil, errBroken
	}
	c := &Checkpoint{session: s, tokens: slices.Clone(s.Tokens), pending: s.Pending, longest: s.longest, origin: s.Origin}
	var err error
	if c.logits, err = s.Logits(); err != nil {
		return nil, err
	}
	for layer := range s.model.Layers {
		image, err := s.cache.Image(0, layer, len(s.Tokens))
		if err != nil {
			return nil, err
		}
		c.layers = append(c.layers, image)
	}
	return c, nil
}

// Rollback takes back everything since the checkpoint, which stays good.
func (s *Session) Rollback(c *Checkpoint) error {
	if c.session != s {
		return errors.New("model: the checkpoint is of another session")
	}
	return s.replace(func() error {
		for layer, image := range c.layers {
			if err := s.cache.SetImage(0, layer, len(c.tokens), image); err != nil {
				return err
			}
		}
		if err := s.setLogits(c.logits); err != nil {
			return err
		}
		s.Tokens, s.Pending, s.longest = append(s.Tokens, c.tokens...), c.pending, c.longest
		s.Origin = c.origin
		return nil
	})
}

// replace empties the session and fills it anew. If that fails the session is left empty.
func (s *Session) replace(fill func() error) error {
	if err := s.Reset(); err != nil {
		return err
	}
	err := fill()
	if err != nil {
		return errors.Join(err, s.Reset())
	}
	return nil
}

// errBroken tells that the layers have not all seen the same tokens.
var errBroken = errors.New("model: a prompt was interrupted inside a layer; reset the session")

// setLogits makes these the logits of the last token.
func (s *Session) setLogits(logits []float32) error {
	s.lastRow = 0
	return writeFloats(s.model.engine.Device, s.logits, logits)
}
