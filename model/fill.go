package model

import "fmt"

// Fill empties the session and puts it in the state that a prompt of so many tokens would leave, at once: the tokens are
// made up, and so are keys, values and scores, but how many tokens each head holds and has evicted, and what the policy
// protects, are as they would be. So a step at a depth can be measured without the way there.
func (s *Session) Fill(tokens int, seed uint64) error {
	if have := s.cache.Plan.Length; tokens < 0 || tokens > have {
		return fmt.Errorf("model: a session filled with %d tokens, it was opened for %d", tokens, have)
	}
	if err := s.Reset(); err != nil || tokens == 0 {
		return err
	}
	if err := s.cache.Fill(0, tokens, seed); err != nil {
		return err
	}
	for i := range tokens {
		s.Tokens = append(s.Tokens, int32(i%s.model.Vocab))
	}
	s.longest = tokens
	return nil
}

// Work is what one step of decoding asks of a device.
type Work struct {
	WeightBytes int64 // of all matrices that a step reads, as they lie on the device
	Weights     int64 // elements of these matrices
	HeadWeights int64 // of them, those of the logits, which a prompt needs once
}

// Work counts the matrices of a step. An embedding of its own is no part of it: a row of it is looked up.
func (m *Model) Work() (w Work) {
	w.WeightBytes = m.Bytes()
	if m.arena.Bytes("weights.head.") > 0 {
		w.WeightBytes -= m.arena.Bytes("weights.embed.")
	}
	width, dim := int64(m.Width), int64(m.HeadDim)
	for _, l := range m.Layers {
		w.Weights += width*dim*int64(2*l.Query+2*l.KV) + 3*width*int64(l.FFN)
	}
	w.HeadWeights = width * int64(m.Vocab)
	w.Weights += w.HeadWeights
	return w
}
