package eval

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// bits are likelihoods of one half for each bit.
func bits(counts ...float64) (nll []float32) {
	for _, n := range counts {
		nll = append(nll, float32(n*math.Ln2))
	}
	return nll
}

// near compares figures up to the rounding of f32 likelihoods.
var near = cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Abs(b) })

func figure(v float64) *float64 { return &v }

func TestPerplexityIsExpOfTheMeanOfEachPart(t *testing.T) {
	// 16 tokens: token 0 is given, 1 to 7 cost 1 bit, 8 to 15 cost 3.
	nll, kl := bits(1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3), make([]float32, 15)
	kl[14] = 3
	var got Perplexity
	if err := got.measure(nll, kl, 11); err != nil {
		t.Fatal(err)
	}
	want := Perplexity{Tokens: 16, PPL: math.Pow(2, 31.0/15), PPLLastHalf: 8, PPLAfterBudget: figure(8), KL: figure(0.2), Buckets: []Bucket{
		{1, 2, 2}, {2, 4, 2}, {4, 6, 2}, {6, 8, 2}, {8, 10, 8}, {10, 12, 8}, {12, 14, 8}, {14, 16, 8}}}
	if diff := cmp.Diff(want, got, near); diff != "" {
		t.Error(diff)
	}
}

// The budget is reached with token B - 1, and the first token that an evicted one can be missing for is B + 1.
func TestAfterTheBudgetBeginsTheTokenBehindTheFirstEviction(t *testing.T) {
	nll := bits(1, 2, 3, 4, 5) // tokens 1 to 5
	for budget, want := range map[int]*float64{0: nil, 1: figure(math.Pow(2, 3.5)), 3: figure(math.Pow(2, 4.5)), 4: figure(32), 5: nil, 99: nil} {
		var got Perplexity
		if err := got.measure(nll, nil, budget); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.PPLAfterBudget, near); diff != "" {
			t.Errorf("budget %d: %s", budget, diff)
		}
		if got.KL != nil {
			t.Errorf("KL %v of nothing", *got.KL)
		}
	}
}

func TestShortTextsHaveFewerBuckets(t *testing.T) {
	for n, want := range map[int][]Bucket{1: {{1, 2, 2}}, 2: {{1, 2, 2}, {2, 3, 4}}, 4: {{1, 2, 2}, {2, 3, 4}, {3, 4, 8}, {4, 5, 16}}} {
		var got Perplexity
		if err := got.measure(bits(1, 2, 3, 4)[:n], nil, 0); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Buckets, near); diff != "" || got.Tokens != n+1 {
			t.Errorf("%d tokens: %s", got.Tokens, diff)
		}
	}
}

func TestBrokenLikelihoodsAreErrors(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for says, nll := range map[string][]float32{
		"token 2 of book has a negative log likelihood of NaN":  {1, nan, 1},
		"token 1 of book has a negative log likelihood of +Inf": {inf, 1},
		"the mean is 1000 nats per token":                       {1000, 1000, 1000},
	} {
		p := Perplexity{Text: "book"}
		if err := p.measure(nll, nil, 0); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q", nll, err, says)
		}
	}
}

// measured is a result of a text as a run makes it.
func measured(t *testing.T, text string, seconds float64, budget int, nll, kl []float32) Perplexity {
	t.Helper()
	p := Perplexity{Kind: "ppl", Setting: Setting{Policy: "h2o", BudgetSlots: budget}, Origin: Origin{"m", text}, Text: text, Offset: 5, Segments: 1, Complete: true, BytesHeld: 10, BytesFull: 20}
	if err := p.measure(nll, kl, budget); err != nil {
		t.Fatal(err)
	}
	p.TPS = float64(p.Tokens) / seconds
	return p
}

func TestCombinedSegmentsWeighTheirTokens(t *testing.T) {
	one := measured(t, "a", 2, 2, bits(1, 1, 1), []float32{0, 0, 3})
	two := measured(t, "b", 4, 2, bits(2, 2, 2, 5, 5, 5, 5), []float32{0, 0, 0, 0, 0, 0, 0})
	got := Combine([]Perplexity{one, two}, 2)
	want := Perplexity{Kind: "ppl", Setting: one.Setting, Origin: Origin{"m", ""}, Text: "a, b", Segments: 2, Tokens: 12, Complete: true, BytesHeld: 10, BytesFull: 20,
		PPL:            math.Pow(2, 29.0/10),
		PPLLastHalf:    math.Pow(2, 22.0/6), // two tokens of a, four of b
		PPLAfterBudget: figure(math.Pow(2, 23.0/6)),
		KL:             figure(0.3),
		TPS:            2,
		Buckets:        []Bucket{}}
	if diff := cmp.Diff(want, got, near); diff != "" {
		t.Error(diff)
	}

	// What all tokens together would have given.
	same := Combine([]Perplexity{one, one}, 2)
	if diff := cmp.Diff(one.Buckets, same.Buckets, near); diff != "" || same.Text != "a" || same.TextHash != "a" {
		t.Errorf("%+v: %s", same, diff)
	}
	two.Complete = false
	if Combine([]Perplexity{one, two}, 2).Complete || Combine([]Perplexity{one}, 2).Complete {
		t.Error("complete without all segments")
	}
	two.PPLAfterBudget, two.KL = nil, nil
	if got := Combine([]Perplexity{one, two}, 2); got.KL != nil || math.Abs(*got.PPLAfterBudget-2) > 1e-6 {
		t.Errorf("KL %v of some segments, after the budget %v", got.KL, *got.PPLAfterBudget)
	}
}
