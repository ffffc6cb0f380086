package report

import (
	"math"
	"testing"
)

func TestNumbersAreShort(t *testing.T) {
	for _, c := range []struct {
		v      float64
		digits int
		want   string
	}{
		{22.627357, 4, "22.63"}, {8.21, 4, "8.210"}, {5158.2, 4, "5,158"}, {123456.7, 4, "123,457"}, {0.04123, 3, "0.0412"}, {0, 4, "0"},
		{-2.5, 2, "−2.5"}, {1e9, 4, "1.00×10⁹"}, {math.MaxFloat64, 4, "1.80×10³⁰⁸"}, {1e-9, 3, "1.0×10⁻⁹"}, {9.9999, 2, "10.0"},
		{math.NaN(), 4, "–"}, {math.Inf(1), 4, "∞"}, {math.Inf(-1), 4, "−∞"},
	} {
		if got := number(c.v, c.digits); got != c.want {
			t.Errorf("number(%v, %d) is %q, want %q", c.v, c.digits, got, c.want)
		}
	}
}

func TestPercentagesHaveTheirSign(t *testing.T) {
	for v, want := range map[float64]string{
		2.5498: "+2.5%", -0.31: "−0.3%", 0: "+0.0%", -0.0001: "+0.0%", 41234.5: "+41,234%", 4e12: "+4.0×10¹²%", math.Inf(1): "+∞%",
	} {
		if got := increase(v); got != want {
			t.Errorf("increase(%v) is %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{0.216: "21.6%", 1: "100.0%", 1e9: "1.0×10¹¹%"} {
		if got := percent(v); got != want {
			t.Errorf("percent(%v) is %q, want %q", v, got, want)
		}
	}
}

func TestTextsBecomeOneSafeLine(t *testing.T) {
	for text, want := range map[string]string{
		"h2o": "h2o", " a\tb\nc ": "a b c", "a\x00b": "a b", "abc\u202edcba": "abcdcba", "zero\u200bwidth": "zerowidth",
		"a\u2028b": "a b", "caf\u00e9 \u4f60": "café 你", "bad\xffbyte": "bad byte",
	} {
		if got := clean(text); got != want {
			t.Errorf("clean(%q) is %q, want %q", text, got, want)
		}
	}
	if got, want := cleanLines(" a\x07\r\n\n b "), "a\n\nb"; got != want {
		t.Errorf("cleanLines gives %q, want %q", got, want)
	}
}

func TestLongNamesKeepBothEnds(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{{"window", 6, "window"}, {"snapkv:window=32:pool=max", 12, "snapkv…l=max"}, {"你好世界你好世界", 5, "你好…世界"}} {
		got := short(c.text, c.n)
		if got != c.want || len([]rune(got)) > c.n {
			t.Errorf("short(%q, %d) is %q, want %q", c.text, c.n, got, c.want)
		}
	}
}

func TestWordsAreCountedAndListed(t *testing.T) {
	for got, want := range map[string]string{
		counted(1, "budget"): "1 budget", counted(2, "budget"): "2 budgets", counted(1200, "policy"): "1,200 policies",
		listed(nil): "", listed([]string{"a"}): "a", listed([]string{"a", "b", "c"}): "a, b and c", sentence("élan"): "Élan.", sentence(""): "",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
