package tests

import (
	"slices"
	"strings"
	"testing"

	"vkdecode/h2o"
	"vkdecode/ref"
	"vkdecode/shaders"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// opForgeries are cases whose twin is told something else than the kernel: each must be found, where it says.
var opForgeries = []struct {
	name, says string
	c          opCase
}{
	{"a bit of a table", "x: ", embedCase{weight: "f32", share: 1, perLane: 4, width: 1, forge: func(raw []byte) { raw[0] ^= 1 }}},
	{"a weight", "y: ", matmulCase{weight: "q4_0", share: 1, perLane: 4, cols: 2, rows: 90, blocks: 9, many: 2, forge: func(raw []byte, _, _ []float32) { raw[9*18*40+2] ^= 1 }}},
	{"a weight by activations in int8", "y: ", matmulCase{weight: "q4_0", share: 1, perLane: 4, pairs: 1, rows: 90, blocks: 9, many: 2, forge: func(raw []byte, _, _ []float32) { raw[9*18*40+2] ^= 1 }}},
	{"an activation in int8", "q of row 1, column 9: ", quantizeCase{rows: 2, blocks: 1, forge: func(x []float32) { x[41] += x[41] / 16 }}},
	{"what is multiplied with int8", "d of row 0, column 0: ", quantizeCase{rows: 1, blocks: 1, forge: func(x []float32) {
		for i := range x {
			x[i] *= 1 + 1e-5
		}
	}}},
	{"a weight in the top bits of words", "y: ", matmulCase{weight: "q5_0", share: 1, perLane: 4, cols: 2, rows: 90, blocks: 9, many: 2, forge: func(raw []byte, _, _ []float32) { raw[9*22*40+2+3] ^= 0x40 }}},
	{"a scale of a super-block", "y: ", matmulCase{weight: "q6_k", share: 1, perLane: 4, cols: 2, rows: 90, blocks: 16, many: 2, forge: func(raw []byte, _, _ []float32) { raw[2*210*40+192+15] ^= 2 }}},
	{"a minimum of a super-block", "y: ", matmulCase{weight: "q4_k", share: 4, perLane: 4, cols: 1, rows: 90, blocks: 16, many: 2, forge: func(raw []byte, _, _ []float32) { raw[2*144*40+4+11] ^= 0x10 }}},
	{"a power of two", "x: ", embedCase{weight: "mxfp4", share: 1, perLane: 4, width: 1, forge: func(raw []byte) { raw[0]++ }}},
	{"a bias", "y: ", matmulCase{weight: "q8_0", share: 1, perLane: 4, cols: 2, biased: true, epilogue: ref.SiluPair, rows: 90, blocks: 9, many: 2,
		forge: func(_ []byte, bias, _ []float32) { bias[95] += 1e-2 }}},
	{"a norm's weight in a product", "y: ", matmulCase{weight: "q8_0", share: 1, perLane: 4, cols: 1, normed: true, rows: 90, blocks: 9, many: 2,
		forge: func(_ []byte, _, norm []float32) { norm[9*32-1] += 1e-2 }}},
	{"a weight of a chain", "rows: ", chainCase{weight: "q8_0", perLane: 4, workgroups: 2, cache: "f16", forge: func(r *chainRun) { r.links[0][0].raw[40] ^= 1 }}},
	{"a norm's weight in a chain", "rows: ", chainCase{weight: "f16", perLane: 4, workgroups: 2, cache: "f16", ranges: 2, forge: func(r *chainRun) { r.norm[3] += 1e-2 }}},
	{"a weight of a chain's second layer", "rows: ", chainCase{weight: "f16", perLane: 4, workgroups: 2, cache: "f16", forge: func(r *chainRun) { r.links[1][0].raw[41] ^= 0x80 }}},
	{"a key of a chain's second layer", "parts: ", chainCase{weight: "f16", perLane: 4, workgroups: 2, cache: "f32", attends: true, ranges: 2, forge: func(r *chainRun) { r.twin.K[chainPad*r.heads[chainKV].Offset]++ }}},
	{"another position in a chain", "parts: ", chainCase{weight: "f16", perLane: 4, workgroups: 2, cache: "f16", attends: true, ranges: 1, forge: func(r *chainRun) { r.rows[0].Pos-- }}},
	{"a group that is said to be done", "rows: ", chainCase{weight: "q8_0", perLane: 4, workgroups: 2, cache: "f16", taken: 1, skipped: true}},
	{"a norm's weight", "y: ", rmsNormCase{width: 577, eps: 1e-5, forge: func(w []float32) { w[576] += 1e-4 }}},
	{"the other pairs", "q: ", ropeCacheCase{types: h2o.Types{K: "f16", V: "f16"}, group: 1, kvHeads: 1, dim: 20, ropeDim: 20, forge: func(r *ref.RopeCache) { r.Halves = true }}},
	{"positions off by one", "q: ", ropeCacheCase{types: h2o.Types{K: "f16", V: "f16"}, group: 1, kvHeads: 1, dim: 20, ropeDim: 20, forge: func(r *ref.RopeCache) { r.Turns = r.Turns[10:] }}},
	{"a key", "e of slice 0: ", forgedAttention(func(c *cacheRig) { c.twin.K[len(c.twin.K)/2] += 1e-2 })},
	{"a value of the cache", "o of slice 0: ", forgedAttention(func(c *cacheRig) { c.twin.V[len(c.twin.V)/2] += 1e-2 })},
	{"a mask off by one", "e of slice 0: ", forgedAttention(func(c *cacheRig) { c.rows[0].Pos++ })},
	{"a key of a prompt's attention", "y: ", forgedPrompt(false, func(c *cacheRig) { c.twin.K[len(c.twin.K)/2]++ })},
	{"a value of a prompt's attention", "y: ", forgedPrompt(false, func(c *cacheRig) { c.twin.V[len(c.twin.V)/2]++ })},
	{"a prompt's mask off by one", "y: ", forgedPrompt(false, func(c *cacheRig) { c.rows[3].Pos++ })},
	{"ranks of a prompt's keys off by one", "y: ", forgedPrompt(false, func(c *cacheRig) { c.places = shifted(c.twin.Ranks) })},
	{"a prompt's score", "scores: ", forgedPrompt(false, func(c *cacheRig) { c.twin.Slots[c.heads[0].Offset+50].Score += 1e-2 })},
	{"a mask of observed rows off by one", "norms: ", forgedPrompt(true, func(c *cacheRig) { c.rows[0].Pos-- })},
	{"a value that is not looked at", "v: ", forgedPrompt(true, func(c *cacheRig) { c.twin.V[len(c.twin.V)/2]++ })},
	{"a key of a token's attention", "parts: ", forgedToken(func(c *cacheRig, _ *ref.RopeCache) { c.twin.K[len(c.twin.K)/2]++ })},
	{"the other way round", "parts: ", forgedToken(func(_ *cacheRig, rope *ref.RopeCache) {
		for i := range rope.Turns {
			rope.Turns[i][1] = -rope.Turns[i][1]
		}
	})},
	{"a new token that is not there", "parts: ", forgedToken(func(c *cacheRig, _ *ref.RopeCache) { c.heads[0].Live-- })},
	{"a score by single tokens", "scores: ", tokenCase{cache: "f16", kvHeads: 1, group: 2, tile: 2, dim: 20, ropeDim: 20, depth: 4, ranges: 2, scored: true, seqs: []sequence{{live: 100, rows: 1}},
		forge: func(c *cacheRig, _ *ref.RopeCache) { c.twin.Slots[c.heads[0].Offset+50].Score += 1e-2 }}},
	{"a score", "scores: ", forgedAttention(func(c *cacheRig) { c.twin.Slots[len(c.twin.Slots)/2].Score += 1e-2 })},
	{"scores that are not added", "slots: ", forgedAttention(func(c *cacheRig) { c.heads[0].Update = ref.UpdateNone })},
	{"highest scores", "moves of head 0: ", forgedEviction(distinct, func(s []ref.Slot) {
		for i := range s {
			s[i].Score = -s[i].Score
		}
	})},
	{"shuffled scores", "moves of head 0: ", forgedEviction(distinct, func(s []ref.Slot) {
		for i := range len(s) / 2 {
			s[i].Score, s[len(s)-1-i].Score = s[len(s)-1-i].Score, s[i].Score
		}
	})},
	{"of equal scores the newest", "moves of head 0: ", forgedEviction(equal, func(s []ref.Slot) {
		for i := range s {
			s[i].Score = -float32(s[i].Pos)
		}
	})},
	{"a changed victim", "log: ", forgedEviction(equal, func(s []ref.Slot) {
		for i := range s {
			s[i].Score = 0.125
		}
	})},
	{"a bystander", "slots: ", forgedEviction(distinct, func(s []ref.Slot) {
		most := slices.MaxFunc(s, func(a, b ref.Slot) int { return a.Pos - b.Pos }).Pos
		for i := range s {
			if s[i].Pos == most {
				s[i].Score = 100
			}
		}
	})},
	{"a place in the cache off by one", "q: ", ropeCacheCase{types: h2o.Types{K: "f16", V: "f16"}, group: 1, kvHeads: 1, dim: 20, ropeDim: 20, renumber: true, forge: func(r *ref.RopeCache) { r.Turns = r.Turns[10:] }}},
	{"ranks of keys off by one", "e of slice 0: ", rotatedAttention(func(c *cacheRig) { c.places = shifted(c.twin.Ranks) })},
	{"ranks off by one", "slots: ", rankedEviction(func(c *cacheRig) { c.places = shifted(c.twin.Ranks) })},
	{"slots in their own order", "map: ", enterCase{types: h2o.Types{K: "f16", V: "f16"}, dim: 20, kvHeads: 1, seqs: []sequence{{live: 9, rows: 1}}, measured: true, forge: func(c *cacheRig) {
		for i := range c.twin.Slots {
			c.twin.Slots[i].Pos = i
		}
	}}},
	{"a token's score on entering", "work: ", enterCase{types: h2o.Types{K: "f16", V: "f16"}, dim: 20, kvHeads: 1, seqs: []sequence{{live: 9, rows: 1}}, rule: rules[0], measured: true, forge: func(c *cacheRig) { c.twin.Slots[c.heads[0].Offset].Score++ }}},
	{"a bit of K", "work k: ", enterCase{types: h2o.Types{K: "q4_0", V: "q8_0"}, dim: 20, kvHeads: 1, seqs: []sequence{{live: 9, rows: 1}}, forge: func(c *cacheRig) { c.patch(c.k, c.heads[0].Offset*4, 1) }}},
	{"a scale of V", "work v: ", enterCase{types: h2o.Types{K: "q4_0", V: "q8_0"}, dim: 20, kvHeads: 1, seqs: []sequence{{live: 9, rows: 1}}, forge: func(c *cacheRig) { c.patch(c.v, int(4*c.vPlane)+c.heads[0].Offset, 1) }}},
	{"highest scores of a prompt", "map: ", forgedChoice(distinct, func(s *ref.Slot) { s.Score = -s.Score })},
	{"of a prompt's equal scores the newest", "map: ", forgedChoice(equal, func(s *ref.Slot) { s.Score = -float32(s.Pos) })},
	{"a budget off by one", "map: ", chooseCase{kvHeads: 1, seqs: []sequence{{live: 50, rows: 3}}, excess: []int{9}, scores: distinct, forge: func(c *cacheRig) { c.heads[0].Budget-- }}},
	{"changed scores", "log: ", forgedChoice(equal, func(s *ref.Slot) { s.Score = 0.125 })},
	{"a query's place", "ring: ", observeCase{window: 5, quads: 6, seqs: []sequence{{rows: 12}}, forge: func(rows []ref.Row) { rows[11].Place++ }}},
	{"a mask of observed queries off by one", "sums: ", forgedWindow(func(c *cacheRig) { c.rows[0].Pos-- })},
	{"a query left out", "sums: ", forgedWindow(func(c *cacheRig) { c.rows = c.rows[1:] })},
	{"a window off by one", "scores: ", forgedPool(func(o *ref.Observation) { o.Window++ })},
	{"a smaller kernel", "scores: ", forgedPool(func(o *ref.Observation) { o.Kernel -= 2 })},
	{"a mean over those that are there", "scores: ", forgedPool(func(o *ref.Observation) { o.Average = false })},
	{"lowest scores of all heads", "table: ", forgedShare(func(c *cacheRig) {
		for i := range c.twin.Slots {
			c.twin.Slots[i].Score *= -1
		}
	})},
	{"a head with a token less", "table: ", forgedShare(func(c *cacheRig) { c.heads[1].Live-- })},
	{"a place off by one", "y: ", carryCase{quads: 3, places: []int{4, 5}, forge: func(places []int) { places[1]++ }}},
	{"a place to come back from off by one", "y: ", carryCase{quads: 3, places: []int{4, 5}, back: true, forge: func(places []int) { places[1]++ }}},
	{"another seed", "y: ", randomCase{first: 3, count: 100, mask: 0xFFFF, value: 1 << 20, forge: func(want []uint32) { want[20] ^= 1 }}},
	{"a block that is not zero", "y: ", planesCase{weight: "q4_0", share: 4, perLane: 4, rows: 70, blocks: 6, forge: func(c *planesCase) { c.blocks = 8 }}},
	{"a word that is read", "y: ", checksumCase{elements: 1000, forge: func(x []uint32) { x[4*999] ^= 1 }}},
	{"of equal logits the last", "row 0: ", sampleCase{vocab: 1001, shape: few, positions: 1, settings: []ref.Sampling{{}}, forge: func(_ *ref.Sampling, logits []float32) { slices.Reverse(logits) }}},
	{"another seed of draws", "row ", forgedSampling(ref.Sampling{Temperature: 1}, func(s *ref.Sampling) { s.Seed++ })},
	{"another temperature", "row ", forgedSampling(ref.Sampling{Temperature: 1}, func(s *ref.Sampling) { s.Temperature = 1.1 })},
	{"a token that is not counted", "table: ", countCase{kvHeads: 2, seqs: []sequence{{live: 4, rows: 2}}, forge: func(c *cacheRig) { c.heads[1].Live-- }}},
	{"a token more", "row ", forgedSampling(ref.Sampling{Temperature: 5, TopK: 8}, func(s *ref.Sampling) { s.TopK++ })},
	{"a token less", "row ", forgedSampling(ref.Sampling{Temperature: 5, TopK: 8}, func(s *ref.Sampling) { s.TopK-- })},
	{"a larger share", "row ", forgedSampling(ref.Sampling{Temperature: 3, TopP: 0.8}, func(s *ref.Sampling) { s.TopP = 0.83 })},
	{"a smaller share of the largest", "row ", forgedSampling(ref.Sampling{Temperature: 3, MinP: 0.1}, func(s *ref.Sampling) { s.MinP = 0.09 })},
	{"another window", "row ", forgedSampling(ref.Sampling{Temperature: 1, Presence: 3, Window: 20}, func(s *ref.Sampling) { s.Window = 10 })},
	{"a bias", "row ", forgedSampling(ref.Sampling{Temperature: 1, Bias: map[int]float32{5: 30}}, func(s *ref.Sampling) { s.Bias = map[int]float32{6: 30} })},
	{"a count", "seen: ", advanceCase{tokens: []uint32{7}, window: 8, forge: func(_ []ref.Row, sequence []int) { sequence[25]++ }}},
	{"another next token", "tokens: ", nllCase{likelihoodCase{vocab: 1001, outs: []int{1}, spread: 3, forge: func(text []uint32, _ []float32) { text[2] = (text[2] + 1) % 1001 }}}},
	{"a logit", "nll: ", nllCase{likelihoodCase{vocab: 101, outs: []int{1}, spread: 1, forge: func(_ []uint32, logits []float32) { logits[100] += 2e-2 }}}},
	{"a logit of the full cache", "kl: ", klCase{likelihoodCase{vocab: 101, outs: []int{1}, spread: 1, far: 1, forge: func(_ []uint32, full []float32) { full[100] += 2e-2 }}}},
	{"the position before", "step: ", advanceCase{tokens: []uint32{7}, window: -1, forge: func(rows []ref.Row, _ []int) { rows[0].Pos-- }}},
}

func forgedAttention(forge func(c *cacheRig)) attendCase {
	return attendCase{types: h2o.Types{K: "f16", V: "f16"}, kvHeads: 1, group: 2, headTile: 2, rowTile: 1, dim: 20, depth: 1, seqs: []sequence{{live: 100, rows: 2}}, slice: 2, layers: 1, rule: rules[0], forge: forge}
}

func forgedToken(forge func(c *cacheRig, rope *ref.RopeCache)) tokenCase {
	return tokenCase{cache: "f16", kvHeads: 1, group: 2, tile: 2, dim: 20, ropeDim: 20, depth: 1, ranges: 2, seqs: []sequence{{live: 100, rows: 1}}, forge: forge}
}

func rotatedAttention(forge func(c *cacheRig)) attendCase {
	c := forgedAttention(forge)
	c.ropeDim = 20
	return c
}

// shifted gives every slot the place behind its own.
func shifted(places func(ref.Head, int) []int) func(ref.Head, int) []int {
	return func(h ref.Head, live int) []int {
		all := places(h, live)
		for i := range all {
			all[i]++
		}
		return all
	}
}

func rankedEviction(forge func(c *cacheRig)) evictCase {
	return evictCase{types: h2o.Types{K: "f16", V: "f16"}, dim: 24, kvHeads: 1, most: 8, seqs: []sequence{{live: 50, rows: 3}}, excess: []int{3}, scores: distinct, ranked: true, forge: forge}
}

// forgedChoice changes every slot of the twin.
func forgedChoice(scores scoring, forge func(s *ref.Slot)) chooseCase {
	return chooseCase{kvHeads: 1, seqs: []sequence{{live: 50, rows: 3}}, excess: []int{9}, scores: scores, ends: true, measured: true, forge: func(c *cacheRig) {
		for i := range c.twin.Slots {
			forge(&c.twin.Slots[i])
		}
	}}
}

func forgedWindow(forge func(c *cacheRig)) windowCase {
	return windowCase{attendCase: forgedAttention(nil), forge: forge}
}

func forgedPool(forge func(o *ref.Observation)) poolCase {
	return poolCase{Observation: ref.Observation{Window: 4, Kernel: 5, Average: true}, kvHeads: 1, group: 2, seqs: []sequence{{live: 30, rows: 3}}, forge: forge}
}

func forgedShare(forge func(c *cacheRig)) shareCase {
	return shareCase{kvHeads: 2, seqs: []sequence{{live: 40, rows: 2}}, budget: 20, added: 1, alpha: 300, recent: 3, scores: distinct, forge: forge}
}

// forgedSampling tells the twin of other settings.
func forgedSampling(s ref.Sampling, forge func(s *ref.Sampling)) sampleCase {
	return sampleCase{vocab: 1001, shape: spread, positions: 8, settings: []ref.Sampling{s}, forge: func(s *ref.Sampling, _ []float32) { forge(s) }}
}

// forgedEviction changes the twin's live slots.
func forgedEviction(scores scoring, forge func(slots []ref.Slot)) evictCase {
	return evictCase{types: h2o.Types{K: "f16", V: "f16"}, dim: 24, kvHeads: 1, most: 8, seqs: []sequence{{live: 50, rows: 3}}, excess: []int{3}, scores: scores,
		forge: func(c *cacheRig) { forge(c.twin.Slots[c.heads[0].Offset:][:53]) }}
}

func TestForgedTwinsDisagree(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		b := &bench{d, map[string]*vk.Pipeline{}, map[string]bool{}}
		defer b.close()
		for _, f := range opForgeries {
			l := b.launches()[0]
			product, _ := f.c.(matmulCase)
			_, chained := f.c.(chainCase)
			_, quantizes := f.c.(quantizeCase)
			_, prompts := f.c.(promptCase)
			if chained || quantizes || prompts || product.pairs > 0 { // which need a form of one subgroup
				l = b.launches()[3]
			}
			if err := f.c.run(b, l); err == nil || !strings.HasPrefix(err.Error(), f.says) {
				t.Errorf("%s: %v, want an error that begins with %q", f.name, err, f.says)
			}
		}
	})
}

func TestRunsFindWhatKernelsMustNotWrite(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		b := &bench{d, map[string]*vk.Pipeline{}, map[string]bool{}}
		defer b.close()
		l := b.launches()[0]
		norm := func(says string, rows int, step func(r *rig) vk.Range) {
			r := b.rig(l, stepRows(2))
			defer r.free()
			r.add(shaders.RmsNorm{Lanes: uint32(l.lanes), Width: 16, Quads: 4, Eps: 1, Step: step(r), X: in(r, "x", make([]float32, 32)).Range,
				W: in(r, "w", make([]float32, 16)).Range, Y: r.out("y", rows*16).Range}, "", "", 1, 2, 1)
			if err := r.run(); err == nil || err.Error() != says {
				t.Errorf("%v, want the error %q", err, says)
			}
		}
		norm("y: written outside its range", 1, func(r *rig) vk.Range { return r.step.Range })
		norm("y: written by a step that is done", 2, func(r *rig) vk.Range { return in(r, "another step", r.words(r.step)).Range })
	})
}
