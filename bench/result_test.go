package bench

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vkdecode/h2o"
	"vkdecode/runtime"
)

func TestSpreadsAreSortedOut(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   spread
	}{
		{[]float64{3}, spread{3, 3, 3}},
		{[]float64{3, 1, 2}, spread{2, 1, 3}},
		{[]float64{4, 1, 2, 8}, spread{3, 1, 8}},
	} {
		if got := spreadOf(c.values); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.values, got, c.want)
		}
	}
	if got := spreadOf(nil); !math.IsNaN(got.Median) {
		t.Errorf("%+v of nothing", got)
	}
}

func measured(policy string, seconds ...float64) *subject {
	s := &subject{kv: h2o.Settings{Policy: h2o.Spec{Name: policy}}, rows: 1, tokens: 10}
	for _, v := range seconds {
		s.samples = append(s.samples, sample{took: time.Duration(v * float64(time.Second))})
	}
	return s
}

// A machine that is slow for a while is so for both: the ratios are those of a round.
func TestRatiosAreOfTheSameRound(t *testing.T) {
	full, h2o := measured("full", 2, 20, 4), measured("h2o", 1, 10, 1)
	group := []*subject{full, h2o}
	if r := h2o.vsFull(group); r == nil || *r != 2 {
		t.Errorf("%v, want 2", r)
	}
	if r := full.vsFull(group); r == nil || *r != 1 {
		t.Errorf("%v, want 1", r)
	}
	if r := h2o.vsFull([]*subject{h2o}); r != nil {
		t.Errorf("%v without full", *r)
	}
	if r := measured("h2o").vsFull(group); r != nil {
		t.Errorf("%v of nothing", *r)
	}
}

func TestKernelsAreMediansOfSteps(t *testing.T) {
	ms := func(a, b float64) []runtime.KernelTime {
		return []runtime.KernelTime{{Kernel: "matmul", Time: time.Duration(a * 1e6), Dispatches: 7}, {Kernel: "score", Time: time.Duration(b * 1e6), Dispatches: 1}}
	}
	got := mediansOf([][]runtime.KernelTime{ms(1, 5), ms(2, 4), ms(9, 6)})
	if len(got) != 2 || got[0] != (Kernel{"score", 5, 1}) || got[1] != (Kernel{"matmul", 2, 7}) {
		t.Errorf("%+v", got)
	}
	if mediansOf(nil) != nil {
		t.Error("kernels of no step")
	}
}

const old = `{"kind":"bench","model":"m","device":"old card","kv":"h2o","budget":"20%","budget_slots":832,"kv_type":"f16","chunk":256,"depth":4096,"rows":1,"prompt":512,"tokens":64,"prompt_tps":100,"decode_tps":10}`

func TestResultsAreComparedWhereTheSettingsAreTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.json")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Replace(old, `"decode_tps":10`, `"decode_tps":7`, 1) + "\n\n" + old + "\n" + strings.Replace(old, `"rows":1`, `"rows":4`, 1))
	o, err := ReadOlder(path)
	if err != nil {
		t.Fatal(err)
	}
	same := Result{Kind: "bench", Model: "m", Device: "new card", KV: "h2o", Budget: "20%", BudgetSlots: 832, KVType: "f16", Chunk: 256, Depth: 4096, Rows: 1, Prompt: 512, Tokens: 64, DecodeTPS: of(15)}
	if was := o.Compare(&same); was == nil || was.Device != "old card" || same.DecodeRatio == nil || *same.DecodeRatio != 1.5 || same.PromptRatio != nil {
		t.Errorf("%+v, ratios %v and %v", was, same.PromptRatio, same.DecodeRatio)
	}
	for name, change := range map[string]func(r *Result){
		"model": func(r *Result) { r.Model = "n" }, "policy": func(r *Result) { r.KV = "full" }, "budget": func(r *Result) { r.Budget = "10%" }, "slots": func(r *Result) { r.BudgetSlots++ },
		"type": func(r *Result) { r.KVType = "q8_0" }, "chunk": func(r *Result) { r.Chunk = 1 }, "depth": func(r *Result) { r.Depth = 0 }, "rows": func(r *Result) { r.Rows = 2 },
		"prompt": func(r *Result) { r.Prompt = 1 }, "tokens": func(r *Result) { r.Tokens = 1 },
	} {
		other := same
		other.DecodeRatio = nil
		change(&other)
		if was := o.Compare(&other); was != nil || other.DecodeRatio != nil {
			t.Errorf("another %s: compared with %+v", name, was)
		}
	}
	for text, part := range map[string]string{
		"":                                "holds no result",
		"{":                               "old.json:1 is no result of bench --json",
		`{"kind":"ppl"}`:                  `kind "ppl", want "bench"`,
		old + "\n" + `{"kind":"bench",x`:  "old.json:2",
		`{"kind":"bench","depth":"deep"}`: "depth",
	} {
		write(text)
		if _, err := ReadOlder(path); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want %q", text, err, part)
		}
	}
	if _, err := ReadOlder(path + "er"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
}
