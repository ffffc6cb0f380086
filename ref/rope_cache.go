package ref

// RopeCache is the shape of a fused projection of q, k and v and of its rotation.
type RopeCache struct {
	QHeads, KVHeads int
	Dim, Pad        int          // of a head in x; in q and the cache, zero beyond Dim
	RopeDim         int          // leading dimensions that are rotated
	Halves          bool         // pairs lie RopeDim/2 apart; otherwise they are neighbours
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
			return append(widen(x[at:at+r.Dim]), make([]float64, r.Pad-r.Dim)...)
		}
		for n := range r.QHeads {
			for _, v := range r.rotated(head(n), row.Pos) {
				q = append(q, r.Scale*v)
			}
		}
		for n := range r.KVHeads {
			h := heads[row.Seq*r.KVHeads+n]
			slot := h.Offset + h.Live + i - first
			copy(pool.key(slot), Held(pool.KType, r.rotated(head(r.QHeads+n), row.Pos)))
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
		if r.Halves {
			a, b = pair, pair+half
		}
		turn := r.Turns[pos*half+pair]
		cos, sin := float64(turn[0]), float64(turn[1])
		x[a], x[b] = x[a]*cos-x[b]*sin, x[b]*cos+x[a]*sin
	}
	return x
}
