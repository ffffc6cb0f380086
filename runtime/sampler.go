package runtime

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"vkdecode/shaders"
	"vkdecode/vk"
)

// Sampler chooses the next tokens on the device: they never visit the host on their way to the next step. How it chooses is
// data, so that one recording serves all settings. A row is that of a sequence whose logits are wanted.
type Sampler struct {
	device      *vk.Device
	rows, vocab int
	positions   int     // of a sequence, at most
	groups      int     // workgroups that share the vocabulary
	settings    *Tensor // (rows, SettingWords) u32
	adjust      *Tensor // (rows, vocab padded to 4) how often in the window u32, bias f32
	history     *Tensor // (rows, positions) token ids u32
	peaks, sums *Tensor // scratch of the kernels
	list        *Tensor
	image       []byte // of adjust, on its way to the device
	tokens      []byte // of history
}

// blockTokens share a peak and a sum, as in include/sampling.glsl.
const blockTokens = 32

// Pairs of candidates in an iteration of a sum and of a search: with these loops end in time on every driver.
const pairsAtATime, pairsSearched = 4, 8

// PlanSampler names the tensors for so many rows at once and sequences of so many positions.
func PlanSampler(e *Engine, a *Arena, rows, vocab, positions int) *Sampler {
	s := &Sampler{device: e.Device, rows: rows, vocab: vocab, positions: positions + 1} // the last token sampled is not processed
	blocks := s.blocks()
	s.groups = min((blocks+e.Tuning.Lanes-1)/e.Tuning.Lanes, mostGroups)
	if e.Tuning.Threads > 0 {
		s.groups = min(s.groups, 2*e.Tuning.Threads)
	}
	tensor := func(name string, words int) *Tensor { return a.Tensor("sampler."+name, int64(4*rows*words)) }
	s.settings = tensor("settings", SettingWords)
	s.adjust = tensor("adjust", 2*s.padded())
	s.history = tensor("history", s.positions)
	s.peaks, s.sums = tensor("peaks", blocks+s.groups), tensor("sums", 2*blocks)
	s.list = tensor("list", 2*s.room())
	return s
}

// mostGroups keeps what every workgroup of sample_sums reads first short.
const mostGroups = 64

func (s *Sampler) blocks() int { return (s.vocab + blockTokens - 1) / blockTokens }

// room is how many pairs of words a row of the list of candidates has: a head, the candidates, blocks.
func (s *Sampler) room() int { return ListRoom(s.vocab) }

// ListRoom is that for a vocabulary: sample_list.comp says what lies there.
func ListRoom(vocab int) int { return (4 + vocab + (vocab+blockTokens-1)/blockTokens + 1) &^ 1 }

func (s *Sampler) padded() int { return (s.vocab + 3) &^ 3 }

// Record appends the kernels that choose a token for every wanted row of the step, and those that make the next step of
// them. stride is that of logits, in elements; ring has so many entries.
func (s *Sampler) Record(p *Program, step *Tensor, logits vk.Range, tokens, ends, ring *Tensor, stride, entries int) {
	v, lanes, vocab := p.engine.Variant("", ""), uint32(p.engine.Tuning.Lanes), uint32(s.vocab)
	quads := uint32(stride / 4)
	p.Dispatch(shaders.SamplePeaks{Lanes: lanes, Stride: quads, Vocab: vocab, Step: step.Range, Logits: logits,
		Settings: s.settings.Range, Adjust: s.adjust.Range, Peaks: s.peaks.Range}, v, s.groups, s.rows, 1)
	p.Dispatch(shaders.SampleSums{Lanes: lanes, Stride: quads, Vocab: vocab, Step: step.Range, Logits: logits,
		Settings: s.settings.Range, Adjust: s.adjust.Range, Peaks: s.peaks.Range, Sums: s.sums.Range}, v, s.groups, s.rows, 1)
	p.Dispatch(shaders.SampleList{Lanes: lanes, Stride: quads, Vocab: vocab, Groups: uint32(s.groups), Room: uint32(s.room()), Step: step.Range, Logits: logits,
		Settings: s.settings.Range, Adjust: s.adjust.Range, Peaks: s.peaks.Range, Sums: s.sums.Range, List: s.list.Range}, v, s.rows, 1, 1)
	p.Dispatch(shaders.Sample{Lanes: lanes, AtATime: pairsAtATime, Searched: pairsSearched, Vocab: vocab, Room: uint32(s.room()), Step: step.Range, Settings: s.settings.Range, List: s.list.Range, Tokens: tokens.Range}, v, s.rows, 1, 1)
	s.RecordAdvance(p, step, tokens, ends, ring, entries)
}

// RecordAdvance appends the kernel that makes the next step out of tokens.
func (s *Sampler) RecordAdvance(p *Program, step, tokens, ends, ring *Tensor, entries int) {
	p.Dispatch(shaders.Advance{Lanes: uint32(p.engine.Tuning.Lanes), Rows: uint32(s.rows), Entries: uint32(entries), Vocab: uint32(s.padded()), Positions: uint32(s.positions),
		Step: step.Range, Tokens: tokens.Range, Ends: ends.Range, Settings: s.settings.Range, StepOut: step.Range, Ring: ring.Range,
		Seen: s.adjust.Range, History: s.history.Range}, p.engine.Variant("", ""), 1, 1, 1)
}

// Set makes row choose by these settings from now on, after a history, which holds the token of every position so far. The
// device must not be running a step.
func (s *Sampler) Set(row int, how Sampling, history []int32) error {
	if err := how.Check(s.vocab); err != nil {
		return err
	}
	if len(history) > s.positions {
		return fmt.Errorf("runtime: sampler: a history of %d tokens, want at most %d", len(history), s.positions)
	}
	words := how.Words(s.vocab)
	var b []byte
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	if err := s.device.Write(s.settings.Slice(int64(row*len(b)), int64(len(b))), b); err != nil {
		return err
	}
	if words[0]&flagSees == 0 {
		return nil
	}
	return s.adjustFor(row, how, history)
}

// adjustFor writes the biases, and what stands in the window.
func (s *Sampler) adjustFor(row int, how Sampling, history []int32) error {
	size := 8 * s.padded()
	s.image = slices.Grow(s.image[:0], size)[:size]
	clear(s.image)
	for id, bias := range how.Bias {
		binary.LittleEndian.PutUint32(s.image[8*id+4:], math.Float32bits(float32(bias)))
	}
	window := history
	if !how.counts() {
		window = nil
	} else if how.RepeatLast > 0 {
		window = history[max(0, len(history)-how.RepeatLast):]
	}
	for _, id := range window {
		if id < 0 || int(id) >= s.vocab {
			return fmt.Errorf("runtime: sampler: the history holds token %d, want 0 to %d", id, s.vocab-1)
		}
		seen := s.image[8*id:]
		binary.LittleEndian.PutUint32(seen, binary.LittleEndian.Uint32(seen)+1)
	}
	if err := s.device.Write(s.adjust.Slice(int64(row*size), int64(size)), s.image); err != nil || len(window) == 0 {
		return err
	}
	s.tokens = s.tokens[:0]
	for _, id := range window {
		s.tokens = binary.LittleEndian.AppendUint32(s.tokens, uint32(id))
	}
	from := int64(4 * (row*s.positions + len(history) - len(window)))
	return s.device.Write(s.history.Slice(from, int64(len(s.tokens))), s.tokens)
}
