package tests

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"vkdecode/h2o"
	"vkdecode/ref"
	"vkdecode/runtime"
	"vkdecode/shaders"
)

// stepWord is a word of a sequence's element of the step: its first row, its rows, its flags, tokens that they add.
func stepWord(seq, word int) int { return 4*(1+runtime.StepRows+seq) + word }

const flagsWord, addedWord = 2, 3

// counted makes the tokens of the step's rows live ones, in slots by ascending position: what a work pool holds after a
// chunk.
func counted(h *ref.Head, slots []ref.Slot) {
	h.Live = len(slots)
	slices.SortFunc(slots, func(a, b ref.Slot) int { return cmp.Compare(a.Pos, b.Pos) })
}

// mapWords is how many words of a map a head has.
func mapWords(capacity int) int { return 4 + capacity }

// mapped writes what a map says of a head: which slots are copied.
func mapped(words []uint32, head, capacity, from, to int, list []int) {
	at := words[head*mapWords(capacity):]
	copy(at, []uint32{uint32(len(list)), uint32(from), uint32(to)})
	for i, slot := range list {
		at[4+i] = uint32(slot)
	}
}

// enterCase brings a layer's tokens into the work pool, in order of position.
type enterCase struct {
	types    h2o.Types
	dim      int
	kvHeads  int
	seqs     []sequence
	rule     ref.Rule // of the prompt
	measured bool     // the scores that are there tell of attention
	begins   bool     // the prompt begins whatever its rows say
	forge    func(c *cacheRig)
}

func (c enterCase) String() string {
	return fmt.Sprintf("%v of %d, %d heads, %v live and new, %+v, measured %t, begins %t", c.types, c.dim, c.kvHeads, c.seqs, c.rule, c.measured, c.begins)
}

func enterCases(l launch) (all []opCase) {
	all = append(all, enterCase{types: h2o.Types{K: "f16", V: "f16"}, dim: 20, kvHeads: 1, seqs: []sequence{{live: 1, rows: 1}}})
	for i, types := range []h2o.Types{{K: "f16", V: "q8_0"}, {K: "q4_0", V: "f32"}, {K: "q8_0", V: "q4_0"}, {K: "f32", V: "f16"}} {
		all = append(all, enterCase{types: types, dim: []int{80, 20}[i%2], kvHeads: 1 + i%3, seqs: []sequence{{live: 2*l.lanes + 3, rows: 2}, {rows: 3}, {live: 7}, {live: 6, rows: 1, place: 9}},
			rule: []ref.Rule{{Birth: ref.BirthPosition}, {Update: ref.UpdateAdd, Decay: 1}}[i%2], measured: i < 2, begins: i%3 == 1})
	}
	return all
}

func (c enterCase) run(b *bench, l launch) error {
	rnd := rand.New(rand.NewPCG(21, uint64(c.dim)))
	pad := padOf(c.types, c.dim)
	r := b.newCache(l, rnd, c.types, pad, c.kvHeads, c.seqs, nil)
	defer r.free()
	heads, capacity := len(r.heads), r.capacity()+3
	words := randomTable(rnd, heads)
	for i := range heads {
		words[16*(others+i)+6] = uint32(ruleWord(c.rule))
	}
	table, work, list := in(r.rig, "prompt table", words), r.out("work", heads*capacity*2), r.out("map", heads*mapWords(capacity))
	r.add(shaders.Enter{Lanes: uint32(l.lanes), KvHeads: uint32(c.kvHeads), Measured: word(c.measured), Begins: word(c.begins), Head: others, Ranks: r.ranksAt, Capacity: uint32(capacity),
		Step: r.step.Range, Table: r.table.Range, Slots: r.slots.Range, PromptTable: table.Range, WorkSlots: work.Range, Map: list.Range}, "", "", c.kvHeads, len(c.seqs), 1)
	k, v := r.gather("work k", c.types.K, r.k, r.kPlane, list, capacity), r.gather("work v", c.types.V, r.v, r.vPlane, list, capacity)
	wantTable, wantWork, wantMap := r.words(table), r.words(work), r.words(list)
	wantK, wantV := r.words(k), r.words(v)
	if err := r.rig.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(r)
	}
	for i, h := range r.heads {
		if added, _ := r.added(i / c.kvHeads); added == 0 { // no rows, no stage
			wantMap[i*mapWords(capacity)] = 0
			continue
		}
		order := r.twin.Enter(h)
		mapped(wantMap, i, capacity, h.Offset, i*capacity, order)
		ref.Gather(wantWork, i*capacity, r.slotWords(), h.Offset, order, 2)
		for n, slot := range order {
			if place := c.seqs[i/c.kvHeads].place; place == 0 || c.begins {
				s := r.twin.Slots[h.Offset+slot]
				wantWork[2*(i*capacity+n)+1] = math.Float32bits(c.rule.Begin(s.Score, s.Pos, c.measured))
			}
		}
		r.gathered(wantK, c.types.K, capacity, i, r.words(r.k), order)
		r.gathered(wantV, c.types.V, capacity, i, r.words(r.v), order)
		wantTable[16*(others+i)+3], wantTable[16*(others+i)+7] = uint32(h.Live), uint32(h.Evicted)
	}
	for _, x := range []struct {
		t    *tensor
		want []uint32
	}{{list, wantMap}, {work, wantWork}, {table, wantTable}, {k, wantK}, {v, wantV}, {r.table, r.tableWords()}} {
		if err := compareWords(x.t.name, r.words(x.t), x.want); err != nil {
			return err
		}
	}
	return r.compareCache(exact, exact)
}

// randomTable is the table of so many heads behind those of another layer.
func randomTable(rnd *rand.Rand, heads int) []uint32 {
	words := make([]uint32, 16*(others+heads))
	for i := range words {
		words[i] = rnd.Uint32()
	}
	return words
}

// gather appends the copy of K or V of listed slots into a tensor with room for so many of each head.
func (c *cacheRig) gather(name, cacheType string, from *tensor, plane uint32, list *tensor, capacity int) *tensor {
	layout := layoutOf(cacheType, len(c.heads)*capacity, c.twin.Pad)
	to := c.out(name, layout.words)
	c.add(shaders.Gather{Lanes: uint32(c.lanes), Quads: uint32(layout.quads), Scales: uint32(layout.scales), Capacity: uint32(capacity), FromPlane: plane, ToPlane: uint32(layout.plane / 4),
		Step: c.step.Range, Map: list.Range, From: from.Range, To: to.Range}, "", "", 1+c.kvHeads, len(c.heads), 1)
	return to
}

// gathered copies what K or V has of a head's listed slots, data and scales.
func (c *cacheRig) gathered(to []uint32, cacheType string, capacity, head int, from []uint32, list []int) {
	a, b := layoutOf(cacheType, len(c.twin.Slots), c.twin.Pad), layoutOf(cacheType, len(c.heads)*capacity, c.twin.Pad)
	offset := c.heads[head].Offset
	ref.Gather(to, head*capacity, from, offset, list, a.data)
	ref.Gather(to[b.plane:], head*capacity, from[a.plane:], offset, list, a.scales)
}

// chooseCase ends a stage.
type chooseCase struct {
	kvHeads        int
	seqs           []sequence
	excess         []int // per sequence, where so many are eligible
	scores         scoring
	ends, measured bool
	exact          bool // the log is the layer's alone
	seed           uint64
	forge          func(c *cacheRig)
}

func (c chooseCase) String() string {
	return fmt.Sprintf("%d heads, %v live and new, %v go, ends %t, measured %t, exact %t, seed %d", c.kvHeads, c.seqs, c.excess, c.ends, c.measured, c.exact, c.seed)
}

func chooseCases(l launch) (all []opCase) {
	for seed, c := range []chooseCase{
		{kvHeads: 2, seqs: []sequence{{live: 40, rows: 5}, {live: 9}, {rows: 7}, {live: 150, rows: 1}}, excess: []int{30, 3, 2, 1}, scores: distinct, ends: true, measured: true},
		{kvHeads: 1, seqs: []sequence{{live: 700, rows: 212}, {live: 3, rows: 1}, {live: 20, rows: 20}}, excess: []int{912, 0, 20}, scores: tied, measured: true, exact: true},
		{kvHeads: 3, seqs: []sequence{{live: 2 * l.lanes, rows: 2}, {rows: 1}}, excess: []int{9, 1}, scores: equal, ends: true},
		{kvHeads: 3, seqs: []sequence{{live: 64, rows: 40}}, excess: []int{70}, scores: tied, ends: true, measured: true, exact: true},
	} {
		c.seed = uint64(seed)
		all = append(all, c)
	}
	if l.many { // lavapipe's loops end after 65,535 iterations
		all = append(all, chooseCase{kvHeads: 1, seqs: []sequence{{live: 140_000, rows: 40}}, excess: []int{90_000}, scores: distinct, exact: true})
	}
	return all
}

func (c chooseCase) run(b *bench, l launch) error {
	rnd := rand.New(rand.NewPCG(22, c.seed))
	last := make([]int, len(c.seqs))
	r := b.newCache(l, rnd, h2o.Types{K: "f16", V: "f16"}, 8, c.kvHeads, c.seqs, func(h *ref.Head, seq int, slots []ref.Slot) {
		counted(h, slots)
		for i := range slots {
			slots[i].Score = c.scores(rnd)
			last[seq] = slots[i].Pos
		}
		h.Recent, h.Sinks, h.Admit, h.Slack = rnd.IntN(1+len(slots)/4), rnd.IntN(5), rnd.IntN(2) == 1, math.MaxUint32
		begin := rnd.IntN(last[seq] + 1)
		h.Pinned[1] = ref.Span{Begin: begin, End: begin + rnd.IntN(1+last[seq]/8)}
		h.Budget = len(slots) - min(c.excess[seq], eligible(h, slots, last[seq]))
	})
	defer r.free()
	heads, capacity, room := len(r.heads), r.capacity(), r.capacity()+1 // slots of a head in the work pool and in its own
	pool, rules := c.pool(rnd, heads, room)
	logHead := 0
	if c.exact {
		logHead = others
	}
	table, slots := in(r.rig, "pool table", pool), r.out("pool slots", heads*room*2+(heads*room+1)/2*2)
	list, log := r.out("map", heads*mapWords(capacity)), r.out("log", (others-logHead+heads)*capacity*2)
	for seq := range c.seqs {
		if added, _ := r.added(seq); added > 0 {
			r.patch(r.step, stepWord(seq, flagsWord), 1+word(c.ends)<<1)
		}
	}
	r.add(shaders.Choose{Lanes: uint32(l.lanes), KvHeads: uint32(c.kvHeads), Measured: word(c.measured), Head: others, Ranks: uint32(heads * room), Capacity: uint32(capacity), LogHead: uint32(logHead), LogSize: uint32(capacity),
		Step: r.step.Range, Table: r.table.Range, Slots: r.slots.Range, PoolTable: table.Range, PoolSlots: slots.Range, Map: list.Range, Log: log.Range}, "", "", c.kvHeads, len(c.seqs), 1)
	wantSlots, wantMap, wantLog := r.words(slots), r.words(list), r.words(log)
	before, tableBefore := r.slotWords(), r.tableWords()
	if err := r.rig.run(); err != nil {
		return err
	}
	if c.forge != nil {
		c.forge(r)
	}
	for i := range r.heads {
		added, last := r.added(i / c.kvHeads)
		if added == 0 {
			wantMap[i*mapWords(capacity)] = 0
			continue
		}
		h := r.heads[i]
		offset := int(pool[16*(others+i)])
		kept, victims := h.Choose(r.twin, last)
		mapped(wantMap, i, capacity, h.Offset, offset, kept)
		ref.Gather(wantSlots, offset, r.slotWords(), h.Offset, kept, 2)
		ref.Gather(wantLog, (others-logHead+i)*capacity, r.slotWords(), h.Offset, victims, 2)
		for rank, slot := range kept {
			if s := r.twin.Slots[h.Offset+slot]; c.ends {
				wantSlots[2*(offset+rank)+1] = math.Float32bits(rules[i].Begin(s.Score, s.Pos, c.measured))
			}
			wantSlots[2*heads*room+offset+rank] = uint32(rank)
		}
		entry := pool[16*(others+i):]
		entry[3], entry[7], entry[12] = uint32(h.Live), uint32(h.Evicted), uint32(h.Last)
	}
	for _, x := range []struct {
		t    *tensor
		want []uint32
	}{{list, wantMap}, {log, wantLog}, {slots, wantSlots}, {table, pool}, {r.table, tableBefore}, {r.slots, before}} {
		if err := compareWords(x.t.name, r.words(x.t), x.want); err != nil {
			return err
		}
	}
	return nil
}

// pool is the table of the layer's own pool, with so many slots for each head, in no order, and the rules of decoding.
func (c chooseCase) pool(rnd *rand.Rand, heads, room int) (words []uint32, rules []ref.Rule) {
	words = randomTable(rnd, heads)
	for i, place := range rnd.Perm(heads) {
		rule := ref.Rule{Birth: rnd.IntN(3), Update: rnd.IntN(4), Reduce: rnd.IntN(3), Decay: 1}
		entry := words[16*(others+i):]
		entry[0], entry[6] = uint32(place*room), uint32(ruleWord(rule))
		rules = append(rules, rule)
	}
	return words, rules
}
