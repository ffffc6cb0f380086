package runtime

import (
	"encoding/binary"
	"fmt"

	"vkdecode/vk"
)

// The layout of the Step buffer, in elements of four u32; include/step.glsl is its other half.
const (
	StepRows = 512 // rows in one step, at most
	StepSeqs = 64  // sequences, at most

	stepRow   = 1
	stepSeq   = stepRow + StepRows
	stepOut   = stepSeq + StepSeqs
	stepQuads = stepOut + StepRows/4

	StepBytes = 16 * stepQuads
)

// Row is one token of one sequence.
type Row struct {
	Token, Seq, Pos int32
	Place           int32 // in the prompt, where a kernel carries rows over
}

// StepFlags say what a step is; the first ones are include/step.glsl's.
type StepFlags uint32

const (
	Settles  StepFlags = 1 // sequences are cut to their budget even where the policy would wait
	Ends     StepFlags = 2 // the prompt ends with these rows
	Observes StepFlags = 4 // the rows are looked at once more: they add no token to the cache
)

// Step is the host's side of the buffer that holds everything that changes per token. The device advances it by itself
// in decode; the host writes it for a prompt, and after sampling on the host.
type Step struct {
	device *vk.Device
	at     vk.Range
	image  []byte
}

// NewStep wraps a tensor of StepBytes.
func NewStep(d *vk.Device, t *Tensor) *Step {
	return &Step{device: d, at: t.Range, image: make([]byte, StepBytes)}
}

func (s *Step) put(quad, word int, v uint32) {
	binary.LittleEndian.PutUint32(s.image[16*quad+4*word:], v)
}

// Write sets the rows of the next step and which of them have their logits wanted. Rows of a sequence lie together.
// The device must not be running a step.
func (s *Step) Write(rows []Row, outs []int, flags StepFlags) error {
	if len(rows) > StepRows || len(outs) > StepRows {
		return fmt.Errorf("runtime: a step of %d rows, %d at most", max(len(rows), len(outs)), StepRows)
	}
	clear(s.image)
	s.put(0, 0, uint32(len(rows)))
	s.put(0, 1, uint32(len(outs)))
	for i, r := range rows {
		if r.Seq < 0 || r.Seq >= StepSeqs {
			return fmt.Errorf("runtime: row %d: sequence %d, %d at most", i, r.Seq, StepSeqs)
		}
		s.put(stepRow+i, 0, uint32(r.Token))
		s.put(stepRow+i, 1, uint32(r.Seq))
		s.put(stepRow+i, 2, uint32(r.Pos))
		s.put(stepRow+i, 3, uint32(r.Place))
		seq := s.image[16*(stepSeq+int(r.Seq)):]
		count := binary.LittleEndian.Uint32(seq[4:])
		if count == 0 {
			binary.LittleEndian.PutUint32(seq, uint32(i))
		} else if rows[i-1].Seq != r.Seq {
			return fmt.Errorf("runtime: row %d: the rows of sequence %d do not lie together", i, r.Seq)
		}
		binary.LittleEndian.PutUint32(seq[4:], count+1)
		binary.LittleEndian.PutUint32(seq[8:], uint32(flags))
		if flags&Observes == 0 {
			binary.LittleEndian.PutUint32(seq[12:], count+1)
		}
	}
	for i, o := range outs {
		s.put(stepOut+i/4, i%4, uint32(o))
	}
	return s.device.Write(s.at, s.image)
}

// Taken reads how many steps the device has taken by itself since the last Write, and whether it met an end token.
func (s *Step) Taken() (steps int, done bool, err error) {
	var head [16]byte
	if err := s.device.Read(head[:], s.at.Slice(0, 16)); err != nil {
		return 0, false, err
	}
	return int(binary.LittleEndian.Uint32(head[12:])), binary.LittleEndian.Uint32(head[8:]) != 0, nil
}
