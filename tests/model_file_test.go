package tests

import (
	"math"
	"testing"

	"vkdecode/model"
	"vkdecode/model/builtin"
	"vkdecode/model/gguf"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// rewrite is how a model file is changed; nil in a map removes what it names.
type rewrite struct {
	set     map[string]any
	tensors map[string]func(*gguf.Tensor) *gguf.Tensor
}

// rewritten copies a model file with changes.
func rewritten(t testing.TB, data []byte, r rewrite) *gguf.File {
	t.Helper()
	from, err := gguf.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	var w gguf.Writer
	for _, key := range from.Keys() {
		if _, changed := r.set[key]; !changed {
			v, _ := from.Value(key)
			w.Set(key, v)
		}
	}
	for key, v := range r.set {
		if v != nil {
			w.Set(key, v)
		}
	}
	for _, tensor := range from.Tensors() {
		if change, changed := r.tensors[tensor.Name]; changed {
			if change == nil {
				continue
			}
			tensor = change(tensor)
		}
		w.Add(tensor.Name, tensor.Type, tensor.Shape, tensor.Data)
	}
	f, err := gguf.Parse(w.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// retyped gives a tensor another type with zeros for data; reshaped another shape.
func retyped(kind gguf.Type) func(*gguf.Tensor) *gguf.Tensor {
	return func(t *gguf.Tensor) *gguf.Tensor {
		bytes := t.Rows() * t.Columns() / kind.BlockSize() * kind.BlockBytes()
		return &gguf.Tensor{Name: t.Name, Shape: t.Shape, Type: kind, Data: make([]byte, bytes)}
	}
}

func reshaped(shape ...int64) func(*gguf.Tensor) *gguf.Tensor {
	return func(t *gguf.Tensor) *gguf.Tensor {
		return retyped(t.Type)(&gguf.Tensor{Name: t.Name, Shape: shape, Type: t.Type})
	}
}

type (
	set    = map[string]any
	change = map[string]func(*gguf.Tensor) *gguf.Tensor
)

// badModels are files that a reader can parse and a model cannot be made of, with what the error must say.
var badModels = []struct {
	name string
	rewrite
	want []string
}{
	{"no architecture", rewrite{set: set{"general.architecture": nil}}, []string{`"general.architecture" is missing`}},
	{"architecture of no string", rewrite{set: set{"general.architecture": uint32(7)}}, []string{"general.architecture", "want a string"}},
	{"unsupported architecture", rewrite{set: set{"general.architecture": "mamba"}}, []string{`"mamba" is not supported`, "llama"}},
	{"experts", rewrite{set: set{"llama.expert_count": uint32(8)}}, []string{"8 experts", "not supported"}},
	{"no layers", rewrite{set: set{"llama.block_count": nil}}, []string{`"llama.block_count" is missing`}},
	{"zero layers", rewrite{set: set{"llama.block_count": uint32(0)}}, []string{`"llama.block_count": 0`, "want 1"}},
	{"absurd layers", rewrite{set: set{"llama.block_count": uint32(math.MaxInt32)}}, []string{`"llama.block_count"`, "2147483647 layers", "29 tensors"}},
	{"huge layers", rewrite{set: set{"llama.block_count": uint64(math.MaxUint64)}}, []string{`"llama.block_count"`, "18446744073709551615"}},
	{"negative layers", rewrite{set: set{"llama.block_count": int32(-3)}}, []string{"llama.block_count", "at least 0"}},
	{"a layer too many", rewrite{set: set{"llama.block_count": uint32(4)}}, []string{`"blk.3.`, "is missing"}},
	{"no width", rewrite{set: set{"llama.embedding_length": nil}}, []string{`"llama.embedding_length" is missing`}},
	{"another width", rewrite{set: set{"llama.embedding_length": uint32(160)}}, []string{`"token_embd.weight"`, "[128 1024]", "[160 any]"}},
	{"no context", rewrite{set: set{"llama.context_length": nil}}, []string{`"llama.context_length" is missing`}},
	{"no heads", rewrite{set: set{"llama.attention.head_count": uint32(0)}}, []string{`"llama.attention.head_count"`, "want 1"}},
	{"no KV heads", rewrite{set: set{"llama.attention.head_count_kv": uint32(0)}}, []string{`"llama.attention.head_count_kv"`, "want 1"}},
	{"KV heads that do not divide", rewrite{set: set{"llama.attention.head_count_kv": uint32(3)}}, []string{"4 query heads do not divide among 3 KV heads"}},
	{"heads for two of three layers", rewrite{set: set{"llama.attention.head_count": []uint32{4, 4}}}, []string{"llama.attention.head_count", "2 values", "3 layers"}},
	{"heads of another size", rewrite{set: set{"llama.attention.key_length": uint32(64), "llama.attention.value_length": uint32(64)}}, []string{`"blk.0.attn_q.weight"`, "[128 128]", "[128 256]"}},
	{"heads of absurd size", rewrite{set: set{"llama.attention.key_length": uint32(math.MaxInt32), "llama.attention.value_length": uint32(math.MaxInt32)}}, []string{`"blk.0.attn_q.weight"`, "want [128 8589934588]"}},
	{"keys and values of different size", rewrite{set: set{"llama.attention.value_length": uint32(16)}}, []string{"keys of 32 dimensions and values of 16"}},
	{"no feed-forward width", rewrite{set: set{"llama.feed_forward_length": nil}}, []string{`"llama.feed_forward_length" is missing`}},
	{"another feed-forward width", rewrite{set: set{"llama.feed_forward_length": uint32(353)}}, []string{`"blk.0.ffn_gate.weight"`, "[128 352]", "[128 353]"}},
	{"no epsilon", rewrite{set: set{"llama.attention.layer_norm_rms_epsilon": nil}}, []string{`"llama.attention.layer_norm_rms_epsilon" is missing`}},
	{"negative epsilon", rewrite{set: set{"llama.attention.layer_norm_rms_epsilon": float32(-0.5)}}, []string{`rms_epsilon": -0.5`, "above 0"}},
	{"epsilon that is no number", rewrite{set: set{"llama.attention.layer_norm_rms_epsilon": float32(math.NaN())}}, []string{`rms_epsilon": NaN`, "above 0"}},
	{"epsilon of a string", rewrite{set: set{"llama.attention.layer_norm_rms_epsilon": "small"}}, []string{"rms_epsilon", "want a float"}},
	{"infinite base of rotations", rewrite{set: set{"llama.rope.freq_base": float32(math.Inf(1))}}, []string{`"llama.rope.freq_base": +Inf`}},
	{"more rotated than there is", rewrite{set: set{"llama.rope.dimension_count": uint32(34)}}, []string{`"llama.rope.dimension_count": 34`, "up to the head's 32"}},
	{"odd rotation", rewrite{set: set{"llama.rope.dimension_count": uint32(31)}}, []string{`"llama.rope.dimension_count": 31`, "even"}},
	{"unknown scaling", rewrite{set: set{"llama.rope.scaling.type": "yarn"}}, []string{`"yarn" is not supported`, "linear"}},
	{"scaling by zero", rewrite{set: set{"llama.rope.scaling.factor": float32(0)}}, []string{`"llama.rope.scaling.factor": 0`}},
	{"no embedding", rewrite{tensors: change{"token_embd.weight": nil}}, []string{`tensor "token_embd.weight" is missing`}},
	{"no final norm", rewrite{tensors: change{"output_norm.weight": nil}}, []string{`tensor "output_norm.weight" is missing`}},
	{"missing tensor", rewrite{tensors: change{"blk.1.attn_v.weight": nil}}, []string{`tensor "blk.1.attn_v.weight" is missing`}},
	{"transposed tensor", rewrite{tensors: change{"blk.2.attn_k.weight": reshaped(64, 128)}}, []string{`tensor "blk.2.attn_k.weight"`, "[64 128]", "want [128 64]"}},
	{"short norm", rewrite{tensors: change{"blk.0.ffn_norm.weight": reshaped(127)}}, []string{`tensor "blk.0.ffn_norm.weight"`, "[127]", "[128 1]"}},
	{"weight type without kernel", rewrite{tensors: change{"blk.0.ffn_down.weight": retyped(gguf.Q8_1)}}, []string{`tensor "blk.0.ffn_down.weight"`, "Q8_1 has no kernel", "Q4_1", "Q6_K"}},
	{"embedding without kernel", rewrite{tensors: change{"token_embd.weight": retyped(gguf.NVFP4)}}, []string{`tensor "token_embd.weight"`, "NVFP4 has no kernel"}},
	{"quantised norm", rewrite{tensors: change{"output_norm.weight": retyped(gguf.Q8_0)}}, []string{`tensor "output_norm.weight"`, "Q8_0", "want F32"}},
	{"another vocabulary", rewrite{tensors: change{"token_embd.weight": reshaped(128, 1000)}}, []string{"1024 tokens in the vocabulary", "1000 rows in the embedding"}},
	{"vocabulary of numbers", rewrite{set: set{"tokenizer.ggml.tokens": []uint32{1, 2}}}, []string{"tokenizer.ggml.tokens", "array of strings"}},
	{"no merges", rewrite{set: set{"tokenizer.ggml.merges": nil}}, []string{"without merges"}},
	{"types for some tokens", rewrite{set: set{"tokenizer.ggml.token_type": []int32{1, 1}}}, []string{"2 token types for 1024 tokens"}},
}

// A bad model is an error that names what is wrong with it, and leaves nothing on the device.
func TestBadModelsAreRefused(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		e, held := engineOf(d).Engine, d.Held()
		for _, bad := range badModels {
			m, err := model.Load(e, rewritten(t, builtin.Model, bad.rewrite), nil)
			if err == nil {
				m.Close()
				t.Errorf("%s: no error", bad.name)
				continue
			}
			wantError(t, err, bad.want...)
			if d.Held() != held {
				t.Errorf("%s: holds %d bytes", bad.name, d.Held()-held)
			}
		}
	})
}

// What a file leaves out or says in its own way is no error, and the rewriting itself changes nothing.
func TestUnusualModelsRun(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		ids := passageIDs(t)[:20]
		want := promptLogits(t, openSession(t, builtinOn(t, d), fullKV(4), 20), ids)
		for _, c := range []struct {
			name string
			rewrite
			tokenizer string // what the error must say of it, empty = there is one
			other     bool   // the logits are not the same
		}{
			{"the same", rewrite{}, "", false},
			{"no tokenizer", rewrite{set: set{"tokenizer.ggml.model": nil}}, "no vocabulary", false},
			{"unsupported tokenizer", rewrite{set: set{"tokenizer.ggml.model": "llama"}}, `"llama" is not supported`, false},
			{"unsupported pre-tokenizer", rewrite{set: set{"tokenizer.ggml.pre": "tekken"}}, `"tekken" is not supported`, false},
			{"no name", rewrite{set: set{"general.name": nil}}, "", false},
			{"values per layer", rewrite{set: set{"llama.attention.head_count": []uint32{4, 4, 4}, "llama.feed_forward_length": []uint32{352, 352, 352}}}, "", false},
			{"no experts", rewrite{set: set{"llama.expert_count": uint32(0)}}, "", false},
			{"wide integers", rewrite{set: set{"llama.block_count": uint64(3), "llama.embedding_length": int64(128)}}, "", false},
			{"another base", rewrite{set: set{"llama.rope.freq_base": float32(10100)}}, "", true},
			{"another epsilon", rewrite{set: set{"llama.attention.layer_norm_rms_epsilon": float32(1e-3)}}, "", true},
			{"scaled rotations", rewrite{set: set{"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": float32(1.01)}}, "", true},
		} {
			m, err := model.Load(engineOf(d).Engine, rewritten(t, builtin.Model, c.rewrite), nil)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			t.Cleanup(m.Close)
			if c.tokenizer != "" {
				wantError(t, m.TokenizerErr, c.tokenizer)
			}
			if (m.Tokenizer == nil) != (c.tokenizer != "") {
				t.Errorf("%s: tokenizer %v, %v", c.name, m.Tokenizer, m.TokenizerErr)
			}
			e := nmse(promptLogits(t, openSession(t, m, fullKV(4), 20), ids), want)
			if !c.other && e != 0 || c.other && e <= errorF32 {
				t.Errorf("%s: NMSE of the logits %.1e", c.name, e)
			}
		}
	})
}
