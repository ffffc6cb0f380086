package model

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"vkdecode/model/gguf"
)

// Shape is all of a Llama but its weights, in which every matrix has one type.
type Shape struct {
	Name    string // "llama-7b"
	Type    gguf.Type
	Layers  int
	Width   int // embedding length
	Heads   int // query heads
	KVHeads int
	HeadDim int
	FFN     int // width of the feed-forward part
	Vocab   int
	Context int  // tokens
	Tied    bool // the logits' matrix is the embedding's

	Theta float64 // base of the rotations' frequencies
}

// shapes are what synthetic models can look like.
var shapes = []Shape{
	{Name: "llama-3m", Layers: 3, Width: 256, Heads: 4, KVHeads: 2, HeadDim: 64, FFN: 768, Vocab: 2048, Context: 1 << 20, Tied: true, Theta: 1e4},      // to try things with
	{Name: "llama-135m", Layers: 30, Width: 576, Heads: 9, KVHeads: 3, HeadDim: 64, FFN: 1536, Vocab: 49152, Context: 8192, Tied: true, Theta: 1e5},    // SmolLM2-135M
	{Name: "llama-1b", Layers: 16, Width: 2048, Heads: 32, KVHeads: 8, HeadDim: 64, FFN: 8192, Vocab: 128256, Context: 131072, Tied: true, Theta: 5e5}, // Llama 3.2 1B
	{Name: "llama-7b", Layers: 32, Width: 4096, Heads: 32, KVHeads: 32, HeadDim: 128, FFN: 11008, Vocab: 32000, Context: 4096, Theta: 1e4},             // Llama 2 7B
	{Name: "llama-8b", Layers: 32, Width: 4096, Heads: 32, KVHeads: 8, HeadDim: 128, FFN: 14336, Vocab: 128256, Context: 131072, Theta: 5e5},           // Llama 3.1 8B
	{Name: "llama-14b", Layers: 48, Width: 5120, Heads: 40, KVHeads: 8, HeadDim: 128, FFN: 13824, Vocab: 152064, Context: 131072, Theta: 1e6},          // Qwen2.5 14B without biases
}

// ParseShape reads a shape with a weight type, "llama-7b:q4_0".
func ParseShape(text string) (Shape, error) {
	name, kind, found := strings.Cut(text, ":")
	i := slices.IndexFunc(shapes, func(s Shape) bool { return s.Name == name })
	if i < 0 {
		return Shape{}, fmt.Errorf("model: synthetic model %q: shape %q, want one of %s", text, name, strings.Join(shapeNames(), ", "))
	}
	s := shapes[i]
	types := syntheticTypes()
	for t, w := range weightTypes {
		if w.name == kind && slices.Contains(types, kind) {
			s.Type = t
			return s, nil
		}
	}
	if !found {
		return Shape{}, fmt.Errorf("model: synthetic model %q has no weight type; give one of %s, like %s:q4_0", text, strings.Join(types, ", "), name)
	}
	return Shape{}, fmt.Errorf("model: synthetic model %q: weight type %q, want one of %s", text, kind, strings.Join(types, ", "))
}

// ShapeWords are all texts that ParseShape reads.
func ShapeWords() (words []string) {
	for _, name := range shapeNames() {
		for _, kind := range syntheticTypes() {
			words = append(words, name+":"+kind)
		}
	}
	return words
}

func shapeNames() (names []string) {
	for _, s := range shapes {
		names = append(names, s.Name)
	}
	return names
}

// syntheticTypes are the weight types that random words can be made for, by name.
func syntheticTypes() (names []string) {
	for _, w := range weightTypes {
		if _, ok := noises[w.name]; ok {
			names = append(names, w.name)
		}
	}
	slices.Sort(names)
	return names
}

// String is what ParseShape reads.
func (s Shape) String() string { return s.Name + ":" + weightTypes[s.Type].name }

// Outline is a file of the shape whose matrices have no data. Norms multiply by one.
func (s Shape) Outline() (*gguf.File, error) {
	w := &gguf.Writer{}
	const arch = "llama"
	w.Set("general.architecture", arch)
	w.Set("general.name", "synthetic "+s.String())
	size := func(key string, v int) { w.Set(arch+"."+key, uint32(v)) }
	size("block_count", s.Layers)
	size("embedding_length", s.Width)
	size("context_length", s.Context)
	size("feed_forward_length", s.FFN)
	size("attention.head_count", s.Heads)
	size("attention.head_count_kv", s.KVHeads)
	size("attention.key_length", s.HeadDim)
	size("attention.value_length", s.HeadDim)
	w.Set(arch+".attention.layer_norm_rms_epsilon", float32(1e-5))
	w.Set(arch+".rope.freq_base", float32(s.Theta))
	matrix := func(name string, columns, rows int) {
		w.Add(name+".weight", s.Type, []int64{int64(columns), int64(rows)}, nil)
	}
	ones := make([]byte, 0, 4*s.Width)
	for range s.Width {
		ones = binary.LittleEndian.AppendUint32(ones, math.Float32bits(1))
	}
	norm := func(name string) { w.Add(name+".weight", gguf.F32, []int64{int64(s.Width)}, ones) }
	matrix("token_embd", s.Width, s.Vocab)
	norm("output_norm")
	if !s.Tied {
		matrix("output", s.Width, s.Vocab)
	}
	for i := range s.Layers {
		b := fmt.Sprintf("blk.%d.", i)
		norm(b + "attn_norm")
		matrix(b+"attn_q", s.Width, s.Heads*s.HeadDim)
		matrix(b+"attn_k", s.Width, s.KVHeads*s.HeadDim)
		matrix(b+"attn_v", s.Width, s.KVHeads*s.HeadDim)
		matrix(b+"attn_output", s.Heads*s.HeadDim, s.Width)
		norm(b + "ffn_norm")
		matrix(b+"ffn_gate", s.Width, s.FFN)
		matrix(b+"ffn_up", s.Width, s.FFN)
		matrix(b+"ffn_down", s.FFN, s.Width)
	}
	return w.Outline()
}
