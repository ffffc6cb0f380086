package h2o

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSpecKeepsTheGivenText(t *testing.T) {
	const given = "h2o:score=guide:decay=0.999"
	s, err := ParseSpec(" " + given + " ")
	if err != nil {
		t.Fatal(err)
	}
	want := []Option{{"score", "guide"}, {"decay", "0.999"}}
	if s.Name != "h2o" || s.String() != given || !cmp.Equal(s.Options, want) {
		t.Errorf("got %q %v %q, want h2o %v %q", s.Name, s.Options, s, want, given)
	}
	if v, given := s.Option("decay"); v != "0.999" || !given {
		t.Errorf("decay = %q, %v", v, given)
	}
	if v, given := s.Option("pool"); v != "" || given {
		t.Errorf("pool = %q, %v: nobody gave it", v, given)
	}
}

func TestSpecsAreSeparatedByCommas(t *testing.T) {
	specs, err := ParseSpecs("full,h2o:score=guide, streaming")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range specs {
		names = append(names, s.String())
	}
	if want := []string{"full", "h2o:score=guide", "streaming"}; !cmp.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	if _, err := ParseSpecs("full,,h2o"); err == nil {
		t.Error("an empty policy in a list was accepted")
	}
}

func TestSpecRefusalsSayWhatIsWrong(t *testing.T) {
	for text, why := range map[string]string{
		"":                     "no name",
		":score=guide":         "no name",
		"H2O":                  "is no name",
		"full,h2o":             "is no name",
		"h2o:":                 "has no value",
		"h2o:score":            "has no value",
		"h2o:=1":               "is no key",
		"h2o:Score=1":          "is no key",
		"h2o:score=":           "the value is empty",
		"h2o:a=1:a=2":          "given twice",
		"h2o:score=guide full": "space or comma",
	} {
		if s, err := ParseSpec(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("ParseSpec(%q) = %v, %v; want an error that says %q", text, s, err, why)
		}
	}
}

func TestNearestOffersOnlyWhatIsClose(t *testing.T) {
	known := []string{"full", "h2o", "window", "streaming", "kv.budget"}
	for word, want := range map[string]string{
		"windw": "window", "h20": "h2o", "streming": "streaming", "ful": "full",
		"kv.bugdet": "kv.budget", "Window": "window", "banana": "", "": "", "x": "",
	} {
		if got := Nearest(word, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"äb", "ab", 1}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
