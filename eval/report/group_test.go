package report

import (
	"math"
	"slices"
	"strings"
	"testing"

	"vkdecode/eval"

	"pgregory.net/rapid"
)

func ppl(policy, budget string, slots int, v float64) eval.Perplexity {
	return eval.Perplexity{Setting: setting(policy, budget, slots), Text: "a.txt", Tokens: 100, PPL: v, BytesHeld: int64(slots), BytesFull: 100, Complete: true}
}

func TestOnlyWhatMayBeComparedStandsTogether(t *testing.T) {
	otherText, otherOffset, otherModel, shorter, interrupted := ppl("h2o", "20%", 20, 9), ppl("h2o", "20%", 20, 9), ppl("h2o", "20%", 20, 9), ppl("h2o", "20%", 20, 9), ppl("window", "20%", 20, 5)
	otherText.Text, otherOffset.Offset, otherModel.Model = "b.txt", 7, "m"
	shorter.Tokens = 50
	interrupted.Tokens, interrupted.Complete = 40, false
	groups := passages([]eval.Perplexity{interrupted, ppl("full", "", 100, 8), otherText, otherOffset, otherModel, shorter, ppl("h2o", "20%", 20, 9)})
	var sizes []int
	for _, g := range groups {
		sizes = append(sizes, len(g.rows))
	}
	if want := []int{3, 1, 1, 1, 1}; !slices.Equal(sizes, want) {
		t.Errorf("groups of %v rows, want %v: the interrupted row joins those of its text", sizes, want)
	}
	if up := groups[0].increase(&interrupted); !math.IsNaN(up) {
		t.Errorf("an interrupted run is compared with full: %v", up)
	}
}

func TestRowsComeByBudgetAfterFull(t *testing.T) {
	g := passages([]eval.Perplexity{
		ppl("h2o", "512", 512, 1), ppl("h2o", "5%", 50, 2), ppl("pyramid", "20%", 204, 3), ppl("full", "", 1000, 4), ppl("h2o", "20%", 205, 5), ppl("window", "5%", 50, 6),
	})[0]
	var got []float64
	for _, r := range g.rows {
		got = append(got, r.PPL)
	}
	if want := []float64{4, 2, 6, 3, 5, 1}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
	if got, want := budgets(g.rows, func(r *eval.Perplexity) eval.Setting { return r.Setting }), []string{"5%", "20%", "512 slots"}; !slices.Equal(got, want) {
		t.Errorf("budgets %q, want %q", got, want)
	}
}

func TestSeriesNameOnlyWhatDiffers(t *testing.T) {
	a, b := setting("h2o", "20%", 20), setting("h2o", "20%", 20)
	full := setting("full", "", 100)
	full.Chunk = 1 // means nothing without eviction
	if got := differences([]eval.Setting{full, a, b}).series(a); got != "h2o" {
		t.Errorf("series is %q, want the policy", got)
	}
	b.KVType, b.Positions, b.Chunk, b.Precision = "q8_0", "cache", 256, "int8"
	v := differences([]eval.Setting{full, a, b})
	if got, want := v.series(b), "h2o, q8_0, cache positions, chunk 256, prompts in int8"; got != want {
		t.Errorf("series is %q, want %q", got, want)
	}
	if got := v.common; got != "" {
		t.Errorf("in common is %q, want nothing", got)
	}
	if got, want := differences([]eval.Setting{a}).common, "Keys and values in f16, original positions and chunks of 32 tokens."; got != want {
		t.Errorf("in common is %q, want %q", got, want)
	}
	c := setting("h2o-tuned", "20%", 37)
	c.KVType = "q8_0"
	v = differences([]eval.Setting{full, a, c})
	if got := v.series(c); got != "h2o-tuned" {
		t.Errorf("series is %q, want the policy, which has one type", got)
	}
	if got, want := v.common, "Keys and values in f16 (h2o-tuned: q8_0), original positions and chunks of 32 tokens."; got != want {
		t.Errorf("in common is %q, want %q", got, want)
	}
}

func TestTheBestOfEachBudgetIsMarked(t *testing.T) {
	rows := []eval.Perplexity{
		ppl("full", "", 100, 8), ppl("h2o", "20%", 20, 9), ppl("window", "20%", 20, 30), ppl("streaming", "20%", 20, 9), ppl("h2o", "30%", 30, 8.5),
		ppl("random", "20%", 20, 2), ppl("tova", "20%", 20, math.NaN()),
	}
	rows[5].Complete = false // best, but of other tokens
	table := passages(rows)[0].settingsTable()
	column := slices.Index(table.Heads, "perplexity") - 1
	var marked []string
	for _, b := range table.Bodies {
		for _, r := range b.Rows {
			if r.Cells[column].Best {
				marked = append(marked, r.Name+" "+b.Title)
			}
		}
	}
	if want := []string{"h2o 20%", "streaming 20%"}; !slices.Equal(marked, want) {
		t.Errorf("marked are %q, want %q: both of a tie, nothing interrupted, nothing that is alone", marked, want)
	}
}

func TestColumnsWithoutFiguresAreLeftOut(t *testing.T) {
	table := passages([]eval.Perplexity{ppl("full", "", 100, 8), ppl("h2o", "20%", 20, 9)})[0].settingsTable()
	if want := []string{"policy", "slots", "perplexity", "against full", "K and V, MiB", "of full"}; !slices.Equal(table.Heads, want) {
		t.Errorf("columns %q, want %q", table.Heads, want)
	}
}

func TestWinnersAreSaid(t *testing.T) {
	for _, c := range []struct {
		entries []entry
		d       direction
		want    string
	}{
		{nil, lower, ""},
		{[]entry{{"20%", "h2o", 9, "9.0"}}, lower, "Plain: h2o at 20% with 9.0."},
		{[]entry{{"20%", "window", 30, "30"}, {"20%", "h2o", 9, "9.0"}, {"30%", "h2o", 8, "8.0"}}, lower, "Best: h2o at 20% with 9.0; h2o at 30% with 8.0."},
		{[]entry{{"20%", "h2o", 0.5, "50%"}, {"20%", "window", 0.4, "40%"}, {"20%", "tova", 0.5, "50%"}}, higher, "Best: h2o and tova at 20% with 50%."},
		{[]entry{{"20%", "h2o", math.NaN(), "–"}, {"20%", "window", 3, "3"}}, lower, "Plain: window at 20% with 3."},
	} {
		if got := winners("Best", "Plain", c.entries, c.d); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestTheFrontIsWhatNothingBeats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		coordinate := rapid.Map(rapid.IntRange(0, 6), func(i int) float64 { return float64(i) }) // small, so that there are ties
		places := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) place {
			return place{coordinate.Draw(t, "share"), coordinate.Draw(t, "worse"), nil}
		}), 1, 12).Draw(t, "places")
		best := front(places)
		for _, p := range places {
			beaten := slices.ContainsFunc(places, func(q place) bool {
				return q.share <= p.share && q.worse <= p.worse && (q.share < p.share || q.worse < p.worse)
			})
			if slices.Contains(best, p) == beaten {
				t.Errorf("%v of %v: beaten is %v, but the front is %v", p, places, beaten, best)
			}
		}
	})
}

func TestHeatMapsAddUpEqualPlaces(t *testing.T) {
	rows := sampleRecall()[:20]
	again := rows[0]
	again.Found = 4
	h := haystacks(append(rows, again))[0]
	maps := h.maps()
	if len(maps) != 1 || *maps[0].cells[[2]int{0, 0}] != (cell{20, 14}) {
		t.Errorf("%d maps, the first cell %v, want one map and 14 of 20", len(maps), maps[0].cells[[2]int{0, 0}])
	}
	for found, want := range map[int]string{0: "h0", 5: "h5", 9: "h9", 10: "h10"} {
		if got := shade(rate(found, 10)); got != want {
			t.Errorf("%d of 10 is shaded %s, want %s", found, got, want)
		}
	}
}

func TestTooMuchIsCutAndSaid(t *testing.T) {
	var r Results
	for i := range 150 {
		row := ppl("h2o", strings.Repeat("9", i/100+1)+string(rune('a'+i%26))+string(rune('a'+i/26%26)), i+1, 9)
		row.Buckets = []eval.Bucket{{Begin: 0, End: 5, PPL: 3}, {Begin: 5, End: 9, PPL: 3 + float64(i)}}
		r.Perplexity = append(r.Perplexity, row)
		r.Recall = append(r.Recall, eval.Recall{Setting: row.Setting, Context: i, Depth: float64(i) / 150, Needles: 1, Complete: true})
	}
	page := render(t, r)
	for _, want := range []string{"Only the first 12 budgets of 150 are shown.", "Only the first settings have room here.",
		"Only the first 100 settings of 150 are shown.", "There is no room for all depths and contexts; the sums have them."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

func TestBudgetsOfBytesStandByTheirShare(t *testing.T) {
	a, b, slots := ppl("h2o", "20%B", 20, 9), ppl("h2o-tuned", "20%B", 37, 8), ppl("window", "20", 20, 30)
	full := ppl("full", "", 100, 8)
	g := passages([]eval.Perplexity{full, a, b})[0]
	ticks, second := g.budgetTicks()
	if g.amount(&a) != 20 || g.amount(&b) != 20 || len(ticks) != 1 || second != nil {
		t.Errorf("20%%B stands at %v and %v, ticks %v and %v below; want one place for both types", g.amount(&a), g.amount(&b), ticks, second)
	}
	g = passages([]eval.Perplexity{full, a, b, slots})[0]
	if ticks, second = g.budgetTicks(); g.amount(&b) != 37 || len(ticks) != 2 || len(second) != 2 {
		t.Errorf("beside a budget in slots 37 slots stand at %v, ticks %v and %v below", g.amount(&b), ticks, second)
	}
}
