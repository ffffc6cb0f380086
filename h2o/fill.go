package h2o

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"vkdecode/runtime"
)

// noises are what the words of K and V look like by cache type, with their scales: numbers between -1 and 1.
var noises = map[string]struct{ data, scales runtime.Noise }{
	"f32":  {data: runtime.Noise{Mask: 0x807FFFFF, Value: 0x3F000000}},
	"f16":  {data: runtime.Noise{Mask: 0x83FF83FF, Value: 0x38003800}},
	"q8_0": {runtime.Noise{Mask: math.MaxUint32}, runtime.Noise{Mask: 0x03FF03FF, Value: 0x1C001C00}}, // scales from 2^-8 on
	"q4_0": {runtime.Noise{Mask: math.MaxUint32}, runtime.Noise{Mask: 0x03FF03FF, Value: 0x2C002C00}}, // from 2^-4 on
}

// Fill puts an empty sequence in the state that a prompt of so many tokens would leave, without one. The heads' live and
// evicted tokens are as many, what is protected is there, and where only positions decide who stays, the same tokens are.
// Where attention decides, any others may be: they and their scores are drawn from the seed. Keys and values are random
// numbers, the first time; later those that are there will do. The device must not be running a step.
func (c *Cache) Fill(seq, seen int, seed uint64) error {
	if !c.filled {
		if err := c.randomize(uint32(seed)); err != nil {
			return fmt.Errorf("h2o: fill: %w", err)
		}
		c.filled = true
	}
	var last *LayerImage // of a layer in which all heads are alike, and nothing is drawn
	for layer, l := range c.geometry.Layers {
		image := &LayerImage{Queries: make([]byte, c.QueryBytes(layer, seen))}
		protects := c.protects(layer, seen)
		if last != nil && c.Plan.Layers[layer] == c.Plan.Layers[layer-1] && len(last.Heads) == l.KV {
			image.Heads = last.Heads
		}
		for kv := len(image.Heads); kv < l.KV; kv++ {
			if kv > 0 && c.Plan.Prefill.alike() {
				image.Heads = append(image.Heads, image.Heads[0])
				continue
			}
			image.Heads = append(image.Heads, c.made(layer, seen, protects, rand.New(rand.NewPCG(seed, uint64(c.index(layer, seq, kv))))))
		}
		if last = nil; c.Plan.Policy.Update == UpdateNone && c.Plan.Prefill.Update == UpdateNone {
			last = image
		}
		if err := c.put(seq, layer, seen, image); err != nil {
			return err
		}
	}
	return nil
}

// protects tells which positions a prompt's last eviction may not touch.
func (c *Cache) protects(layer, seen int) func(pos int) bool {
	p := c.Plan
	recent := p.Layers[layer].Recent
	if p.Staged {
		recent = p.Layers[layer].Prompt
	}
	return func(pos int) bool {
		return pos+recent >= seen || pos < p.Sinks || slices.ContainsFunc(p.Pinned, func(s Span) bool { return s.Begin <= pos && pos < s.End })
	}
}

// made is a head after so many tokens.
func (c *Cache) made(layer, seen int, protected func(int) bool, random *rand.Rand) (h HeadImage) {
	live := seen
	if c.Plan.Evicts() {
		live = min(seen, c.Plan.Layers[layer].Budget)
	}
	if c.shares() {
		h.Budget = c.Plan.Layers[layer].Budget // a layer's heads share alike
	}
	for _, pos := range c.survivors(live, seen, protected, random) {
		h.Slots = binary.LittleEndian.AppendUint32(h.Slots, uint32(pos))
		h.Slots = binary.LittleEndian.AppendUint32(h.Slots, math.Float32bits(c.Plan.Policy.scored(pos, seen, live, random)))
	}
	h.Evicted = seen - h.Live()
	return h
}

// survivors are the positions of so many of the tokens seen, ascending.
func (c *Cache) survivors(live, seen int, protected func(int) bool, random *rand.Rand) (kept []int) {
	var open []int // to eviction
	for pos := range seen {
		if live == seen || protected(pos) {
			kept = append(kept, pos)
		} else {
			open = append(open, pos)
		}
	}
	wanted := live - len(kept)
	if rule := c.Plan.Prefill.Rule; rule.Update == UpdateNone && c.Plan.Prefill.Window == 0 {
		slices.SortStableFunc(open, func(a, b int) int { // who stays first: of equal scores, the newer
			return cmp.Or(cmp.Compare(rule.born(b), rule.born(a)), cmp.Compare(b, a))
		})
		kept = append(kept, open[:min(len(open), max(0, wanted))]...)
	} else {
		for i, pos := range open { // selection sampling: Knuth, The Art of Computer Programming, 3.4.2, algorithm S
			if random.IntN(len(open)-i) < wanted {
				kept = append(kept, pos)
				wanted--
			}
		}
	}
	slices.Sort(kept)
	return kept
}

// born is the score that a token is born with: shaders/include/heads.glsl.
func (r Rule) born(pos int) float64 {
	switch {
	case r.Birth == BirthPosition:
		return float64(pos)
	case r.Birth == BirthLowBit && pos == 0:
		return 1 << 40
	case r.Birth == BirthLowBit:
		return float64(int64(1) << bits.TrailingZeros(uint(pos)))
	}
	return 0
}

// scored is a score that a token may have after so many tokens. What attention gives is spread widely, and older tokens had
// more of it.
func (p *Policy) scored(pos, seen, live int, random *rand.Rand) float32 {
	switch p.Update {
	case UpdateAdd:
		return float32(random.ExpFloat64() * math.Log1p(float64(seen-pos)))
	case UpdateLast:
		return float32(random.ExpFloat64() / float64(live))
	case UpdateHash:
		return float32(random.Uint32N(1<<24)) / (1 << 24)
	}
	return float32(p.Rule.born(pos))
}

// randomize writes numbers into all keys and values.
func (c *Cache) randomize(seed uint32) error {
	pad := c.geometry.HeadPad(c.Plan.Types)
	for _, name := range []string{c.Plan.Types.K, c.Plan.Types.V} {
		if _, ok := noises[name]; !ok {
			return fmt.Errorf("no random numbers of type %s; add a row to h2o.noises", name)
		}
	}
	var all []runtime.Random
	pool := func(p *pool, number uint32) {
		for i, t := range []struct {
			cacheType string
			tensor    *runtime.Tensor
			plane     uint32
		}{{c.Plan.Types.K, p.k, p.kPlane}, {c.Plan.Types.V, p.v, p.vPlane}} {
			noise, l, own := noises[t.cacheType], layouts[t.cacheType], seed^number<<8^uint32(2*i)
			data := int64(t.plane) // elements before the scales, of all where there are none
			all = append(all, runtime.Random{Noise: noise.data, Seed: own, Range: t.tensor.Range, End: data})
			if l.scales(pad) > 0 {
				all = append(all, runtime.Random{Noise: noise.scales, Seed: own ^ 1, Range: t.tensor.Range, First: data, End: t.tensor.Bytes / 16})
			}
		}
	}
	for layer, p := range c.pools {
		if layer == 0 || !c.joined {
			pool(p, uint32(layer+1))
		}
	}
	return c.engine.Randomize(all...)
}
