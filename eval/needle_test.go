package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"vkdecode/h2o"
)

// hay is text in which no needle could be found by chance.
func hay() string {
	var b strings.Builder
	for i := range 400 {
		fmt.Fprintf(&b, "Carriage %d rolled past the gate, and nobody looked up from the paper. ", i*i)
	}
	return b.String()
}

func needleOptions(settings ...h2o.Settings) NeedleOptions {
	return NeedleOptions{Model: "m", ModelHash: "h", Device: "d", Text: newText("hay.txt", hay()), Settings: settings,
		Contexts: []int{1000, 2000}, Depths: []float64{0, 0.5, 1}, Needles: 4, Seed: 3}
}

// search is NewSearch and Judge.
func search(ctx context.Context, s Subject, o NeedleOptions, emit func(Recall, bool) error) error {
	n, err := NewSearch(s, o)
	if err != nil {
		return err
	}
	return n.Judge(ctx, emit)
}

func found(results []Recall) (n []int) {
	for _, r := range results {
		n = append(n, r.Found)
	}
	return n
}

func TestNeedlesAreFoundWhereTheCacheKeepsThem(t *testing.T) {
	f := &fake{says: copies}
	var results []Recall
	if err := search(t.Context(), f, needleOptions(kv("full", "100%"), kv("window", "20%")), collect(&results)); err != nil {
		t.Fatal(err)
	}
	if got, want := found(results), []int{4, 4, 4, 4, 4, 4, 0, 0, 4, 0, 0, 4}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	want := Recall{Kind: "needle", Setting: Setting{Policy: "window", Budget: "20%", BudgetSlots: 201, KVType: "f32", Positions: "original", Chunk: 1, PrefillPolicy: "window", Prefill: "bounded"},
		Origin: Origin{"h", newText("", hay()).Hash}, Model: "m", Device: "d", Text: "hay.txt", Context: 1000, Depth: 1, Seed: 3, Needles: 4, Found: 4, LogProb: -0.5, BytesHeld: 202 * 64, Template: needleTemplate, Complete: true}
	if results[8] != want {
		t.Errorf("got  %+v\nwant %+v", results[8], want)
	}
	if results[9].LogProb != -20 {
		t.Errorf("log-probability of needles that were not found: %v", results[9].LogProb)
	}
	if f.opened != 4 || f.closed != 4 {
		t.Errorf("%d scorers opened, %d closed, want one for each setting and context", f.opened, f.closed)
	}
	for i, p := range f.prompts {
		if want := []int{1000, 2000}[i/12%2]; len(p) != want {
			t.Errorf("prompt %d has %d tokens, want %d", i, len(p), want)
		}
	}
}

func TestANeedleThatIsNotThereIsNotFound(t *testing.T) {
	o := needleOptions(kv("full", "100%"))
	o.Control = true
	f := &fake{says: copies}
	var results []Recall
	if err := search(t.Context(), f, o, collect(&results)); err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Found != 0 || !r.Control || r.Needles != 4 {
			t.Errorf("%+v", r)
		}
	}
	for _, p := range f.prompts {
		if strings.Count(p, "hid in the") != 2 {
			t.Errorf("the needle is in the prompt: %s", p)
		}
	}
}

func TestNeedlesLieAtTheirDepth(t *testing.T) {
	f := &fake{says: copies, begin: []int32{'^'}}
	o := needleOptions(kv("full", "100%"))
	o.Depths, o.Needles = []float64{0, 0.25, 0.5, 0.75, 1}, 30
	if err := search(t.Context(), f, o, func(Recall, bool) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for i, p := range f.prompts {
		n := newNeedle(o.Seed, i%30)
		if strings.Count(p, n.sentence) != 1 || !strings.HasSuffix(p, n.question) || p[0] != '^' {
			t.Fatalf("prompt %d: %s", i, p)
		}
		straw, depth := len(p)-len(n.sentence)-len(n.question)-1, o.Depths[i/30%5]
		at := strings.Index(p, n.sentence) - 1
		if off := math.Abs(float64(at) - depth*float64(straw)); off > 45 { // half of the longest sentence
			t.Errorf("prompt %d: the needle is at %d of %d, want depth %g", i, at, straw, depth)
		}
		before := p[:at+1]
		if at > 0 && at < straw && !strings.HasSuffix(before, ".") {
			t.Errorf("prompt %d: the needle is inside a sentence: …%s", i, before[len(before)-10:])
		}
	}
}

func TestTheSeedDecidesThePrompts(t *testing.T) {
	prompts := func(seed uint64, settings ...h2o.Settings) []string {
		f := &fake{says: copies}
		o := needleOptions(settings...)
		o.Seed = seed
		if err := search(t.Context(), f, o, func(Recall, bool) error { return nil }); err != nil {
			t.Fatal(err)
		}
		return f.prompts
	}
	one := prompts(3, kv("full", "100%"))
	if again := prompts(3, kv("window", "20%")); !slices.Equal(one, again) {
		t.Error("another policy got other prompts")
	}
	if other := prompts(4, kv("full", "100%")); slices.Equal(one, other) {
		t.Error("another seed gave the same prompts")
	}
}

func TestEverySubjectComesOnceBeforeOneComesAgain(t *testing.T) {
	seen := map[string]int{}
	for i := range 2 * len(subjects) {
		q := newNeedle(9, i).question
		if seen[q]++; seen[q] > 1+i/len(subjects) {
			t.Errorf("needle %d: %q again", i, q)
		}
	}
	if len(seen) != len(subjects) || len(subjects) < 24 {
		t.Errorf("%d subjects", len(seen))
	}
	if newNeedle(9, 0).answer == newNeedle(9, len(subjects)).answer {
		t.Error("a subject that comes again has the same number")
	}
}

func TestKnownRecallsAreNotMeasuredAgain(t *testing.T) {
	var all, rest []Recall
	if err := search(t.Context(), &fake{says: copies}, needleOptions(kv("full", "100%"), kv("window", "20%")), collect(&all)); err != nil {
		t.Fatal(err)
	}
	known := func(r Recall) (Recall, bool) {
		if i := slices.IndexFunc(all, func(o Recall) bool {
			o.Needles, o.Found, o.LogProb, o.BytesHeld, o.Complete = 0, 0, 0, 0, false
			return o == r
		}); i >= 0 && (r.Policy == "full" && r.Context == 2000 || r.Policy == "window" && r.Context == 1000 && r.Depth < 1) {
			return all[i], true
		}
		return Recall{}, false
	}
	f, last, told := &fake{says: copies}, 0, 0
	o := needleOptions(kv("full", "100%"), kv("window", "20%"))
	o.Contexts, o.Depths = append(o.Contexts, 1000), append(o.Depths, 1, 0) // given twice, judged once
	o.Known, o.Progress = known, func(done, total int) {
		if total != 48 || done <= last {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last = done
	}
	if err := search(t.Context(), f, o, func(r Recall, known bool) error {
		if known {
			told++
		}
		return collect(&rest)(r, known)
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(rest, all) || told != 5 || f.opened != 3 || len(f.prompts) != 28 || last != 48 {
		t.Errorf("%d results, %d known, %d scorers opened, %d prompts of %d; want %d, 5, 3, 28, 48", len(rest), told, f.opened, len(f.prompts), last, len(all))
	}
}

func TestAnInterruptedRecallIsTold(t *testing.T) {
	for prompt, want := range map[int][]Recall{6: {{Needles: 4, Complete: true}, {Needles: 2}}, 4: {{Needles: 4, Complete: true}}, 0: nil} {
		f := &fake{says: copies}
		var results []Recall
		err := search(interruptAt(t, f, prompt), f, needleOptions(kv("full", "100%")), collect(&results))
		if !errors.Is(err, context.Canceled) || len(results) != len(want) || f.opened != f.closed {
			t.Errorf("at %d: %v, %d results, %d scorers opened, %d closed", prompt, err, len(results), f.opened, f.closed)
			continue
		}
		for i := range want {
			if results[i].Needles != want[i].Needles || results[i].Found != want[i].Needles || results[i].Complete != want[i].Complete {
				t.Errorf("at %d: %+v", prompt, results[i])
			}
		}
	}
}

func TestNeedleOptionsThatCannotBeMeasuredAreRefused(t *testing.T) {
	for want, change := range map[string]func(*NeedleOptions){
		"want at least 256":     func(o *NeedleOptions) { o.Text = newText("t", "short") },
		"depth 1.5":             func(o *NeedleOptions) { o.Depths = []float64{1.5} },
		"context of 100 tokens": func(o *NeedleOptions) { o.Contexts = []int{100} },
		"0 needles":             func(o *NeedleOptions) { o.Needles = 0 },
		"0 settings":            func(o *NeedleOptions) { o.Settings = nil },
		"budget is not set": func(o *NeedleOptions) {
			o.Settings = []h2o.Settings{{Policy: kv("window", "1").Policy, Type: "f32", Positions: "auto", Chunk: 1}}
		},
	} {
		f, o := &fake{says: copies}, needleOptions(kv("full", "100%"))
		change(&o)
		if err := search(t.Context(), f, o, func(Recall, bool) error { return nil }); err == nil || !strings.Contains(err.Error(), want) || f.opened > 0 {
			t.Errorf("%v, %d scorers opened; want %q", err, f.opened, want)
		}
	}
}

func TestAFailingEmitEndsTheRun(t *testing.T) {
	f, full := &fake{says: copies}, errors.New("no space left")
	if err := search(t.Context(), f, needleOptions(kv("full", "100%")), func(Recall, bool) error { return full }); !errors.Is(err, full) || len(f.prompts) != 4 || f.closed != 1 {
		t.Errorf("%v after %d prompts", err, len(f.prompts))
	}
}

func TestAHaystackWithoutSentencesIsCutAnyway(t *testing.T) {
	for name, text := range map[string]string{"one word": strings.Repeat("x", 5000), "lines": strings.Repeat("ten words\n", 100), "no UTF-8": strings.Repeat("\xff\xfe ", 200)} {
		f, o := &fake{says: copies}, needleOptions(kv("full", "100%"))
		o.Text = newText("t", text)
		if err := search(t.Context(), f, o, func(Recall, bool) error { return nil }); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAHaystackWithoutTokensIsRefused(t *testing.T) {
	o := needleOptions(kv("full", "100%"))
	if err := search(t.Context(), &blind{fake{says: copies}}, o, func(Recall, bool) error { return nil }); err == nil || !strings.Contains(err.Error(), "no token for any of the text") {
		t.Errorf("%v", err)
	}
}

// blind has no token for the haystack.
type blind struct{ fake }

func (b *blind) Encode(text string) []int32 {
	if strings.Contains(text, "number") {
		return b.fake.Encode(text)
	}
	if strings.HasPrefix(text, " ") && len(text) == len(" 0000") {
		return b.fake.Encode(text)
	}
	return nil
}
