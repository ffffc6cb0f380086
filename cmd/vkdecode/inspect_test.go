package main

import (
	"math"
	"strings"
	"testing"

	"vkdecode/model/gguf"
)

// smallModel is a file with what inspect and plan look at, and little else.
func smallModel() *gguf.Writer {
	w := new(gguf.Writer)
	w.Set("general.architecture", "llama")
	w.Set("general.name", "small\x1b[31m") // a terminal must not obey it
	w.Set("llama.block_count", uint32(2))
	w.Set("llama.context_length", uint32(512))
	w.Set("llama.embedding_length", uint32(32))
	w.Set("llama.feed_forward_length", []uint32{64, 96})
	w.Set("llama.attention.head_count", uint32(4))
	w.Set("llama.attention.head_count_kv", uint32(1))
	w.Set("llama.rope.freq_base", float32(10000))
	w.Set("tokenizer.ggml.model", "gpt2")
	w.Set("tokenizer.ggml.pre", "smollm")
	w.Set("tokenizer.ggml.tokens", []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "</s>"})
	w.Set("tokenizer.ggml.eos_token_id", uint32(9))
	w.Set("tokenizer.chat_template", strings.Repeat("{{ messages }} ", 10))
	w.Set("test.odd", float32(math.NaN()))
	w.Add("token_embd.weight", gguf.Q8_0, []int64{32, 10}, make([]byte, 340))
	w.Add("blk.0.attn_norm.weight", gguf.F32, []int64{32}, make([]byte, 128))
	w.Add("blk.1.attn_norm.weight", gguf.F32, []int64{32}, make([]byte, 128))
	return w
}

func TestInspectSaysWhatIsInTheFile(t *testing.T) {
	inFolder(t, map[string]string{"m.gguf": string(smallModel().Bytes())})
	r := vkdecode(t, "inspect", "m.gguf", "--json")
	r.want(t, exitOK)
	var got struct {
		inspection
		Heads       int   `json:"heads"`
		KVHeads     int   `json:"kv_heads"`
		FeedForward []int `json:"feed_forward"`
	}
	r.read(t, &got)
	if got.Architecture != "llama" || got.Layers != 2 || got.Context != 512 || got.Width != 32 || got.Heads != 4 || got.KVHeads != 1 ||
		got.HeadDim != 8 || len(got.FeedForward) != 2 || got.RopeBase != 10000 || got.Parameters != 384 || got.TensorCount != 3 || got.TensorBytes != 596 {
		t.Errorf("%+v", got)
	}
	if k := got.Tokenizer; k.Model != "gpt2" || k.Pre != "smollm" || k.Tokens != 10 || k.BOS != nil || *k.EOS != (token{9, "</s>"}) || !k.ChatTemplate {
		t.Errorf("%+v", k)
	}
	want := []typeCount{{"Q8_0", 1, 320, 340}, {"F32", 2, 64, 256}}
	if len(got.Types) != 2 || got.Types[0] != want[0] || got.Types[1] != want[1] {
		t.Errorf("types %+v, want %+v", got.Types, want)
	}
	if got.Tensors != nil || got.Keys != nil || got.Problems != nil {
		t.Errorf("lists nobody asked for: %+v", got)
	}
}

func TestInspectListsTensorsAndKeys(t *testing.T) {
	inFolder(t, map[string]string{"m.gguf": string(smallModel().Bytes())})
	r := vkdecode(t, "inspect", "m.gguf", "--tensors", "--keys")
	r.want(t, exitOK)
	for _, part := range []string{
		`blk.1.attn_norm.weight`, `[32 10]`,
		`tokenizer.ggml.tokens = ["a", "b", "c", "d", "e", "f", "g", "h"] (the first of 10)`,
		`llama.feed_forward_length = [64, 96]` + "\n", `small\x1b[31m`, "test.odd = \"NaN\"", `{{ messages …"`, `384 in 3 tensors, 596 B`,
	} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("%q is missing in:\n%s", part, r.stdout)
		}
	}
	if strings.Contains(r.stdout, "\x1b") {
		t.Error("an escape of the file reached the terminal")
	}
	r = vkdecode(t, "inspect", "m.gguf", "--json", "--tensors", "--keys")
	r.want(t, exitOK)
	var all map[string]any
	r.read(t, &all)
	if tensors, keys := all["tensors"].([]any), all["keys"].([]any); len(tensors) != 3 || len(keys) != 15 {
		t.Errorf("%d tensors and %d keys, want 3 and 15", len(tensors), len(keys))
	}
}

func TestInspectReportsProblemsAndGoesOn(t *testing.T) {
	w := smallModel()
	w.Set("tokenizer.ggml.bos_token_id", uint32(10))
	w.Set("general.license", uint32(7))
	inFolder(t, map[string]string{"m.gguf": string(w.Bytes())})
	r := vkdecode(t, "inspect", "m.gguf")
	r.want(t, exitOK)
	for _, part := range []string{"bos_token_id is 10, the vocabulary has 10 tokens", "general.license", "Q8_0"} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("%q is missing in:\n%s", part, r.stdout)
		}
	}
	absurd := new(gguf.Writer)
	absurd.Set("general.architecture", "llama")
	absurd.Set("llama.block_count", uint64(1<<60))
	inFolder(t, map[string]string{"m.gguf": string(absurd.Bytes())})
	if r = vkdecode(t, "inspect", "m.gguf"); !strings.Contains(r.stdout, "more than the 0 tensors") {
		t.Errorf("2^60 layers: %s%s", r.stdout, r.stderr)
	}
	vkdecode(t, "plan", "m.gguf").want(t, exitFailure, "more than the 0 tensors")
}

func TestInspectRefusesWhatIsNoModel(t *testing.T) {
	inFolder(t, map[string]string{"empty": "", "text": "not a model at all"})
	vkdecode(t, "inspect", "none").want(t, exitFailure, "none", "no such file")
	vkdecode(t, "inspect", "empty").want(t, exitFailure, "empty file")
	vkdecode(t, "inspect", "text").want(t, exitFailure, "want \"GGUF\"")
	vkdecode(t, "inspect", ".").want(t, exitFailure, "not a regular file")
}
