package h2o

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"vkdecode/vk"
)

// LayerImage is what a layer of the cache holds of a sequence, without what is free: a copy that can be put back, into
// this cache or into another one of the same settings.
type LayerImage struct {
	Heads   []HeadImage
	Queries []byte // the last queries of prompts, (rows, heads, HeadPad) f32; none where no policy observes them
}

// HeadImage is one KV head. Its slots are in the order in which they lie: sums depend on it, to the last bit.
type HeadImage struct {
	Budget  int    // slots after an eviction, where heads have budgets of their own; else 0
	Evicted int    // tokens so far
	Slots   []byte // (live) position, score
	K, V    []byte // (live) packed, then (live) scales, as a pool of so many slots would have them
}

// Live is the number of tokens that the head holds.
func (h *HeadImage) Live() int { return len(h.Slots) / TableBytes }

// Image copies a layer of a sequence that has seen so many tokens. The device must not be running a step.
func (c *Cache) Image(seq, layer, seen int) (*LayerImage, error) {
	entries := c.entries(layer, seq)
	table := make([]byte, entries.Size)
	if err := c.engine.Device.Read(table, entries); err != nil {
		return nil, err
	}
	image := &LayerImage{}
	k, v := c.VectorBytes()
	for kv := range c.geometry.Layers[layer].KV {
		at := table[kv*headBytes:]
		word := func(i int) int { return int(binary.LittleEndian.Uint32(at[4*i:])) }
		offset, live := word(0), word(3)
		h := HeadImage{Evicted: word(7)}
		if c.shares() {
			h.Budget = word(2)
		}
		h.Slots, h.K, h.V = make([]byte, live*TableBytes), make([]byte, live*k), make([]byte, live*v)
		for _, p := range c.parts(layer, offset, &h) {
			if err := c.engine.Device.Read(p.host, p.device); err != nil {
				return nil, err
			}
		}
		image.Heads = append(image.Heads, h)
	}
	image.Queries = make([]byte, c.QueryBytes(layer, seen))
	if len(image.Queries) > 0 {
		if err := c.engine.Device.Read(image.Queries, c.queries(layer, seq, len(image.Queries))); err != nil {
			return nil, err
		}
	}
	return image, nil
}

// SetImage puts a layer back, for a sequence that has seen so many tokens. An image that no cache of these settings can
// have left is refused, before anything is written.
func (c *Cache) SetImage(seq, layer, seen int, image *LayerImage) error {
	heads := c.geometry.Layers[layer].KV
	if len(image.Heads) != heads || len(image.Queries) != c.QueryBytes(layer, seen) {
		return fmt.Errorf("h2o: layer %d: an image of %d KV heads with %d bytes of queries, want %d and %d", layer, len(image.Heads), len(image.Queries), heads, c.QueryBytes(layer, seen))
	}
	k, v := c.VectorBytes()
	for kv := range image.Heads {
		if h := &image.Heads[kv]; len(h.K) != h.Live()*k || len(h.V) != h.Live()*v || len(h.Slots) != h.Live()*TableBytes {
			return fmt.Errorf("h2o: layer %d, KV head %d: %d live slots with %d bytes of K and %d of V, want %d and %d", layer, kv, h.Live(), len(h.K), len(h.V), h.Live()*k, h.Live()*v)
		}
	}
	return c.put(seq, layer, seen, image)
}

// put is SetImage for an image whose heads may be without keys and values: those of the slots then stay as they are.
func (c *Cache) put(seq, layer, seen int, image *LayerImage) error {
	entries := c.entries(layer, seq)
	table := make([]byte, entries.Size)
	if err := c.engine.Device.Read(table, entries); err != nil {
		return err
	}
	offsets, err := c.place(layer, seq, seen, image, table)
	if err != nil {
		return err
	}
	for kv := range image.Heads {
		h := &image.Heads[kv]
		parts := c.parts(layer, offsets[kv], h)
		if c.ranked() && h.Live() > 0 {
			parts = append(parts, part{h.ranks(), c.pools[layer].slots.Slice(int64(c.pools[layer].ranks)*TableBytes+int64(offsets[kv])*4, int64(h.Live())*4)})
		}
		for _, p := range parts {
			if err := c.engine.Device.Write(p.device, p.host); err != nil {
				return err
			}
		}
	}
	if len(image.Queries) > 0 {
		if err := c.engine.Device.Write(c.queries(layer, seq, len(image.Queries)), image.Queries); err != nil {
			return err
		}
	}
	return c.engine.Device.Write(entries, table)
}

// place checks the heads of an image, writes into the entries of the table what it says of them, and returns where their
// slots lie.
func (c *Cache) place(layer, seq, seen int, image *LayerImage, table []byte) (offsets []int, err error) {
	plan, heads := c.Plan.Layers[layer], c.geometry.Layers[layer].KV
	next, budgets := c.base[layer]+seq*heads*(plan.Budget+c.Plan.Added), 0
	for kv := range image.Heads {
		h, at := &image.Heads[kv], table[kv*headBytes:]
		word := func(i int) int { return int(binary.LittleEndian.Uint32(at[4*i:])) }
		set := func(i, v int) { binary.LittleEndian.PutUint32(at[4*i:], uint32(v)) }
		budgets += h.Budget
		if c.shares() { // shaders/share.comp gives heads their place like this
			set(0, next)
			set(1, h.Budget+c.Plan.Added)
			set(2, h.Budget)
			next += h.Budget + c.Plan.Added
		}
		end := c.base[layer] + c.seqs*heads*plan.Capacity
		switch offset, capacity := word(0), word(1); {
		case c.shares() && budgets > heads*plan.Budget || !c.shares() && h.Budget != 0:
			err = fmt.Errorf("a budget of %d slots of its own, and the layer has %d for each head", h.Budget, plan.Budget)
		case h.Live() > capacity || h.Live() > end-offset:
			err = fmt.Errorf("%d live slots, there is room for %d", h.Live(), max(0, min(capacity, end-offset)))
		default:
			err = c.checkHead(h, seen)
		}
		if err != nil {
			return nil, fmt.Errorf("h2o: layer %d, KV head %d: %w", layer, kv, err)
		}
		set(3, h.Live())
		set(7, h.Evicted)
		set(12, 0) // nothing was evicted in a step of this cache
		offsets = append(offsets, word(0))
	}
	return offsets, nil
}

// checkHead tells what is wrong with the slots of a head after so many tokens.
func (c *Cache) checkHead(h *HeadImage, seen int) error {
	if h.Evicted < 0 || h.Live()+h.Evicted != seen {
		return fmt.Errorf("%d live tokens and %d evicted, of %d", h.Live(), h.Evicted, seen)
	}
	before := -1
	for _, i := range h.order() {
		s := readLogged(h.Slots[i*TableBytes:])
		switch {
		case int64(s.pos) >= int64(seen):
			return fmt.Errorf("position %d, after %d tokens", s.pos, seen)
		case int(s.pos) == before:
			return fmt.Errorf("position %d twice", s.pos)
		case math.IsNaN(float64(s.score)) || math.IsInf(float64(s.score), 0):
			return fmt.Errorf("position %d has score %g, want a finite number", s.pos, s.score)
		}
		before = int(s.pos)
	}
	return nil
}

// order lists the slots by position.
func (h *HeadImage) order() []int {
	order := make([]int, h.Live())
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Compare(binary.LittleEndian.Uint32(h.Slots[a*TableBytes:]), binary.LittleEndian.Uint32(h.Slots[b*TableBytes:]))
	})
	return order
}

// ranks are the slots' (live) u32: how many live tokens have a lower position.
func (h *HeadImage) ranks() []byte {
	ranks := make([]byte, h.Live()*4)
	for rank, slot := range h.order() {
		binary.LittleEndian.PutUint32(ranks[slot*4:], uint32(rank))
	}
	return ranks
}

// part is a piece of an image and its place on the device.
type part struct {
	host   []byte
	device vk.Range
}

// parts are the pieces of a head whose slots begin at the offset, without keys and values where it has none.
func (c *Cache) parts(layer, offset int, h *HeadImage) (all []part) {
	p, live, pad := c.pools[layer], h.Live(), c.geometry.HeadPad(c.Plan.Types)
	if live == 0 {
		return nil
	}
	all = append(all, part{h.Slots, p.slots.Slice(int64(offset)*TableBytes, int64(len(h.Slots)))})
	vectors := func(l layout, host []byte, tensor vk.Range, plane uint32) {
		if host == nil {
			return
		}
		packed, scales := pad/l.pack*quadBytes, l.scales(pad)*scaleBytes // bytes of a slot
		all = append(all, part{host[:live*packed], tensor.Slice(int64(offset*packed), int64(live*packed))})
		if scales > 0 {
			all = append(all, part{host[live*packed:], tensor.Slice(int64(plane)*quadBytes+int64(offset*scales), int64(live*scales))})
		}
	}
	vectors(layouts[c.Plan.Types.K], h.K, p.k.Range, p.kPlane)
	vectors(layouts[c.Plan.Types.V], h.V, p.v.Range, p.vPlane)
	return all
}

// VectorBytes are the sizes of K and V of a slot.
func (c *Cache) VectorBytes() (k, v int) {
	pad := c.geometry.HeadPad(c.Plan.Types)
	return int(layouts[c.Plan.Types.K].bytes(pad)), int(layouts[c.Plan.Types.V].bytes(pad))
}

// shares tells whether heads have budgets of their own.
func (c *Cache) shares() bool { return c.Plan.Staged && c.Plan.Prefill.Share == PerHead }

// entries are a layer's part of the table for a sequence.
func (c *Cache) entries(layer, seq int) vk.Range {
	return c.table.Slice(int64(c.index(layer, seq, 0))*headBytes, int64(c.geometry.Layers[layer].KV)*headBytes)
}

// QueryBytes is the size of the queries that a layer keeps of a sequence that has seen so many tokens.
func (c *Cache) QueryBytes(layer, seen int) int {
	return min(seen, c.Observes()) * c.geometry.Layers[layer].Query * c.geometry.HeadPad(c.Plan.Types) * 4
}

// queries is where they lie.
func (c *Cache) queries(layer, seq, bytes int) vk.Range {
	row := c.geometry.Layers[layer].Query * c.geometry.HeadPad(c.Plan.Types) * 4
	return c.ringOf(layer).Slice(int64(seq*c.Observes()*row), int64(bytes))
}
