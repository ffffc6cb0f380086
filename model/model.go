// Package model turns files into sessions: it reads GGUF, tokenizers and architectures, keeps the weights on the device
// and decodes.
package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"vkdecode/h2o"
	"vkdecode/model/gguf"
	"vkdecode/model/tokenizer"
	"vkdecode/runtime"
	"vkdecode/vk"
)

// architecture is one kind of model: its weights, and the graph over them.
type architecture interface {
	Config() *Config
	widths() widths
	embedding(p *runtime.Program, a *activations, step *runtime.Tensor, x vk.Range, rows int)
	layer(p *runtime.Program, a *activations, i, rows int, attend attention)
	project(p *runtime.Program, a *activations, i int, x, qkv vk.Range, rows int)
	links(i int, here, next linkedRows) []link
	rotation(table *runtime.Tensor) h2o.Rotation
	logits(p *runtime.Program, a *activations, outs int)
}

// attention records the attention of a layer over a cache: that of a decode step, or of a prompt's chunk. What it returns,
// if not nil, is what that came to, for a product that brings it together: x.Y is left alone.
type attention func(p *runtime.Program, layer, rows int, x h2o.Activations) *h2o.Parts

// archs are the architectures, by the name that files give them.
var archs = map[string]func(*weights) (architecture, error){
	"llama": newLlama,
}

// Model is a loaded model: weights on the device, never changed.
type Model struct {
	*Config
	Tokenizer    *tokenizer.Tokenizer // nil if the file has none that is supported
	TokenizerErr error                // why Tokenizer is nil
	Template     string               // chat template, empty if there is none
	BOS, EOS     string               // texts of the tokens that begin and end a text, for the template
	Fingerprint  string               // of the file: gguf.File.Fingerprint
	Precision    string               // that chunks are multiplied in: the tuning's, unless no matrix has kernels for it
	OwnLayers    int                  // whose weights lie in the device's own memory; it reads the others' from the host's

	arch   architecture
	chains []chain // nil if its layers are not linked
	engine *runtime.Engine
	arena  *runtime.Arena
	ends   []int32
}

// Load reads a model from a file onto the device. progress, if not nil, is called with the bytes done and the total;
// an error from it ends the load. The file may be closed afterwards.
func Load(e *runtime.Engine, f *gguf.File, progress func(done, total int64) error) (*Model, error) {
	m, w, err := planModel(e, f)
	if err != nil {
		return nil, err
	}
	if err := m.arena.Allocate(context.Background(), e.Device); err != nil {
		return nil, err
	}
	if err := w.load(progress); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// planModel is all of a load that needs no memory of the device.
func planModel(e *runtime.Engine, f *gguf.File) (*Model, *weights, error) {
	build, err := archOf(f)
	if err != nil {
		return nil, nil, err
	}
	m := &Model{engine: e, arena: &runtime.Arena{}, Fingerprint: f.Fingerprint()}
	w := &weights{engine: e, arena: m.arena, file: f, layer: -1}
	if m.arch, err = build(w); err != nil {
		return nil, nil, err
	}
	m.Config, m.Precision = m.arch.Config(), w.precision()
	m.OwnLayers = w.place(len(m.Config.Layers))
	if e.Tuning.Links() && m.OwnLayers == len(m.Config.Layers) {
		m.chains = w.linkedLayers(m.arch, len(m.Config.Layers))
	}
	return m, w, m.readTokenizer(f)
}

// archOf finds the architecture of a file.
func archOf(f *gguf.File) (func(*weights) (architecture, error), error) {
	name, ok, err := f.String("general.architecture")
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errors.New(`model: key "general.architecture" is missing`)
	}
	build, ok := archs[name]
	if !ok {
		var known []string
		for k := range archs {
			known = append(known, k)
		}
		slices.Sort(known)
		return nil, fmt.Errorf("model: architecture %q is not supported; %s is", name, strings.Join(known, ", "))
	}
	return build, nil
}

// Products counts a model's matrices by what decode steps use them for, under the engine's tuning. Nothing is loaded.
func Products(e *runtime.Engine, f *gguf.File) (map[runtime.Product]int, error) {
	build, err := archOf(f)
	if err != nil {
		return nil, err
	}
	w := &weights{engine: e, arena: &runtime.Arena{}, file: f, layer: -1}
	if _, err := build(w); err != nil {
		return nil, err
	}
	all := map[runtime.Product]int{}
	for _, m := range w.matrices {
		if m.product.Input != "" {
			all[m.product]++
		}
	}
	return all, nil
}

// Bytes is the memory that the weights take.
func (m *Model) Bytes() int64 { return m.arena.Bytes("") }

// OwnBytes is what of that is the device's own.
func (m *Model) OwnBytes() int64 { return m.arena.BytesIn(vk.Local) }

// Ends are the tokens that end a generation.
func (m *Model) Ends() []int32 { return m.ends }

// Close frees the weights. Its sessions must be closed before.
func (m *Model) Close() { m.arena.Free() }

// readTokenizer reads the vocabulary. One that is missing or not supported leaves Tokenizer nil: a run on given token
// ids needs none. One that contradicts the model is an error.
func (m *Model) readTokenizer(f *gguf.File) error {
	v, err := vocabulary(f)
	if err != nil {
		return err
	}
	m.Template, _, _ = f.String("tokenizer.chat_template")
	if v == nil {
		m.TokenizerErr = errors.New("model: the file has no vocabulary")
		return nil
	}
	if len(v.Tokens) > 0 && len(v.Tokens) != m.Vocab {
		return fmt.Errorf("model: %d tokens in the vocabulary, %d rows in the embedding", len(v.Tokens), m.Vocab)
	}
	m.Tokenizer, m.TokenizerErr = tokenizer.New(*v)
	if unsupported := new(tokenizer.UnsupportedError); m.TokenizerErr != nil && !errors.As(m.TokenizerErr, &unsupported) {
		return m.TokenizerErr
	}
	for id := range int32(m.Vocab) {
		if m.Tokenizer != nil && m.Tokenizer.IsEnd(id) {
			m.ends = append(m.ends, id)
		}
	}
	if v.EOS >= 0 {
		m.EOS = v.Tokens[v.EOS]
		if m.Tokenizer == nil {
			m.ends = []int32{v.EOS}
		}
	}
	if v.BOS >= 0 {
		m.BOS = v.Tokens[v.BOS]
	}
	return nil
}

// vocabulary collects what the file says of its tokens; nil if it says nothing.
func vocabulary(f *gguf.File) (*tokenizer.Vocabulary, error) {
	const p = "tokenizer.ggml."
	kind, ok, err := f.String(p + "model")
	if err != nil || !ok || kind == "none" || kind == "no_vocab" {
		return nil, err
	}
	v := &tokenizer.Vocabulary{Model: kind}
	var errs []error
	keep := func(err error) { errs = append(errs, err) }
	v.Pre, _, err = f.String(p + "pre")
	keep(err)
	v.Tokens, _, err = f.Strings(p + "tokens")
	keep(err)
	v.Merges, _, err = f.Strings(p + "merges")
	keep(err)
	types, _, err := f.Ints(p + "token_type")
	keep(err)
	for _, t := range types {
		v.Types = append(v.Types, int32(t))
	}
	id := func(key string) int32 {
		n, ok, err := f.Uint(p + key)
		keep(err)
		if !ok || err != nil || n >= uint64(len(v.Tokens)) {
			return -1
		}
		return int32(n)
	}
	v.BOS, v.EOS, v.EOT = id("bos_token_id"), id("eos_token_id"), id("eot_token_id")
	v.UNK, v.PAD = id("unknown_token_id"), id("padding_token_id")
	if v.AddBOS, ok, err = f.Bool(p + "add_bos_token"); !ok {
		v.AddBOS = tokenizer.AddsBOS(v.Pre) && v.BOS >= 0
	}
	keep(err)
	v.AddEOS, _, err = f.Bool(p + "add_eos_token")
	keep(err)
	return v, errors.Join(errs...)
}
