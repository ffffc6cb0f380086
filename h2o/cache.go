package h2o

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"vkdecode/runtime"
)

// headBytes is the size of one entry of a table: four elements of four u32, laid out as in include/heads.glsl.
const headBytes = 64

// Rotation is how queries and keys are turned by their position.
type Rotation struct {
	Dim    int             // leading dimensions that are turned
	Halves bool            // pairs lie Dim/2 apart; otherwise they are neighbours
	Table  *runtime.Tensor // (positions, Dim/2) cos, sin f32
}

// Cache is the KV cache of a session: pools, tables and the scratch of attention.
type Cache struct {
	Plan     *Plan
	geometry Geometry
	engine   *runtime.Engine
	seqs     int
	rows     int // rows of a step, at most

	pools   []*pool         // by layer; joined: all are one
	base    []int           // per layer: its first slot in the pool
	joined  bool            // the layers' slots lie together, so that a step settles all layers at once
	table   *runtime.Tensor // (layers, seqs, KV heads) entries
	first   []int           // per layer: its first entry in the tables
	moves   *runtime.Tensor
	log     *runtime.Tensor
	scratch scratch
	stage   *stage // nil unless the plan is staged
	filled  bool   // K and V hold numbers: Fill
}

// pool is K, V, position and score of slots, in the types of the plan.
type pool struct {
	k, v           *runtime.Tensor
	slots          *runtime.Tensor // (slots) position, score; ranks
	kPlane, vPlane uint32          // first uvec4 of scales
	ranks          uint32          // first element of ranks in slots
}

// newPool plans a pool for layers of so many slots.
func (c *Cache) newPool(a *runtime.Arena, name string, layers ...int) *pool {
	k, v, pad := layouts[c.Plan.Types.K], layouts[c.Plan.Types.V], c.geometry.HeadPad(c.Plan.Types)
	var slots, kBytes, vBytes int64
	for _, n := range layers {
		slots, kBytes, vBytes = slots+int64(n), kBytes+k.tensorBytes(pad, n), vBytes+v.tensorBytes(pad, n)
	}
	bytes, ranks := slots*TableBytes, uint32(0)
	if c.ranked() {
		bytes, ranks = bytes+(slots+1)/2*8, uint32(slots)
	}
	return &pool{
		k: a.Tensor("kv.k."+name, kBytes), v: a.Tensor("kv.v."+name, vBytes),
		kPlane: k.plane(pad, slots), vPlane: v.plane(pad, slots),
		slots: a.Tensor("slots."+name, bytes), ranks: ranks,
	}
}

// ranked tells whether slots need to know how many tokens come before them: to be renumbered, or put in order.
func (c *Cache) ranked() bool { return c.Plan.Renumber || c.Plan.Staged }

// NewCache plans the memory of a cache for so many sequences and rows per step.
func NewCache(e *runtime.Engine, a *runtime.Arena, g Geometry, p *Plan, seqs, rows int) (*Cache, error) {
	c := &Cache{Plan: p, geometry: g, engine: e, seqs: seqs, rows: rows}
	var slots []int // by layer
	all, entries := 0, 0
	for i, l := range g.Layers {
		slots = append(slots, seqs*l.KV*p.Layers[i].Capacity)
		c.base, c.first = append(c.base, all), append(c.first, entries)
		all, entries = all+slots[i], entries+seqs*l.KV
	}
	if c.joined = c.joins(all); c.joined {
		c.pools = slices.Repeat([]*pool{c.newPool(a, "layers", slots...)}, len(slots))
	} else {
		clear(c.base)
		for i, l := range g.Layers {
			if err := c.fits(fmt.Sprintf("layer %d", i), seqs*l.KV, p.Layers[i].Capacity); err != nil {
				return nil, err
			}
			c.pools = append(c.pools, c.newPool(a, fmt.Sprint(i), slots[i]))
		}
	}
	if err := c.walks(); err != nil {
		return nil, err
	}
	c.table = a.Tensor("table.heads", int64(entries)*headBytes)
	c.moves = a.Tensor("table.moves", int64(entries*p.Added)*8)
	logged := entries * p.Added
	if p.Staged {
		if err := c.fits("a prompt", seqs*g.mostKV(), p.Work); err != nil {
			return nil, err
		}
		c.stage = c.newStage(a, entries)
		logged = max(logged, c.stage.logged)
	}
	c.log = a.Tensor("table.log", int64(logged)*8)
	c.planScratch(a)
	return c, nil
}

// joins tells whether the layers can have their so many slots in one pool: one sequence, heads that are the same in every
// layer, and buffers that the device can bind as a whole.
func (c *Cache) joins(slots int) bool {
	k, v := c.VectorBytes()
	const table = 3 * TableBytes // with ranks a slot takes one and a half elements of eight bytes, and elements are limited, too
	return !c.engine.Tuning.Unjoined && c.seqs == 1 && c.geometry.alike() && int64(slots)*int64(max(k, v, table)) <= c.engine.Bindable()
}

// fits tells whether K and V of a pool can be bound.
func (c *Cache) fits(what string, heads, capacity int) error {
	p, limit := c.Plan, c.engine.Bindable()
	k, v := c.VectorBytes()
	name, bytes := "K", int64(k)
	if v > k {
		name, bytes = "V", int64(v)
	}
	if need := int64(heads*capacity) * bytes; need > limit {
		fit := int(limit / (int64(heads) * bytes)) // slots per KV head
		return fmt.Errorf("h2o: %s of %s takes %d bytes, the device binds %d at most: %d of %d slots per KV head fit; try --ctx %d, or a policy that evicts with --budget %d",
			name, what, need, limit, fit, capacity, fit, max(1, fit-p.Chunk))
	}
	return nil
}

// walks tells whether the loops of kernels that choose victims reach all slots: of a head, or where the heads of a layer
// share its slots, of all of them.
func (c *Cache) walks() error {
	p, limit := c.Plan, c.engine.Tuning.Walk
	slots := max(c.most(), p.Work)
	if c.shares() {
		slots *= c.geometry.mostKV()
	}
	if limit == 0 || !p.Evicts() || slots <= limit {
		return nil
	}
	return fmt.Errorf("h2o: evictions from %d slots, and the loops of this device's driver end after %d: try a smaller --budget, --ctx or prompt, or another device", slots, limit)
}

// Reset empties the cache: every head has its run of slots and no token in it.
func (c *Cache) Reset() error {
	err := c.writeTable(c.table, func(layer, head int) entry {
		l := c.Plan.Layers[layer]
		return entry{offset: c.base[layer] + head*l.Capacity, capacity: l.Capacity, budget: l.Budget, recent: l.Recent, policy: c.Plan.Policy, slack: uint32(c.Plan.Policy.Every - 1)}
	})
	if err != nil || c.stage == nil {
		return err
	}
	const never = math.MaxUint32 // evictions wait for the end of the stage
	return c.writeTable(c.stage.table, func(layer, head int) entry {
		l := c.Plan.Layers[layer]
		return entry{offset: head * c.Plan.Work, capacity: c.Plan.Work, budget: l.Budget, recent: l.Prompt, policy: c.Plan.Prefill, slack: never}
	})
}

// entry is what a table says of a head that has no token yet.
type entry struct {
	offset, capacity, budget, recent int
	policy                           *Policy
	slack                            uint32
}

func (c *Cache) writeTable(table *runtime.Tensor, of func(layer, head int) entry) error {
	image := make([]byte, table.Bytes)
	for layer, l := range c.geometry.Layers {
		for i := range c.seqs * l.KV {
			e := of(layer, i)
			words := [headBytes / 4]uint32{
				0: uint32(e.offset), uint32(e.capacity), uint32(e.budget), 0,
				4: uint32(e.recent), uint32(c.Plan.Sinks), e.policy.word(), 0,
				13: math.Float32bits(e.policy.Decay), e.policy.Seed, e.slack,
			}
			for s, span := range c.Plan.Pinned {
				words[8+2*s], words[9+2*s] = uint32(span.Begin), uint32(span.End)
			}
			at := image[(c.first[layer]+i)*headBytes:]
			for w, v := range words {
				binary.LittleEndian.PutUint32(at[4*w:], v)
			}
		}
	}
	return c.engine.Device.Write(table.Range, image)
}

func ceil(a, b int) int { return (a + b - 1) / b }
