package tests

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/x448/float16"

	"vkdecode/model"
	"vkdecode/model/gguf"
	"vkdecode/ref"
	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// A small Llama of random weights whose rows are whole super-blocks: 256 columns, or 512 of the feed-forward part.
const (
	smallWidth, smallFFN, smallVocab = 256, 512, 301
	smallHeads, smallKV, smallHead   = 4, 2, 64
)

// smallModel is a file with the weight type that kind gives each tensor, "" for no such tensor.
func smallModel(layers int, kind func(tensor string) string) []byte {
	rnd := rand.New(rand.NewPCG(11, 13))
	var w gguf.Writer
	w.Set("general.architecture", "llama")
	for key, v := range map[string]int{"block_count": layers, "context_length": 512, "embedding_length": smallWidth, "feed_forward_length": smallFFN,
		"attention.head_count": smallHeads, "attention.head_count_kv": smallKV, "attention.key_length": smallHead, "attention.value_length": smallHead} {
		w.Set("llama."+key, uint32(v))
	}
	w.Set("llama.attention.layer_norm_rms_epsilon", float32(1e-5))
	linear := func(name string, columns, rows int64, spread float64) {
		if k := kind(name); k != "" {
			w.Add(name, fileTypes[k], []int64{columns, rows}, spreadWeights(rnd, k, int(columns*rows), spread))
		}
	}
	norm := func(name string) {
		var data []byte
		for range smallWidth {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(1+0.2*rnd.NormFloat64())))
		}
		w.Add(name, gguf.F32, []int64{smallWidth}, data)
	}
	linear("token_embd.weight", smallWidth, smallVocab, 1)
	linear("output.weight", smallWidth, smallVocab, 0.1)
	norm("output_norm.weight")
	for i := range layers {
		b := fmt.Sprintf("blk.%d.", i)
		norm(b + "attn_norm.weight")
		linear(b+"attn_q.weight", smallWidth, smallHeads*smallHead, 0.09)
		linear(b+"attn_k.weight", smallWidth, smallKV*smallHead, 0.09)
		linear(b+"attn_v.weight", smallWidth, smallKV*smallHead, 0.06)
		linear(b+"attn_output.weight", smallHeads*smallHead, smallWidth, 0.06)
		norm(b + "ffn_norm.weight")
		linear(b+"ffn_gate.weight", smallWidth, smallFFN, 0.06)
		linear(b+"ffn_up.weight", smallWidth, smallFFN, 0.06)
		linear(b+"ffn_down.weight", smallFFN, smallWidth, 0.04)
	}
	return w.Bytes()
}

// minimumOf is what the second f16 of a block must be of the first for weights around zero: the mean of what the first
// multiplies by that of what the second does, subtracted in the types of super-blocks.
var minimumOf = map[string]float32{"q4_1": -7.5, "q5_1": -15.5, "q2_k": 1.5, "q4_k": 7.5, "q5_k": 15.5}

// spreadWeights are random weights around zero with the given root mean square, in whole blocks of a type.
func spreadWeights(r *rand.Rand, weightType string, n int, spread float64) []byte {
	raw := randomWeights(r, weightType, n/32)
	size := ref.Blocks[weightType].Bytes
	switch weightType {
	case "f32", "f16", "bf16":
		for i := range n {
			bits := math.Float32bits(float32(spread * r.NormFloat64()))
			switch weightType {
			case "f32":
				binary.LittleEndian.PutUint32(raw[4*i:], bits)
			case "bf16":
				binary.LittleEndian.PutUint16(raw[2*i:], uint16(bits>>16))
			default:
				binary.LittleEndian.PutUint16(raw[2*i:], float16.Fromfloat32(math.Float32frombits(bits)).Bits())
			}
		}
		return raw
	case "mxfp4": // the numbers have a root mean square of 5.9
		for at := 0; at < len(raw); at += size {
			raw[at] = byte(128 + int(math.Round(math.Log2(spread/5.9))) - r.IntN(2))
		}
		return raw
	}
	scales := func(unit float32) {
		r := rand.New(rand.NewPCG(uint64(n), 5)) // the same ones for every unit
		for at := 0; at < len(raw); at += size {
			d := unit * (0.5 + r.Float32())
			for i, place := range halvesAt[weightType] {
				v := d
				if i == 1 {
					v *= minimumOf[weightType]
				}
				binary.LittleEndian.PutUint16(raw[at+place:], float16.Fromfloat32(v).Bits())
			}
		}
	}
	scales(1)
	var squares float64
	for _, v := range ref.Weights(weightType, raw) {
		squares += v * v
	}
	scales(float32(spread / math.Sqrt(squares/float64(n))))
	return raw
}

// inFixtures are the weight types that testdata/llama has, in models that Python computed.
var inFixtures = []string{"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1"}

// weightFiles are small models: one of each other weight type, and mixed ones as quantising programs make them.
func weightFiles() map[string][]byte {
	files := map[string][]byte{}
	for _, w := range shaders.WeightTypes {
		if slices.Contains(inFixtures, w) {
			continue
		}
		files[w] = smallModel(1, func(tensor string) string {
			if tensor == "output.weight" {
				return "" // tied: the table is gathered from and multiplied with
			}
			return w
		})
	}
	files["Q4_K_M"] = smallModel(2, func(tensor string) string {
		if tensor == "output.weight" || tensor == "blk.0.attn_v.weight" || tensor == "blk.0.ffn_down.weight" {
			return "q6_k"
		}
		return "q4_k"
	})
	files["all different"] = smallModel(2, func(tensor string) string {
		return map[string]string{"token_embd.weight": "q3_k", "output.weight": "q5_k", "attn_q.weight": "q2_k", "attn_k.weight": "q8_0", "attn_v.weight": "iq4_nl",
			"attn_output.weight": "mxfp4", "ffn_gate.weight": "q5_1", "ffn_up.weight": "q5_0", "ffn_down.weight": "q6_k"}[strings.TrimPrefix(strings.TrimPrefix(tensor, "blk.0."), "blk.1.")]
	})
	return files
}

// compareWeights decodes greedily; the twin, which reads the same file, tells what the logits are.
func compareWeights(t *testing.T, e *runtime.Engine, name string, data []byte) {
	t.Helper()
	f := rewritten(t, data, rewrite{})
	m, err := model.Load(e, f, nil)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	defer m.Close()
	prompt := []int32{3, 300, 17, 0, 255, 256, 41, 299, 8}
	const steps, chunk = 4, 4 // 4, 4 and 1 rows, then one by one
	s, err := m.NewSession(t.Context(), model.SessionOptions{KV: fullKV(chunk), Length: len(prompt) + steps})
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	defer s.Close()
	w := newTwinOf(t, m.Config, f)
	got, want := promptLogits(t, s, prompt), w.logits(w.process(prompt))
	if e := nmse(got, want); !(e <= errorF32) {
		t.Errorf("%s: NMSE %.2e, want %.0e at most", name, e, errorF32)
	}
	last := want[len(want)-m.Vocab:]
	for i, token := range greedy(t, s, steps) {
		if best := slices.Index(last, slices.Max(last)); last[best]-last[token] > sureGap {
			t.Errorf("%s: token %d is %d, the twin's %d", name, i, token, best)
			return
		}
		last = w.logits(w.process([]int32{token}))
	}
	// One block in which the twin has the weights of the next one shows.
	other := rewritten(t, data, rewrite{tensors: change{"blk.0.ffn_down.weight": func(x *gguf.Tensor) *gguf.Tensor {
		changed, block := *x, int(x.Type.BlockBytes()*max(1, 32/x.Type.BlockSize()))
		changed.Data = slices.Clone(x.Data)
		copy(changed.Data[9*block:10*block], x.Data[10*block:])
		return &changed
	}}})
	w = newTwinOf(t, m.Config, other)
	if e := nmse(got, w.logits(w.process(prompt))); !(e > errorF32) {
		t.Errorf("%s: a changed block makes no difference, NMSE %.2e", name, e)
	}
}

// Every weight type decodes as its twin does in float64, in chunks and token by token, alone in a file and mixed.
func TestEveryWeightTypeDecodesAsItsTwin(t *testing.T) {
	files := weightFiles()
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		for name, f := range files {
			compareWeights(t, engineOf(d).Engine, name, f)
		}
	})
}

// The kernels of a GPU, whose lanes share rows and the scales of super-blocks.
func TestGPUTuningDecodesEveryWeightType(t *testing.T) {
	files := weightFiles()
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		info := d.Info
		info.Kind = "discrete"
		e := runtime.NewEngine(d)
		e.Tuning = runtime.TuningFor(info)
		for _, name := range []string{"Q4_K_M", "all different"} {
			compareWeights(t, e, name, files[name])
		}
	})
}
