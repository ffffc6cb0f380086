package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"vkdecode/eval"
)

// samples are results of every kind that a page must look right with.
func samples() map[string]Results {
	onePolicy, oneBudget, onlyFull, interrupted, mixed := sample(), sample(), sample(), sample(), sample()
	onePolicy.Perplexity = slices.DeleteFunc(onePolicy.Perplexity, func(p eval.Perplexity) bool { return p.Policy != "h2o" })
	onePolicy.Recall = slices.DeleteFunc(onePolicy.Recall, func(p eval.Recall) bool { return p.Policy != "h2o" })
	onePolicy.Accuracy = slices.DeleteFunc(onePolicy.Accuracy, func(p eval.Accuracy) bool { return p.Policy != "h2o" })
	oneBudget.Perplexity = slices.DeleteFunc(oneBudget.Perplexity, func(p eval.Perplexity) bool { return p.Budget == "30%" })
	oneBudget.Recall, oneBudget.Accuracy = nil, nil
	onlyFull.Perplexity, onlyFull.Recall, onlyFull.Accuracy = onlyFull.Perplexity[:1], onlyFull.Recall[:20], onlyFull.Accuracy[:1]
	for i := range interrupted.Perplexity {
		if i%3 == 1 {
			interrupted.Perplexity[i].Complete, interrupted.Perplexity[i].Tokens = false, 700+i
		}
	}
	interrupted.Accuracy[2].Complete, interrupted.Recall[30].Complete = false, false
	for i := range mixed.Perplexity {
		if i%2 == 1 {
			mixed.Perplexity[i].KVType = "q8_0"
			mixed.Perplexity[i].BytesHeld /= 2
		}
	}
	mixed.Perplexity[3].Chunk = 256
	long := sample()
	poisoned(reflect.ValueOf(&long).Elem(), " with a long tail")
	return map[string]Results{
		"sample": sample(), "empty": {}, "one policy": onePolicy, "one budget": oneBudget, "only full": onlyFull,
		"interrupted": interrupted, "mixed": mixed, "explosion": explosion(), "long names": long,
	}
}

// explosion is made up after the figures that papers print: two policies lose the thread, at five budgets.
func explosion() Results {
	full := samplePerplexity()[0]
	full.PPL, full.PPLLastHalf, full.Buckets = 8.21, 8.1, nil
	r := Results{Perplexity: []eval.Perplexity{full}}
	for _, p := range []struct {
		policy string
		worse  float64
	}{{"h2o", 0.0085}, {"streaming", 0.15}, {"snapkv:window=32:kernel=7:pool=max", 0.02}, {"window", 4.2}, {"random", 6.1}} {
		for _, percent := range []int{5, 10, 20, 30, 50} {
			row := full
			row.Setting = setting(p.policy, fmt.Sprintf("%d%%", percent), 2048*percent/100)
			row.PPL *= 1 + p.worse*20/float64(percent)
			row.BytesHeld = bytesOf(row.BudgetSlots)
			for i := range 64 { // many and rough: no markers
				row.Buckets = append(row.Buckets, eval.Bucket{Begin: 32 * i, End: 32*i + 32, PPL: row.PPL * (1 + 0.3*math.Sin(float64(i*i)))})
			}
			r.Perplexity = append(r.Perplexity, row)
		}
	}
	return r
}

var (
	element = regexp.MustCompile(`<(/?[a-zA-Z!][^\s>/]*)`)
	picture = regexp.MustCompile(`(?s)<svg .*?</svg>`)
)

// elements are the tags of a page in their order. html/template leaves no < in a text, so that each one is a tag. Texts and
// paths of pictures are not counted: long names leave less room for ticks.
func elements(page string) (names []string) {
	for _, m := range element.FindAllStringSubmatch(page, -1) {
		if name := strings.TrimPrefix(m[1], "/"); name != "text" && name != "path" {
			names = append(names, m[1])
		}
	}
	return names
}

// flaws lists what no page may have: anything that loads, runs or leads elsewhere, and pictures that are not well formed,
// say nothing or have a coordinate that is none.
func flaws(page string) (wrong []string) {
	for _, bad := range []string{"<script", "javascript:", "src=", "href=", "url(", "@import", "<iframe", "<img", "<link", "onload=", "ZgotmplZ"} {
		if strings.Contains(strings.ToLower(page), strings.ToLower(bad)) {
			wrong = append(wrong, "the page has "+bad)
		}
	}
	for _, svg := range picture.FindAllString(page, -1) {
		d := xml.NewDecoder(strings.NewReader(svg))
		for first := true; ; first = false {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				wrong = append(wrong, "a picture is not well formed: "+err.Error())
				break
			}
			start, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			attributes := map[string]string{}
			for _, a := range start.Attr {
				attributes[a.Name.Local] = a.Value
				if a.Name.Local != "aria-label" && (strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf")) {
					wrong = append(wrong, fmt.Sprintf("%s has %s %q", start.Name.Local, a.Name.Local, a.Value))
				}
			}
			if first && (attributes["role"] != "img" || attributes["aria-label"] == "") {
				wrong = append(wrong, "a picture has no role or label")
			}
		}
	}
	return wrong
}

func TestPagesHaveNoFlaws(t *testing.T) {
	for name, r := range samples() {
		page := render(t, r)
		for _, wrong := range flaws(page) {
			t.Errorf("%s: %s", name, wrong)
		}
		if want := name != "empty"; strings.Contains(page, "<svg") != want {
			t.Errorf("%s: pictures are there: %v, want %v", name, !want, want)
		}
	}
}

func TestFlawsAreFound(t *testing.T) {
	for _, page := range []string{
		`<SCRIPT>alert(1)</SCRIPT>`, `<a href="x">`, `<svg role="img" aria-label="a"><path></svg>`, `<svg role="img"></svg>`,
		`<svg role="img" aria-label="a"><path d="MNaN 3"/></svg>`,
	} {
		if len(flaws(page)) == 0 {
			t.Errorf("%s passes", page)
		}
	}
}

func TestAnEmptyPageSaysSo(t *testing.T) {
	page := render(t, Results{})
	for _, want := range []string{"<h1>Evaluation</h1>", "There are no results."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, not := range []string{"<dl>", "Made by", "<section>", "<table"} {
		if strings.Contains(page, not) {
			t.Errorf("the page has %q, want only what is there", not)
		}
	}
}

func TestOnlyWhatIsPresentIsShown(t *testing.T) {
	r := sample()
	r.Recall, r.Accuracy, r.Command, r.Version, r.When = nil, nil, "", "", time.Time{}
	for i := range r.Perplexity {
		r.Perplexity[i].KL, r.Perplexity[i].Buckets = nil, nil
	}
	page := render(t, r)
	for _, not := range []string{"Needle", "Question", "Made by", "Version", "KL, nats", "by position"} {
		if strings.Contains(page, not) {
			t.Errorf("the page has %q", not)
		}
	}
	if full := render(t, sample()); !strings.Contains(full, "KL, nats") || !strings.Contains(full, "by position") {
		t.Error("with everything there, KL or positions are missing")
	}
}

func TestEveryFigureHasATable(t *testing.T) {
	for name, r := range samples() {
		for _, s := range newPage(r).Sections {
			for _, f := range s.Figures {
				if s.Table == nil && f.Table == nil {
					t.Errorf("%s: figure %q of %q has no table", name, f.Title, s.Heading)
				}
			}
		}
	}
}

// poisoned fills every text of v, and says how many there were.
func poisoned(v reflect.Value, poison string) int {
	n := 0
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + poison)
		n++
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type() != reflect.TypeFor[time.Time]() {
				n += poisoned(v.Field(i), poison)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			n += poisoned(v.Index(i), poison)
		}
	}
	return n
}

func TestHostileTextsStayTexts(t *testing.T) {
	harmless := sample()
	n := poisoned(reflect.ValueOf(&harmless).Elem(), "x")
	if n < 500 {
		t.Fatalf("%d texts are poisoned, want hundreds", n)
	}
	want := elements(render(t, harmless))
	for _, poison := range []string{
		`"><script>alert(1)</script>`, `</title></style></svg></table><img src=x onerror=alert(1)>`, `' onload='alert(1)`, `]]><!--`,
		`{{.Command}}`, "`${1}`", `javascript:alert(1)`, "\x00\u202e\ufeff", `&lt;script&gt;`, `</text><text>`, "\"\n\t/>",
	} {
		r := sample()
		poisoned(reflect.ValueOf(&r).Elem(), poison)
		page := render(t, r)
		if got := elements(page); !slices.Equal(got, want) {
			i := 0
			for i < min(len(got), len(want)) && got[i] == want[i] {
				i++
			}
			t.Errorf("%q changes the elements of the page from the %dth on", poison, i)
		}
		for _, wrong := range flaws(strings.NewReplacer("javascript:", "", "src=", "", "onload=", "").Replace(page)) { // as texts they do no harm
			t.Errorf("%q: %s", poison, wrong)
		}
		if strings.ContainsAny(page, "\x00\u202e\ufeff") {
			t.Errorf("%q: control characters came through", poison)
		}
	}
}

func TestFiguresThatAreNoneAreSaid(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, 0, -1, 1e-320} {
		r := sample()
		r.Perplexity[2].PPL, r.Perplexity[2].KL, r.Perplexity[2].TPS = v, &v, v
		r.Perplexity[3].PPLLastHalf, r.Perplexity[3].PPLAfterBudget = v, &v
		r.Perplexity[4].Buckets[3].PPL = v
		r.Recall[25].Depth = v
		r.Accuracy[1].Accuracy, r.Accuracy[2].Low, r.Accuracy[3].High = v, v, v
		page := render(t, r)
		for _, wrong := range flaws(page) {
			t.Errorf("%v: %s", v, wrong)
		}
		if !drawable(v) && !strings.Contains(page, "cannot be drawn here") {
			t.Errorf("%v: the page does not say that it is left out", v)
		}
		for _, d := range drawings(newPage(r)) {
			for _, m := range d.Marks {
				if strings.Contains(m.Path, "e+") || math.Abs(float64(m.X)) > 1e4 || math.Abs(float64(m.Y)) > 1e4 {
					t.Errorf("%v: %q draws far outside: %+v", v, d.Label, m)
				}
			}
		}
		r.Perplexity[0].PPL = v // no reference
		for i := range r.Perplexity {
			r.Perplexity[i].BytesHeld, r.Perplexity[i].BytesFull = math.MaxInt64, math.MinInt64
			r.Perplexity[i].Tokens, r.Perplexity[i].BudgetSlots = math.MinInt, math.MaxInt
			r.Perplexity[i].Buckets[0] = eval.Bucket{Begin: math.MinInt, End: math.MaxInt, PPL: v}
		}
		for i := range r.Recall {
			r.Recall[i].Context, r.Recall[i].Needles, r.Recall[i].Found = math.MinInt+i, math.MaxInt, math.MaxInt-i
		}
		for _, wrong := range flaws(render(t, r)) {
			t.Errorf("%v everywhere: %s", v, wrong)
		}
	}
}
