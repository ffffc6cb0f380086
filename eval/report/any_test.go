package report

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"vkdecode/eval"

	"pgregory.net/rapid"
)

var (
	anyFloat = rapid.OneOf(rapid.Float64Range(1, 100), rapid.Float64(),
		rapid.SampledFrom([]float64{0, 1, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, 5e-324, largest, 1 / largest}))
	anyShare = rapid.OneOf(rapid.Float64Range(0, 1), anyFloat)
	anyInt   = rapid.OneOf(rapid.IntRange(0, 50), rapid.Int(), rapid.SampledFrom([]int{math.MaxInt, math.MinInt}))
	anyName  = rapid.OneOf(rapid.SampledFrom([]string{"", "full", "h2o", "window", "20%", "512"}), rapid.String())
)

func anySetting(t *rapid.T) eval.Setting {
	return eval.Setting{
		Policy: anyName.Draw(t, "policy"), Budget: anyName.Draw(t, "budget"), BudgetSlots: anyInt.Draw(t, "slots"),
		KVType: anyName.Draw(t, "kv type"), Positions: anyName.Draw(t, "positions"), Chunk: anyInt.Draw(t, "chunk"),
	}
}

func anyPerplexity(t *rapid.T) eval.Perplexity {
	p := eval.Perplexity{
		Setting: anySetting(t), Tokens: rapid.IntRange(0, 1).Draw(t, "tokens"), PPL: anyFloat.Draw(t, "ppl"), PPLLastHalf: anyFloat.Draw(t, "last half"),
		BytesHeld: int64(anyInt.Draw(t, "held")), BytesFull: int64(anyInt.Draw(t, "full")), TPS: anyFloat.Draw(t, "tps"),
		Complete: rapid.SampledFrom([]bool{true, true, false}).Draw(t, "complete"),
	}
	if rapid.Bool().Draw(t, "has KL") {
		p.KL, p.PPLAfterBudget = pointer(anyFloat.Draw(t, "kl")), pointer(anyFloat.Draw(t, "after budget"))
	}
	for range rapid.IntRange(0, 4).Draw(t, "buckets") {
		p.Buckets = append(p.Buckets, eval.Bucket{Begin: anyInt.Draw(t, "begin"), End: anyInt.Draw(t, "end"), PPL: anyFloat.Draw(t, "bucket")})
	}
	return p
}

func anyRecall(t *rapid.T) eval.Recall {
	return eval.Recall{
		Setting: anySetting(t), Context: anyInt.Draw(t, "context"), Depth: anyShare.Draw(t, "depth"), Needles: anyInt.Draw(t, "needles"),
		Found: anyInt.Draw(t, "found"), Complete: rapid.Bool().Draw(t, "complete"),
	}
}

func anyAccuracy(t *rapid.T) eval.Accuracy {
	return eval.Accuracy{
		Setting: anySetting(t), Data: anyName.Draw(t, "data"), Questions: anyInt.Draw(t, "questions"), Correct: anyInt.Draw(t, "correct"),
		Accuracy: anyShare.Draw(t, "accuracy"), Low: anyShare.Draw(t, "low"), High: anyShare.Draw(t, "high"),
		Template: anyName.Draw(t, "template"), Complete: rapid.SampledFrom([]bool{true, true, false}).Draw(t, "complete"),
	}
}

func TestAnyResultsMakeAPageWithoutFlaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Results{
			Title: anyName.Draw(t, "title"), Command: anyName.Draw(t, "command"), Model: anyName.Draw(t, "model"),
			Perplexity: rapid.SliceOfN(rapid.Custom(anyPerplexity), 0, 8).Draw(t, "perplexity"),
			Recall:     rapid.SliceOfN(rapid.Custom(anyRecall), 0, 6).Draw(t, "recall"),
			Accuracy:   rapid.SliceOfN(rapid.Custom(anyAccuracy), 0, 6).Draw(t, "accuracy"),
		}
		var b bytes.Buffer
		if err := pages.ExecuteTemplate(&b, "page.html", newPage(r)); err != nil {
			t.Fatal(err)
		}
		for _, wrong := range flaws(b.String()) {
			if !strings.HasPrefix(wrong, "the page has") { // a name may say so, as a text
				t.Error(wrong)
			}
		}
	})
}
