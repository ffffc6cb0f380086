package ref

// RopeCache is the shape of a fused projection of q, k and v and of its rotation.
type RopeCache struct {
	QHeads, KVHeads int
	Dim, Pad        int          // of a head in x; in q and the cache, zero beyond Dim
	RopeDim         int          // leading dimensions that are rotated
	Halves          bool         // pairs lie RopeDim/2 apart; otherwise they are neighbours
	Renumber        bool         // q is rotated to its token's place among the live ones, k is not, its pairs side by side
	Scale           float64      // of q
	Turns           [][2]float32 // (positions, RopeDim/2) cos, sin
}

// Append rotates the rows of a step, x (rows, QHeads + 2 KVHeads, Dim). k and v enter the pool behind the live slots of
// their heads, which are (sequences, KVHeads); q (rows, QHeads, Pad) is returned.
func (r *RopeCache) Append(rows []Row, x []float32, heads []Head, pool *Pool) (q []float64) {
	for i, row := range rows {
		first, _ := rowsOf(rows, row.Seq)
		head := func(n int) []float64 {
			at := (i*(r.QHeads+2*r.KVHeads) + n) * r.Dim
			return append(Widen(x[at:at+r.Dim]), make([]float64, r.Pad-r.Dim)...)
		}
		of := func(kv int) (h Head, place int) { // a KV head, and where the row's token stands in it
			h = heads[row.Seq*r.KVHeads+kv]
			return h, h.Live + i - first
		}
		for n := range r.QHeads {
			x, pos := head(n), row.Pos
			if r.Renumber {
				_, pos = of(n * r.KVHeads / r.QHeads)
				x = r.paired(x)
			}
			for _, v := range r.rotated(x, pos) {
				q = append(q, r.Scale*v)
			}
		}
		for n := range r.KVHeads {
			h, place := of(n)
			slot, k := h.Offset+place, head(r.QHeads+n)
			if r.Renumber {
				k = r.paired(k)
			} else {
				k = r.rotated(k, row.Pos)
			}
			copy(pool.key(slot), Held(pool.KType, k))
			copy(pool.value(slot), Held(pool.VType, head(r.QHeads+r.KVHeads+n)))
			pool.Slots[slot] = Slot{Pos: row.Pos, Score: h.Born(row.Pos)}
		}
	}
	return q
}

// rotated turns the pairs (a, b) of a head into (a cos - b sin, b cos + a sin), in place.
func (r *RopeCache) rotated(x []float64, pos int) []float64 {
	half := r.RopeDim / 2
	for pair := range half {
		a, b := 2*pair, 2*pair+1
		if r.Halves && !r.Renumber {
			a, b = pair, pair+half
		}
		turn := r.Turns[pos*half+pair]
		cos, sin := float64(turn[0]), float64(turn[1])
		x[a], x[b] = x[a]*cos-x[b]*sin, x[b]*cos+x[a]*sin
	}
	return x
}

// paired is a head with its pairs side by side.
func (r *RopeCache) paired(x []float64) []float64 {
	out := append([]float64{}, x...)
	for pair := range r.RopeDim / 2 {
		if r.Halves {
			out[2*pair], out[2*pair+1] = x[pair], x[pair+r.RopeDim/2]
		}
	}
	return out
}

// Turned is the pool with the keys of a head's first slots rotated to these places: the first dims dimensions of each,
// whose pairs lie side by side. turns is (places, dims/2) cos, sin.
func (p *Pool) Turned(h Head, places []int, turns [][2]float32, dims int) *Pool {
	turned := *p
	turned.K = append([]float64{}, p.K...)
	r := RopeCache{RopeDim: dims, Turns: turns}
	for slot, place := range places {
		r.rotated(turned.key(h.Offset+slot), place)
	}
	return &turned
}
