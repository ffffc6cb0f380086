package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"vkdecode/model/gguf"
)

func newInspect() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect MODEL",
		Short: "say what is in a model file",
		Long: `Say what is in a GGUF file: architecture, sizes, tokenizer, and the tensors by
weight type. Nothing is loaded and no device is needed.`,
		Example: `  vkdecode inspect models/SmolLM2-135M-Instruct.Q4_1.gguf
  vkdecode inspect model.gguf --tensors --json
  vkdecode inspect builtin:`,
		Args: cobra.ExactArgs(1),
	}
	tensors := cmd.Flags().Bool("tensors", false, "list every tensor")
	keys := cmd.Flags().Bool("keys", false, "list every metadata key, long arrays cut short")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := openFile(args[0])
		if err != nil {
			return err
		}
		defer f.Close()
		r := inspect(f)
		r.File = args[0]
		if *tensors {
			r.Tensors = listTensors(f)
		}
		if *keys {
			r.Keys = listKeys(f)
		}
		if *asJSON {
			return printJSON(cmd.OutOrStdout(), r)
		}
		return r.print(cmd.OutOrStdout())
	}
	return cmd
}

// inspection is what a model file holds. Zero and empty mean: not in the file.
type inspection struct {
	File         string         `json:"file"`
	Bytes        int64          `json:"bytes"`
	Version      uint32         `json:"version"`
	Alignment    int64          `json:"alignment"` // bytes
	Architecture string         `json:"architecture"`
	Name         string         `json:"name"`
	License      string         `json:"license"`
	Parameters   int64          `json:"parameters"` // elements of all tensors
	Layers       uint64         `json:"layers"`
	Context      uint64         `json:"context"` // tokens the model was trained on
	Width        uint64         `json:"width"`
	Heads        layered        `json:"heads"`
	KVHeads      layered        `json:"kv_heads"`
	HeadDim      uint64         `json:"head_dim"`
	FeedForward  layered        `json:"feed_forward"`
	RopeBase     float64        `json:"rope_base"`
	Tokenizer    tokenizerFacts `json:"tokenizer"`
	TensorCount  int            `json:"tensor_count"`
	TensorBytes  int64          `json:"tensor_bytes"`
	Types        []typeCount    `json:"types"` // by bytes, largest first
	Problems     []string       `json:"problems,omitempty"`
	Tensors      []tensorEntry  `json:"tensors,omitempty"`
	Keys         []keyEntry     `json:"keys,omitempty"`
}

type tokenizerFacts struct {
	Model        string `json:"model"`
	Pre          string `json:"pre"` // how text is cut before merging
	Tokens       int    `json:"tokens"`
	Merges       int    `json:"merges"`
	BOS          *token `json:"bos"`
	EOS          *token `json:"eos"`
	ChatTemplate bool   `json:"chat_template"`
}

type token struct {
	ID   uint64 `json:"id"`
	Text string `json:"text"`
}

type typeCount struct {
	Type     string `json:"type"`
	Tensors  int    `json:"tensors"`
	Elements int64  `json:"elements"`
	Bytes    int64  `json:"bytes"`
}

// layered is one value per layer, a single number where all are equal.
type layered []uint64

func (l layered) uniform() bool {
	return len(l) > 0 && slices.Min(l) == slices.Max(l)
}

func (l layered) String() string {
	switch {
	case len(l) == 0:
		return ""
	case l.uniform():
		return fmt.Sprint(l[0])
	}
	return fmt.Sprint([]uint64(l))
}

func (l layered) MarshalJSON() ([]byte, error) {
	switch {
	case len(l) == 0:
		return []byte("0"), nil
	case l.uniform():
		return json.Marshal(l[0])
	}
	return json.Marshal([]uint64(l))
}

// inspect gathers what the file says. A key of the wrong type is a problem to
// report, not a reason to stop: the command is there to find it.
func inspect(f *gguf.File) *inspection {
	r := &inspection{Bytes: f.Size, Version: f.Version, Alignment: f.Alignment}
	k := facts{f, &r.Problems}
	r.Architecture = k.text("general.architecture")
	r.Name, r.License = k.text("general.name"), k.text("general.license")
	arch := r.Architecture + "."
	r.Layers = k.count(arch + "block_count")
	r.Context = k.count(arch + "context_length")
	r.Width = k.count(arch + "embedding_length")
	r.RopeBase = take(k, f.Float, arch+"rope.freq_base")
	if most := uint64(len(f.Tensors())); r.Layers > most {
		k.note(fmt.Errorf("%sblock_count is %d, more than the %d tensors of the file", arch, r.Layers, most))
	} else {
		r.Heads = k.layered(arch+"attention.head_count", int(r.Layers))
		r.KVHeads = k.layered(arch+"attention.head_count_kv", int(r.Layers))
		r.FeedForward = k.layered(arch+"feed_forward_length", int(r.Layers))
	}
	if r.KVHeads == nil {
		r.KVHeads = r.Heads
	}
	r.HeadDim = k.count(arch + "attention.key_length")
	if r.HeadDim == 0 && r.Heads.uniform() && r.Heads[0] > 0 {
		r.HeadDim = r.Width / r.Heads[0]
	}
	r.Tokenizer = k.tokenizer()
	r.countTensors(f.Tensors())
	return r
}

func (r *inspection) countTensors(tensors []*gguf.Tensor) {
	for _, t := range tensors {
		elements := t.Columns() * t.Rows()
		r.TensorCount++
		r.Parameters += elements
		r.TensorBytes += int64(len(t.Data))
		i := slices.IndexFunc(r.Types, func(c typeCount) bool { return c.Type == t.Type.String() })
		if i < 0 {
			i = len(r.Types)
			r.Types = append(r.Types, typeCount{Type: t.Type.String()})
		}
		r.Types[i].Tensors++
		r.Types[i].Elements += elements
		r.Types[i].Bytes += int64(len(t.Data))
	}
	slices.SortStableFunc(r.Types, func(a, b typeCount) int { return int(min(1, max(-1, b.Bytes-a.Bytes))) })
}

// facts reads keys and notes what is wrong with them.
type facts struct {
	*gguf.File
	problems *[]string
}

func (k facts) note(err error) {
	if err != nil {
		*k.problems = append(*k.problems, err.Error())
	}
}

func take[T any](k facts, get func(string) (T, bool, error), key string) T {
	v, _, err := get(key)
	k.note(err)
	return v
}

func (k facts) text(key string) string  { return take(k, k.String, key) }
func (k facts) count(key string) uint64 { return take(k, k.Uint, key) }

func (k facts) layered(key string, layers int) layered {
	v, _, err := k.ByLayer(key, layers)
	k.note(err)
	return v
}

func (k facts) tokenizer() tokenizerFacts {
	tokens := take(k, k.Strings, "tokenizer.ggml.tokens")
	special := func(key string) *token {
		id, given, err := k.Uint(key)
		k.note(err)
		if !given {
			return nil
		}
		t := &token{ID: id}
		if id < uint64(len(tokens)) {
			t.Text = tokens[id]
		} else if len(tokens) > 0 {
			k.note(fmt.Errorf("%s is %d, the vocabulary has %d tokens", key, id, len(tokens)))
		}
		return t
	}
	return tokenizerFacts{
		Model:        k.text("tokenizer.ggml.model"),
		Pre:          k.text("tokenizer.ggml.pre"),
		Tokens:       len(tokens),
		Merges:       len(take(k, k.Strings, "tokenizer.ggml.merges")),
		BOS:          special("tokenizer.ggml.bos_token_id"),
		EOS:          special("tokenizer.ggml.eos_token_id"),
		ChatTemplate: k.text("tokenizer.chat_template") != "",
	}
}

// modelShape reads the shape of a model's KV cache from its file.
func modelShape(path string) (shape, *weightPlan, error) {
	f, err := openFile(path)
	if err != nil {
		return shape{}, nil, err
	}
	defer f.Close()
	r := inspect(f)
	for _, problem := range r.Problems {
		return shape{}, nil, fmt.Errorf("plan: %s: %s", path, problem)
	}
	if !r.KVHeads.uniform() || r.HeadDim == 0 {
		return shape{}, nil, fmt.Errorf("plan: %s: %s model with KV heads %v of %d elements, want one number of heads for all layers; give --layers, --kv-heads and --head-dim instead",
			path, r.Architecture, r.KVHeads, r.HeadDim)
	}
	return shape{Layers: int(r.Layers), KVHeads: int(r.KVHeads[0]), HeadDim: int(r.HeadDim), Context: int(r.Context)}, weightsOf(f), nil
}
