package model

import (
	"fmt"
	"math"

	"vkdecode/h2o"
	"vkdecode/model/gguf"
)

// Config is a model's shape and constants, from the file's metadata.
type Config struct {
	Architecture string
	Name         string
	Width        int // embedding length
	Vocab        int // rows of the embedding
	Context      int // tokens the model was trained for
	HeadDim      int
	Layers       []LayerConfig
	Eps          float32   // of the RMS norms
	RopeDim      int       // leading dimensions of a head that are rotated
	RopeTheta    float64   // base of the frequencies
	RopeFactor   float64   // linear scaling: positions are divided by it; 1 = none
	RopeFactors  []float64 // (RopeDim/2) divisors of the frequencies, nil = none
}

// LayerConfig is what may differ from layer to layer.
type LayerConfig struct {
	h2o.Heads
	FFN int // width of the feed-forward part
}

// Geometry is the shape of the KV cache.
func (c *Config) Geometry() h2o.Geometry {
	g := h2o.Geometry{HeadDim: c.HeadDim}
	for _, l := range c.Layers {
		g.Layers = append(g.Layers, l.Heads)
	}
	return g
}

// maxLayers bounds what a file may claim.
const maxLayers = 1024

// keys reads metadata of one architecture and keeps the first error.
type keys struct {
	file   *gguf.File
	prefix string
	err    error
}

func (k *keys) fail(err error) {
	if err != nil && k.err == nil {
		k.err = err
	}
}

// size reads a whole number from 1 to 2^31 - 1; fallback < 0 means that the key is needed.
func (k *keys) size(key string, fallback int) int {
	v, ok, err := k.file.Uint(k.prefix + key)
	k.fail(err)
	switch {
	case err != nil:
		return 0
	case !ok && fallback < 0:
		k.fail(fmt.Errorf("model: key %q is missing", k.prefix+key))
		return 0
	case !ok:
		return fallback
	case v == 0 || v > math.MaxInt32:
		k.fail(fmt.Errorf("model: key %q: %d, want 1 to %d", k.prefix+key, v, math.MaxInt32))
		return 0
	}
	return int(v)
}

// sizes reads one whole number per layer, or one for all.
func (k *keys) sizes(key string, layers int, fallback []int) []int {
	v, ok, err := k.file.ByLayer(k.prefix+key, layers)
	k.fail(err)
	if err == nil && !ok {
		if fallback == nil {
			k.fail(fmt.Errorf("model: key %q is missing", k.prefix+key))
		}
		return fallback
	}
	out := make([]int, len(v))
	for i := range v {
		if v[i] == 0 || v[i] > math.MaxInt32 {
			k.fail(fmt.Errorf("model: key %q: %d in layer %d, want 1 to %d", k.prefix+key, v[i], i, math.MaxInt32))
		}
		out[i] = int(v[i])
	}
	return out
}

// float reads a finite number above zero.
func (k *keys) float(key string, fallback float64) float64 {
	v, ok, err := k.file.Float(k.prefix + key)
	k.fail(err)
	switch {
	case err != nil || !ok:
		return fallback
	case !(v > 0) || math.IsInf(v, 0):
		k.fail(fmt.Errorf("model: key %q: %g, want a finite number above 0", k.prefix+key, v))
	}
	return v
}

// readConfig reads the metadata of an architecture.
func readConfig(f *gguf.File, arch string) (*Config, error) {
	k := &keys{file: f, prefix: arch + "."}
	c := &Config{Architecture: arch}
	c.Name, _, _ = f.String("general.name")
	if experts, ok, err := f.Uint(arch + ".expert_count"); err != nil {
		k.fail(err)
	} else if ok && experts > 0 {
		return nil, fmt.Errorf("model: %d experts: mixtures of experts are not supported", experts)
	}
	layers := k.size("block_count", -1)
	if k.err == nil && (layers > maxLayers || layers > len(f.Tensors())) {
		return nil, fmt.Errorf("model: key %q: %d layers, the file holds %d tensors", arch+".block_count", layers, len(f.Tensors()))
	}
	if k.err != nil {
		return nil, k.err
	}
	c.Width = k.size("embedding_length", -1)
	c.Context = k.size("context_length", -1)
	query := k.sizes("attention.head_count", layers, nil)
	kv := k.sizes("attention.head_count_kv", layers, query)
	ffn := k.sizes("feed_forward_length", layers, nil)
	if k.err != nil {
		return nil, k.err
	}
	for i := range layers {
		if query[i]%kv[i] != 0 {
			return nil, fmt.Errorf("model: layer %d: %d query heads do not divide among %d KV heads", i, query[i], kv[i])
		}
		c.Layers = append(c.Layers, LayerConfig{h2o.Heads{Query: query[i], KV: kv[i]}, ffn[i]})
	}
	c.HeadDim = k.size("attention.key_length", max(1, c.Width/query[0]))
	if v := k.size("attention.value_length", c.HeadDim); k.err == nil && v != c.HeadDim {
		return nil, fmt.Errorf("model: keys of %d dimensions and values of %d: they must be equal", c.HeadDim, v)
	}
	if _, ok, err := f.Float(k.prefix + "attention.layer_norm_rms_epsilon"); err == nil && !ok {
		return nil, fmt.Errorf("model: key %q is missing", k.prefix+"attention.layer_norm_rms_epsilon")
	}
	c.Eps = float32(k.float("attention.layer_norm_rms_epsilon", 0))
	c.readRope(k)
	return c, k.err
}

// readRope reads how queries and keys are rotated.
func (c *Config) readRope(k *keys) {
	c.RopeDim = k.size("rope.dimension_count", c.HeadDim)
	if k.err == nil && (c.RopeDim > c.HeadDim || c.RopeDim%2 != 0) {
		k.fail(fmt.Errorf("model: key %q: %d, want an even number up to the head's %d dimensions", k.prefix+"rope.dimension_count", c.RopeDim, c.HeadDim))
	}
	c.RopeTheta = k.float("rope.freq_base", 10000)
	c.RopeFactor = 1
	kind, typed, err := k.file.String(k.prefix + "rope.scaling.type")
	k.fail(err)
	switch {
	case !typed || kind == "linear":
		c.RopeFactor = k.float("rope.scaling.factor", k.float("rope.scale_linear", 1))
	case kind != "none":
		k.fail(fmt.Errorf("model: key %q: scaling type %q is not supported, linear and none are", k.prefix+"rope.scaling.type", kind))
	}
	t, ok := k.file.Tensor("rope_freqs.weight")
	if !ok || k.err != nil {
		return
	}
	if t.Type != gguf.F32 || t.Rows() != 1 || t.Columns() != int64(c.RopeDim/2) {
		k.fail(fmt.Errorf("model: tensor %q: %s of shape %v, want F32 of shape [%d]", t.Name, t.Type, t.Shape, c.RopeDim/2))
		return
	}
	factors := make([]float32, c.RopeDim/2)
	k.fail(gguf.Dequantize(t.Type, t.Data, factors))
	for i, v := range factors {
		if !(v > 0) || math.IsInf(float64(v), 0) {
			k.fail(fmt.Errorf("model: tensor %q: factor %d is %g, want a finite number above 0", t.Name, i, v))
		}
		c.RopeFactors = append(c.RopeFactors, float64(v))
	}
}

// ropeTable holds cos and sin of every rotation for so many positions, (positions, RopeDim/2) pairs. They are computed
// in float64: a GPU's own sine promises little, and only near zero.
func (c *Config) ropeTable(positions int) []float32 {
	half := c.RopeDim / 2
	table := make([]float32, 0, positions*half*2)
	frequencies := make([]float64, half)
	for i := range frequencies {
		frequencies[i] = math.Pow(c.RopeTheta, -2*float64(i)/float64(c.RopeDim)) / c.RopeFactor
		if c.RopeFactors != nil {
			frequencies[i] /= c.RopeFactors[i]
		}
	}
	for pos := range positions {
		for _, f := range frequencies {
			sin, cos := math.Sincos(float64(pos) * f)
			table = append(table, float32(cos), float32(sin))
		}
	}
	return table
}
