package main

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"vkdecode/model/gguf"
)

// mixedModel is a model of one layer in which every tensor has another weight type. All weights are zero but the norms'.
func mixedModel() (file string, types []string) {
	w := new(gguf.Writer)
	w.Set("general.architecture", "llama")
	for key, v := range map[string]uint32{"block_count": 1, "context_length": 128, "embedding_length": 256, "feed_forward_length": 256,
		"attention.head_count": 4, "attention.head_count_kv": 4} {
		w.Set("llama."+key, v)
	}
	w.Set("llama.attention.layer_norm_rms_epsilon", float32(1e-5))
	for _, norm := range []string{"output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"} {
		w.Add(norm+".weight", gguf.F32, []int64{256}, slices.Repeat(binary.LittleEndian.AppendUint32(nil, 0x3F800000), 256))
	}
	kinds := []gguf.Type{gguf.Q5_0, gguf.Q5_1, gguf.Q2_K, gguf.Q3_K, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K, gguf.IQ4_NL, gguf.MXFP4}
	for i, name := range []string{"token_embd", "output", "blk.0.attn_q", "blk.0.attn_k", "blk.0.attn_v", "blk.0.attn_output", "blk.0.ffn_gate", "blk.0.ffn_up", "blk.0.ffn_down"} {
		w.Add(name+".weight", kinds[i], []int64{256, 256}, make([]byte, 256*256/kinds[i].BlockSize()*kinds[i].BlockBytes()))
		types = append(types, kinds[i].String())
	}
	return string(w.Bytes()), types
}

func TestMixedWeightTypesAreInspectedPlannedAndRun(t *testing.T) {
	file, types := mixedModel()
	onFirstDriver(t, map[string]string{"mixed.gguf": file})
	r := vkdecode(t, "inspect", "mixed.gguf", "--tensors")
	r.want(t, exitOK)
	for _, name := range types {
		if !strings.Contains(r.stdout, name) {
			t.Errorf("inspect says nothing of %s:\n%s", name, r.stdout)
		}
	}
	vkdecode(t, "plan", "mixed.gguf").want(t, exitOK)
	r = vkdecode(t, "run", "mixed.gguf", "--prompt-tokens", "1,2,3", "-n", "3", "--json")
	r.want(t, exitOK)
	var run map[string]any
	r.read(t, &run)
	if tokens, _ := run["tokens"].([]any); len(tokens) != 3 {
		t.Errorf("tokens %v, want three", run["tokens"])
	}
}
