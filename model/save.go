package model

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"

	"vkdecode/h2o"
)

// A saved session is, all little-endian:
//
//	8 bytes   savedMagic
//	2 × u32   savedVersion; bytes of the header
//	JSON      the header, a SavedSession
//	u32       each of the tokens
//	f32       each of the logits (vocab) of the last one
//	by layer  for each KV head: live, evicted, budget as u32; (live) position, score; K; V: h2o.HeadImage;
//	          then the observed queries, h2o.LayerImage
//	32 bytes  the SHA-256 of all before
const (
	savedMagic   = "vkdsess\n"
	savedVersion = 2
	mostHeader   = 1 << 20 // bytes; it holds settings, no tokens
)

// SavedSession is the header of a saved session.
type SavedSession struct {
	Model     string       `json:"model"` // its name
	Device    string       `json:"device"`
	Driver    string       `json:"driver"`
	KV        h2o.Settings `json:"kv"` // as the session was opened with, like the next three
	Length    int          `json:"length"`
	Context   int          `json:"context"` // 0 = Length
	Prompt    int          `json:"prompt"`
	Tokens    int          `json:"tokens"`         // processed
	Longest   int          `json:"longest_prompt"` // tokens
	Pending   int32        `json:"pending"`        // NoToken = none
	Agreement Agreement    `json:"agreement"`
}

// header is the session's.
func (s *Session) header() SavedSession {
	info := s.model.engine.Device.Info
	return SavedSession{
		Model: s.model.Name, Device: info.Name, Driver: info.Driver,
		KV: s.opened.KV, Length: s.opened.Length, Context: s.opened.Context, Prompt: s.opened.Prompt,
		Tokens: len(s.Tokens), Longest: s.longest, Pending: s.Pending, Agreement: s.agreement(),
	}
}

// Save writes the session's state, for Restore in a session of the same settings, on this machine or another.
func (s *Session) Save(w io.Writer) error {
	if s.prompt.broken {
		return errBroken
	}
	if len(s.Tokens) == 0 {
		return errors.New("model: the session is empty, there is nothing to save")
	}
	header, err := json.Marshal(s.header())
	if err != nil {
		return err
	}
	if len(header) > mostHeader {
		return fmt.Errorf("model: the settings of the session take %d bytes, want %d at most", len(header), mostHeader)
	}
	logits, err := s.Logits()
	if err != nil {
		return err
	}
	sum := sha256.New()
	f := &savedWriter{w: bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<20)}
	f.bytes([]byte(savedMagic))
	f.numbers(savedVersion, len(header))
	f.bytes(header)
	for _, t := range s.Tokens {
		f.numbers(int(t))
	}
	for _, l := range logits {
		f.numbers(int(math.Float32bits(l)))
	}
	for layer := range s.model.Layers {
		image, err := s.cache.Image(0, layer, len(s.Tokens))
		if err != nil {
			return err
		}
		for i := range image.Heads {
			h := &image.Heads[i]
			f.numbers(h.Live(), h.Evicted, h.Budget)
			f.bytes(h.Slots, h.K, h.V)
		}
		f.bytes(image.Queries)
	}
	if f.err == nil {
		f.err = f.w.Flush()
	}
	if f.err == nil {
		_, f.err = w.Write(sum.Sum(nil))
	}
	if f.err != nil {
		return fmt.Errorf("model: save the session: %w", f.err)
	}
	return nil
}

// savedWriter keeps the first error.
type savedWriter struct {
	w   *bufio.Writer
	err error
}

func (f *savedWriter) bytes(parts ...[]byte) {
	for _, b := range parts {
		if f.err == nil {
			_, f.err = f.w.Write(b)
		}
	}
}

func (f *savedWriter) numbers(all ...int) {
	for _, n := range all {
		f.bytes(binary.LittleEndian.AppendUint32(nil, uint32(n)))
	}
}

// ReadSaved reads the header of a saved session and no more.
func ReadSaved(r io.Reader) (*SavedSession, error) {
	f := &savedReader{r: r, sum: sha256.New()}
	h, err := f.header()
	if err != nil {
		return nil, fmt.Errorf("model: saved session: %w", err)
	}
	return h, nil
}

// Restore replaces what the session holds by what Save wrote. Where the two sessions do not agree, or the file is not
// whole, the error says so and the session is empty.
func (s *Session) Restore(r io.Reader) error {
	err := s.replace(func() error { return s.read(&savedReader{r: bufio.NewReaderSize(r, 1<<20), sum: sha256.New()}) })
	if err != nil {
		return fmt.Errorf("model: saved session: %w", err)
	}
	return nil
}

// read fills an empty session.
func (s *Session) read(f *savedReader) error {
	h, err := f.header()
	if err != nil {
		return err
	}
	if err := s.agreement().objections(h.Agreement, history{h.Tokens, h.Longest}); err != nil {
		return fmt.Errorf("the session it is read into has other settings: %w", err)
	}
	if have := s.cache.Plan.Length; h.Tokens > have {
		return fmt.Errorf("%d tokens, and the session is for %d", h.Tokens, have)
	}
	for range h.Tokens {
		s.Tokens = append(s.Tokens, int32(f.number()))
	}
	logits := make([]float32, s.model.Vocab)
	for i := range logits {
		logits[i] = math.Float32frombits(f.number())
	}
	if f.err != nil {
		return f.err
	}
	if err := s.checkIDs(s.Tokens); err != nil {
		return err
	}
	if h.Pending != NoToken {
		if err := s.checkIDs([]int32{h.Pending}); err != nil {
			return err
		}
	}
	for layer := range s.model.Layers {
		image := f.layer(s, layer)
		if f.err != nil {
			return f.err
		}
		if err := s.cache.SetImage(0, layer, len(s.Tokens), image); err != nil {
			return err
		}
	}
	sum, err := f.end()
	if err != nil {
		return err
	}
	s.Pending, s.longest, s.Origin = h.Pending, h.Longest, sum
	return s.setLogits(logits)
}

// savedReader reads a saved session, which it does not trust: nothing is allocated on the word of a number that was not
// checked. It keeps the first error; what is read after it is zero.
type savedReader struct {
	r   io.Reader
	sum hash.Hash
	err error
}

func (f *savedReader) bytes(n int) []byte {
	b := make([]byte, n)
	if f.err != nil {
		return b
	}
	if _, f.err = io.ReadFull(f.r, b); errors.Is(f.err, io.EOF) || errors.Is(f.err, io.ErrUnexpectedEOF) {
		f.err = errors.New("the file is cut short")
	}
	f.sum.Write(b)
	return b
}

func (f *savedReader) number() uint32 { return binary.LittleEndian.Uint32(f.bytes(4)) }

func (f *savedReader) header() (*SavedSession, error) {
	if magic := f.bytes(len(savedMagic)); f.err == nil && string(magic) != savedMagic {
		return nil, errors.New("this is no session that vkdecode saved")
	}
	version, n := f.number(), f.number()
	switch {
	case f.err != nil:
		return nil, f.err
	case version != savedVersion:
		return nil, fmt.Errorf("format version %d in the file, %d here; save it anew with this version of vkdecode", version, savedVersion)
	case n > mostHeader:
		return nil, fmt.Errorf("a header of %d bytes, want %d at most", n, mostHeader)
	}
	d := json.NewDecoder(bytes.NewReader(f.bytes(int(n))))
	if f.err != nil {
		return nil, f.err
	}
	d.DisallowUnknownFields()
	h := &SavedSession{}
	if err := d.Decode(h); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	for name, v := range map[string]int{"length": h.Length, "tokens": h.Tokens, "prompt": h.Prompt} {
		if v < 1 || v > math.MaxInt32 {
			return nil, fmt.Errorf("header: %s is %d, want 1 to %d", name, v, math.MaxInt32)
		}
	}
	if h.Context < 0 || h.Context > math.MaxInt32 || h.Longest < 0 || h.Longest > h.Tokens {
		return nil, fmt.Errorf("header: a context of %d tokens and a prompt of %d, of %d", h.Context, h.Longest, h.Tokens)
	}
	return h, nil
}

// layer reads the image of a layer of a session.
func (f *savedReader) layer(s *Session, layer int) *h2o.LayerImage {
	image := &h2o.LayerImage{}
	k, v := s.cache.VectorBytes()
	for kv := range s.model.Layers[layer].KV {
		live, evicted, budget := f.number(), f.number(), f.number()
		if room := s.cache.Plan.Layers[layer].Most; int64(live) > int64(room) && f.err == nil {
			f.err = fmt.Errorf("layer %d, KV head %d: %d live slots, there is room for %d", layer, kv, live, room)
		}
		if f.err != nil {
			return nil
		}
		h := h2o.HeadImage{Budget: int(budget), Evicted: int(evicted), Slots: f.bytes(int(live) * h2o.TableBytes)}
		h.K, h.V = f.bytes(int(live)*k), f.bytes(int(live)*v)
		image.Heads = append(image.Heads, h)
	}
	image.Queries = f.bytes(s.cache.QueryBytes(layer, len(s.Tokens)))
	return image
}

// end checks the sum of all that was read, and that nothing follows, and returns the sum in hexadecimal.
func (f *savedReader) end() (string, error) {
	want := f.sum.Sum(nil)
	got := f.bytes(len(want))
	if f.err == nil && !bytes.Equal(got, want) {
		f.err = errors.New("the file is damaged: its bytes do not give the SHA-256 at its end")
	}
	if n, _ := io.ReadFull(f.r, make([]byte, 1)); f.err == nil && n > 0 {
		f.err = errors.New("the file goes on behind its end")
	}
	return hex.EncodeToString(want), f.err
}
