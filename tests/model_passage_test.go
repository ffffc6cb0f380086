package tests

import (
	"math"
	"testing"

	"vkdecode/h2o"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// passageIDs is the text of War and Peace that the tests of policies run on: 1,500 tokens of the built-in model.
func passageIDs(t testing.TB) []int32 {
	t.Helper()
	var r reference
	readJSON(t, "testdata/builtin.json", &r)
	return r.Passage.IDs
}

// nlls are the negative log likelihoods of each token but the first, from the logits (ids, vocab).
func nlls(logits []float32, vocab int, ids []int32) []float64 {
	out := make([]float64, len(ids)-1)
	for i := range out {
		row := logits[i*vocab : (i+1)*vocab]
		var sum float64
		for _, v := range row {
			sum += math.Exp(float64(v))
		}
		out[i] = math.Log(sum) - float64(row[ids[i+1]])
	}
	return out
}

func mean(values []float64) (m float64) {
	for _, v := range values {
		m += v / float64(len(values))
	}
	return m
}

func TestPassageAgreesWithTheReferenceInAnyChunk(t *testing.T) {
	var r reference
	readJSON(t, "testdata/builtin.json", &r)
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), r.Passage.IDs
		if slow(d) {
			ids = ids[:295] // 42 chunks of 7 and a single row
		}
		var first []float32
		for _, chunk := range []int{1, 7, 64, h2o.MaxChunk} {
			logits := promptLogits(t, openSession(t, m, fullKV(chunk), len(ids)), ids)
			if first == nil {
				first = logits
			}
			if e := nmse(logits, first); !(e <= errorChunk) {
				t.Errorf("chunk %d against 1: NMSE %.2e, want %.0e at most", chunk, e, errorChunk)
			}
			got := nlls(logits, m.Vocab, ids)
			for i, v := range got {
				if want := float64(r.Passage.NLL[i]); !(math.Abs(v-want) <= 1e-4) {
					t.Fatalf("chunk %d: token %d has a negative log likelihood of %g, want %g", chunk, i+1, v, want)
				}
			}
			if ppl := math.Exp(mean(got)); len(ids) == len(r.Passage.IDs) && !(math.Abs(ppl/r.Passage.Perplexity-1) <= 1e-5) {
				t.Errorf("chunk %d: perplexity %g, want %g", chunk, ppl, r.Passage.Perplexity)
			}
		}
	})
}
