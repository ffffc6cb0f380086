package h2o

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// State is what the cache holds, for reports and tests.
type State struct {
	Layers []LayerState `json:"layers"`
}

// LayerState is one layer of a State.
type LayerState struct {
	Heads []HeadState `json:"heads"`
}

// HeadState is one KV head of one sequence: its live slots by ascending position.
type HeadState struct {
	Positions []uint32  `json:"positions"`
	Scores    []float32 `json:"scores"`
	Evicted   int       `json:"evicted"`          // tokens evicted so far
	Budget    int       `json:"budget,omitempty"` // slots that an eviction leaves, 0 if there is none
}

// State reads the live slots of a sequence. The device must not be running a step.
func (c *Cache) State(seq int) (*State, error) {
	table, err := c.readTable()
	if err != nil {
		return nil, err
	}
	s := &State{}
	for layer, l := range c.geometry.Layers {
		pool := make([]byte, c.seqs*l.KV*c.Plan.Layers[layer].Capacity*TableBytes)
		if err := c.engine.Device.Read(pool, c.pools[layer].slots.Slice(int64(c.base[layer]*TableBytes), int64(len(pool)))); err != nil {
			return nil, err
		}
		heads := LayerState{}
		for kv := range l.KV {
			entry := c.entry(table, layer, seq, kv)
			offset, live := int(entry(0))-c.base[layer], entry(3)
			slots := make([]logged, live)
			for i := range slots {
				slots[i] = readLogged(pool[TableBytes*(offset+i):])
			}
			slices.SortFunc(slots, func(a, b logged) int { return cmp.Compare(a.pos, b.pos) })
			h := HeadState{Positions: []uint32{}, Scores: []float32{}, Evicted: int(entry(7))}
			if c.Plan.Policy.Evicts {
				h.Budget = int(entry(2))
			}
			for _, s := range slots {
				h.Positions = append(h.Positions, s.pos)
				h.Scores = append(h.Scores, s.score)
			}
			heads.Heads = append(heads.Heads, h)
		}
		s.Layers = append(s.Layers, heads)
	}
	return s, nil
}

// Counts are how full a sequence's part of the cache is.
type Counts struct {
	Kept    int // live slots of the fullest KV head
	Evicted int // evictions over all layers and heads
}

// Counts reads the table. The device must not be running a step.
func (c *Cache) Counts(seq int) (n Counts, err error) {
	table, err := c.readTable()
	if err != nil {
		return n, err
	}
	for layer, l := range c.geometry.Layers {
		for kv := range l.KV {
			entry := c.entry(table, layer, seq, kv)
			n.Kept = max(n.Kept, int(entry(3)))
			n.Evicted += int(entry(7))
		}
	}
	return n, nil
}

// Room is how many tokens every KV head of a sequence has free slots for. The device must not be running a step.
func (c *Cache) Room(seq int) (room int, err error) {
	table, err := c.readTable()
	room = math.MaxInt
	for layer, l := range c.geometry.Layers {
		for kv := range l.KV {
			entry := c.entry(table, layer, seq, kv)
			room = min(room, int(entry(1))-int(entry(3)))
		}
	}
	return room, err
}

// Live counts a sequence's live slots by layer, those of all its KV heads. The device must not be running a step.
func (c *Cache) Live(seq int) ([]int, error) {
	table, err := c.readTable()
	if err != nil {
		return nil, err
	}
	live := make([]int, len(c.geometry.Layers))
	for layer, l := range c.geometry.Layers {
		for kv := range l.KV {
			live[layer] += int(c.entry(table, layer, seq, kv)(3))
		}
	}
	return live, nil
}

// Eviction is one token that lost its slot in one KV head.
type Eviction struct {
	Step     int     `json:"step"` // tokens the sequence had seen, the step's own included
	Layer    int     `json:"layer"`
	Head     int     `json:"head"`     // KV head
	Position uint32  `json:"position"` // of the token in the sequence
	Token    int32   `json:"token"`
	Score    float32 `json:"score"`
	Reason   string  `json:"reason"`
}

// reasonBudget is why a token goes: more slots were live than the budget allows.
const reasonBudget = "budget"

// Evicted reads what the last step evicted from a sequence, which had seen so many tokens after it: by layer and head,
// lowest score first. Token is left to the caller. The device must not be running a step.
func (c *Cache) Evicted(seq, seen int) ([]Eviction, error) {
	return c.evicted(seq, seen, 0, len(c.pools), c.Plan.Added, 0)
}

// EvictedFrom is the same for a chunk of a prompt; in a plan that is exact, for the layer that was just left.
func (c *Cache) EvictedFrom(seq, seen, layer int) ([]Eviction, error) {
	switch {
	case c.stage == nil:
		return c.Evicted(seq, seen)
	case c.Plan.Exact:
		return c.evicted(seq, seen, layer, layer+1, c.stage.logSize, c.first[layer])
	}
	return c.evicted(seq, seen, 0, len(c.pools), c.stage.logSize, 0)
}

// evicted reads the log of layers, which begins with an entry and has so many places for each.
func (c *Cache) evicted(seq, seen, begin, end, size, origin int) (all []Eviction, err error) {
	table, err := c.readTable()
	if err != nil {
		return nil, err
	}
	log := make([]byte, c.log.Bytes)
	if err := c.engine.Device.Read(log, c.log.Range); err != nil {
		return nil, err
	}
	for layer := begin; layer < end; layer++ {
		for kv := range c.geometry.Layers[layer].KV {
			victims := make([]logged, c.entry(table, layer, seq, kv)(12))
			at := (c.index(layer, seq, kv) - origin) * size * TableBytes
			for i := range victims {
				victims[i] = readLogged(log[at+i*TableBytes:])
			}
			slices.SortFunc(victims, func(a, b logged) int {
				return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.pos, b.pos))
			})
			for _, v := range victims {
				all = append(all, Eviction{Step: seen, Layer: layer, Head: kv, Position: v.pos, Score: v.score, Reason: reasonBudget})
			}
		}
	}
	return all, nil
}

type logged struct {
	pos   uint32
	score float32
}

func readLogged(b []byte) logged {
	return logged{binary.LittleEndian.Uint32(b), math.Float32frombits(binary.LittleEndian.Uint32(b[4:]))}
}

func (c *Cache) readTable() ([]byte, error) {
	table := make([]byte, c.table.Bytes)
	return table, c.engine.Device.Read(table, c.table.Range)
}

func (c *Cache) index(layer, seq, kv int) int {
	return c.first[layer] + seq*c.geometry.Layers[layer].KV + kv
}

// entry gives access to the words of one head's entry.
func (c *Cache) entry(table []byte, layer, seq, kv int) func(word int) uint32 {
	at := c.index(layer, seq, kv) * headBytes
	return func(word int) uint32 { return binary.LittleEndian.Uint32(table[at+4*word:]) }
}
