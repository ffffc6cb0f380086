package tests

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"vkdecode/model"
	"vkdecode/model/builtin"
	"vkdecode/model/gguf"
	"vkdecode/ref"
)

// twin is a Llama on the CPU, in float64, that never drops a token: attention goes over all of them, under a mask that
// gives -inf to those marked as gone. So it is what the cache must be equal to, fed with the cache's own evictions. It
// notes the probabilities that every token is given, of which checks make scores.
type twin struct {
	*model.Config
	embed, head matrix // (vocab, width)
	norm        []float64
	layers      []twinLayer
	ids         []int32

	turn     func(pos int) int // the position that a query is rotated by: its own, unless a control lies about it
	renumber bool              // positions are renumbered inside the cache
}

type twinLayer struct {
	attnNorm, ffnNorm []float64
	q, k, v, out      matrix
	gate, up, down    matrix
	heads             []twinHead
	given             []ref.ScoreQuery // by the rows of the last process, all query heads, by position
	queries           [][]float64      // by position, as they were rotated: (query heads, dimensions)
}

// twinHead is a KV head; everything by position.
type twinHead struct {
	keys, values [][]float64
	scores       []float64 // what checks make of the probabilities
	gone         []bool
}

// matrix is (rows, columns), row by row.
type matrix struct {
	columns int
	values  []float64
}

// newTwin reads the built-in model.
func newTwin(t testing.TB, c *model.Config) *twin {
	t.Helper()
	f, err := gguf.Parse(builtin.Model)
	if err != nil {
		t.Fatal(err)
	}
	return newTwinOf(t, c, f)
}

// newTwinOf reads a file without biases and of plain rotations.
func newTwinOf(t testing.TB, c *model.Config, f *gguf.File) *twin {
	t.Helper()
	read := func(format string, args ...any) matrix {
		weight, ok := f.Tensor(fmt.Sprintf(format+".weight", args...))
		if !ok {
			t.Fatalf("no tensor %s", fmt.Sprintf(format, args...))
		}
		values := make([]float32, weight.Rows()*weight.Columns())
		if err := gguf.Dequantize(weight.Type, weight.Data, values); err != nil {
			t.Fatal(err)
		}
		m := matrix{columns: int(weight.Columns())}
		for _, v := range values {
			m.values = append(m.values, float64(v))
		}
		return m
	}
	w := &twin{Config: c, embed: read("token_embd"), norm: read("output_norm").values, turn: func(pos int) int { return pos }}
	w.head = w.embed
	if _, untied := f.Tensor("output.weight"); untied {
		w.head = read("output")
	}
	for i, l := range c.Layers {
		w.layers = append(w.layers, twinLayer{
			attnNorm: read("blk.%d.attn_norm", i).values, ffnNorm: read("blk.%d.ffn_norm", i).values,
			q: read("blk.%d.attn_q", i), k: read("blk.%d.attn_k", i), v: read("blk.%d.attn_v", i), out: read("blk.%d.attn_output", i),
			gate: read("blk.%d.ffn_gate", i), up: read("blk.%d.ffn_up", i), down: read("blk.%d.ffn_down", i),
			heads: make([]twinHead, l.KV),
		})
	}
	return w
}

// reset forgets all tokens.
func (w *twin) reset() {
	w.ids = nil
	for i := range w.layers {
		clear(w.layers[i].heads)
		w.layers[i].given, w.layers[i].queries = nil, nil
	}
}

// process appends tokens and returns their hidden states (ids, width). The tokens see each other causally.
func (w *twin) process(ids []int32) [][]float64 {
	first := len(w.ids)
	w.ids = append(w.ids, ids...)
	x := make([][]float64, len(ids))
	for i, id := range ids {
		x[i] = append(x[i], w.embed.row(int(id))...)
	}
	for i := range w.layers {
		w.layers[i].forward(w, w.Layers[i].Query, x, first)
	}
	return x
}

// logits are those of hidden states.
func (w *twin) logits(x [][]float64) (all []float32) {
	for _, row := range w.head.times(w.normed(x, w.norm)) {
		for _, v := range row {
			all = append(all, float32(v))
		}
	}
	return all
}

// forward adds the layer's two parts to x (rows, width), whose first row has position first.
func (l *twinLayer) forward(w *twin, query int, x [][]float64, first int) {
	h := w.normed(x, l.attnNorm)
	q, k, v := l.q.times(h), l.k.times(h), l.v.times(h)
	dim, group := w.HeadDim, query/len(l.heads)
	l.given = nil
	for r := range x {
		row := ref.ScoreQuery{Pos: first + r}
		for n := range l.heads {
			if !w.renumber {
				w.rotate(k[r][n*dim:(n+1)*dim], first+r)
			}
			l.heads[n].add(k[r][n*dim:(n+1)*dim], v[r][n*dim:(n+1)*dim])
		}
		for n := range query {
			place := w.turn(first + r)
			if w.renumber {
				place = l.heads[n/group].live() - 1
			}
			w.rotate(q[r][n*dim:(n+1)*dim], place)
		}
		l.queries = append(l.queries, slices.Clone(q[r]))
		for n := range query {
			at := q[r][n*dim : (n+1)*dim]
			out, probabilities := l.heads[n/group].attend(w, at, first+r)
			copy(at, out)
			row.Probabilities = append(row.Probabilities, append(probabilities, make([]float64, len(x)-1-r)...))
		}
		l.given = append(l.given, row)
	}
	addTo(x, l.out.times(q))
	h = w.normed(x, l.ffnNorm)
	gate, up := l.gate.times(h), l.up.times(h)
	for r := range gate {
		for i, g := range gate[r] {
			up[r][i] *= g / (1 + math.Exp(-g))
		}
	}
	addTo(x, l.down.times(up))
}

func (h *twinHead) add(key, value []float64) {
	h.keys, h.values = append(h.keys, key), append(h.values, value)
	h.scores, h.gone = append(h.scores, 0), append(h.gone, false)
}

// live counts the tokens that are not gone.
func (h *twinHead) live() (n int) {
	for _, gone := range h.gone {
		if !gone {
			n++
		}
	}
	return n
}

// attend gives the mean of the values for a query that sees the tokens up to a position, and its probabilities.
func (h *twinHead) attend(w *twin, q []float64, last int) (out, probabilities []float64) {
	e, peak, sum, rank := make([]float64, len(h.keys)), math.Inf(-1), 0.0, 0
	for pos, key := range h.keys {
		if e[pos] = math.Inf(-1); !h.gone[pos] {
			if w.renumber {
				key = slices.Clone(key)
				w.rotate(key, rank)
			}
			if rank++; pos <= last {
				e[pos] = dot(q, key) / math.Sqrt(float64(len(q)))
			}
		}
		peak = max(peak, e[pos])
	}
	for pos := range e {
		e[pos] = math.Exp(e[pos] - peak)
		sum += e[pos]
	}
	out = make([]float64, len(q))
	for pos, value := range h.values {
		e[pos] /= sum
		for i, v := range value {
			out[i] += e[pos] * v
		}
	}
	return out, e
}

// observed is what each query head of a KV head's group gave the tokens with its last so many queries, as the tokens are
// now: (group, tokens), zero for those that are gone.
func (l *twinLayer) observed(w *twin, query, kv, window int) (sums [][]float64) {
	group, h := query/len(l.heads), &l.heads[kv]
	for n := kv * group; n < (kv+1)*group; n++ {
		sum := make([]float64, len(h.keys))
		for pos := max(0, len(h.keys)-window); pos < len(h.keys); pos++ {
			_, p := h.attend(w, l.queries[pos][n*w.HeadDim:(n+1)*w.HeadDim], pos)
			for i, v := range p {
				sum[i] += v
			}
		}
		sums = append(sums, sum)
	}
	return sums
}

// rotate turns the neighbouring pairs of a head.
func (w *twin) rotate(x []float64, pos int) {
	for i := range w.RopeDim / 2 {
		sin, cos := math.Sincos(float64(pos) * math.Pow(w.RopeTheta, -2*float64(i)/float64(w.RopeDim)))
		a, b := x[2*i], x[2*i+1]
		x[2*i], x[2*i+1] = a*cos-b*sin, a*sin+b*cos
	}
}

// normed is x / rms(x) * weights.
func (w *twin) normed(x [][]float64, weights []float64) [][]float64 {
	out := make([][]float64, len(x))
	for r, row := range x {
		scale := 1 / math.Sqrt(dot(row, row)/float64(len(row))+float64(w.Eps))
		for i, v := range row {
			out[r] = append(out[r], v*scale*weights[i])
		}
	}
	return out
}

func (m matrix) row(i int) []float64 { return m.values[i*m.columns : (i+1)*m.columns] }

// times is m x for every row x.
func (m matrix) times(x [][]float64) [][]float64 {
	rows := len(m.values) / m.columns
	out := make([][]float64, len(x))
	for r := range x {
		out[r] = make([]float64, rows)
	}
	for i := range rows {
		for r := range x {
			out[r][i] = dot(m.row(i), x[r])
		}
	}
	return out
}

func addTo(x, y [][]float64) {
	for r := range x {
		for i, v := range y[r] {
			x[r][i] += v
		}
	}
}

// dot keeps four sums: one would wait for each addition.
func dot(a, b []float64) float64 {
	var s0, s1, s2, s3 float64
	for len(a) >= 4 && len(b) >= 4 {
		s0, s1, s2, s3 = s0+a[0]*b[0], s1+a[1]*b[1], s2+a[2]*b[2], s3+a[3]*b[3]
		a, b = a[4:], b[4:]
	}
	for i := range a {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + s2 + s3
}
