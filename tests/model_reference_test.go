package tests

import (
	"math"
	"slices"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// reference is what an independent float64 implementation says of prompts; tests/reference/fixtures.py writes it.
type reference struct {
	SampleIDs []int `json:"sample_ids"`
	Prompts   []struct {
		Name   string
		IDs    []int32
		Greedy []int32
		Gaps   []float64 // of the greedy token's logit to the runner-up's
		Logits []rowReference
	}
	Passage struct { // of War and Peace
		IDs        []int32
		NLL        floats // of each token but the first
		Perplexity float64
	}
}

// rowReference is one row of logits: the largest, some at fixed ids, and sums over all.
type rowReference struct {
	Position   int
	TopIDs     []int `json:"top_ids"`
	Top        floats
	Sample     floats
	Sum        float64
	SumSquares float64 `json:"sum_squares"`
}

// sureGap is how far the two largest logits must lie apart for the greedy token to be certain.
const sureGap = 1e-2

// compareGreedy tells where two continuations part although the reference was sure, -1 if nowhere, and how many tokens
// could be compared: after a token that it was not sure of the texts may differ.
func compareGreedy(got, want []int32, gaps []float64) (differs, compared int) {
	for i := range want {
		if i >= len(got) {
			return i, i
		}
		if got[i] != want[i] {
			if gaps[i] > sureGap {
				return i, i
			}
			return -1, i
		}
	}
	return -1, len(want)
}

// compareRow checks one row of logits against the reference, to a relative squared error.
func compareRow(t *testing.T, row []float32, want rowReference, sampleIDs []int, most float64) {
	t.Helper()
	var got, expected []float32
	for i, id := range want.TopIDs {
		got, expected = append(got, row[id]), append(expected, want.Top[i])
	}
	for i, id := range sampleIDs {
		got, expected = append(got, row[id]), append(expected, want.Sample[i])
	}
	var sum, squares float64
	for _, v := range row {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	e := nmse(got, expected)
	t.Logf("position %d: NMSE %.1e", want.Position, e)
	if !(e <= most) {
		t.Errorf("position %d: NMSE of the logits %.2e, want %.0e at most", want.Position, e, most)
	}
	// A relative error r in every logit moves the sum by r times the sum of sizes, at most.
	slack := math.Sqrt(most)
	if size := math.Sqrt(want.SumSquares * float64(len(row))); !(math.Abs(sum-want.Sum) <= slack*size) {
		t.Errorf("position %d: the logits sum to %g, want %g", want.Position, sum, want.Sum)
	}
	if !(math.Abs(squares-want.SumSquares) <= 2*slack*want.SumSquares) {
		t.Errorf("position %d: the squares of the logits sum to %g, want %g", want.Position, squares, want.SumSquares)
	}
}

// comparePrompt runs one prompt and so many greedy tokens, with f32 and f16 K and V.
func comparePrompt(t *testing.T, m *model.Model, r *reference, i, steps int, kinds ...string) {
	p := r.Prompts[i]
	for _, kind := range kinds {
		settings, most := fullKV(h2o.MaxChunk), errorF32
		if settings.Type = kind; kind == "f16" {
			most = errorF16
		}
		s := openSession(t, m, settings, len(p.IDs)+steps)
		rows := promptLogits(t, s, p.IDs)
		for _, want := range p.Logits {
			compareRow(t, rows[want.Position*m.Vocab:][:m.Vocab], want, r.SampleIDs, most)
		}
		got := greedy(t, s, steps)
		differs, compared := compareGreedy(got, p.Greedy[:steps], p.Gaps)
		if differs >= 0 {
			t.Errorf("%s, %s: token %d is %d, want %d (gap %g)", p.Name, kind, differs, got[differs], p.Greedy[differs], p.Gaps[differs])
		}
		t.Logf("%s, %s: %d of %d greedy tokens compared", p.Name, kind, compared, steps)
		if kind == "f32" && compared < steps && slices.Min(p.Gaps[:steps]) > sureGap {
			t.Errorf("%s: only %d of %d tokens compared", p.Name, compared, steps)
		}
	}
}

func TestSmolLM2AgreesWithTheReference(t *testing.T) {
	var r reference
	readJSON(t, "testdata/smollm2.json", &r)
	drivers.TogetherInThreads(t, func(t *testing.T, d *vk.Device) {
		m := smollm2On(t, d)
		kinds, prompts, steps := []string{"f32", "f16"}, len(r.Prompts), 64
		if slow(d) { // what run uses, and two runs of slots: all else is the small models' matter
			kinds, prompts, steps = kinds[1:], 2, 8
		}
		for i := range prompts {
			comparePrompt(t, m, &r, i, steps, kinds...)
		}
	})
}

func TestBuiltinAgreesWithTheReference(t *testing.T) {
	var r reference
	readJSON(t, "testdata/builtin.json", &r)
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		for i := range r.Prompts {
			comparePrompt(t, builtinOn(t, d), &r, i, 64, "f32", "f16")
		}
	})
}
