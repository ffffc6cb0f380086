package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// Up to 30 marks package norm is the reference for compose and decompose.
func TestComposeIsNFC(t *testing.T) {
	alphabet := []rune("ae qヴかक각ᄀ\u1161\u11a8\u0301\u0307\u0323\u0328\u0344\u3099\u0f71\u0f72\u0f74\u0f73\u0958\u2adcÅ\u212bé\u1e69\U0001d15e\U0001d165\ufffd")
	random := rand.New(rand.NewPCG(3, 11))
	for range 20_000 {
		var text strings.Builder
		for range random.IntN(12) {
			text.WriteRune(alphabet[random.IntN(len(alphabet))])
		}
		want := norm.NFC.String(text.String())
		if got := string(compose(decompose(text.String()))); got != want {
			t.Fatalf("%+q composes to %+q, want %+q", text.String(), got, want)
		}
	}
}

func TestNFCAddsNothingToLongSequences(t *testing.T) {
	marks := strings.Repeat("\u0323\u0301", 40)
	sorted := "ẹ" + strings.Repeat("\u0323", 39) + strings.Repeat("\u0301", 40)
	for text, want := range map[string]string{
		"e" + marks:                       sorted,
		"x\xffe" + marks + "\xcc":         "x\xff" + sorted + "\xcc",
		marks:                             strings.Repeat("\u0323", 40) + strings.Repeat("\u0301", 40),
		"e\u034f\u0301":                   "e\u034f\u0301",
		"\u034fe" + marks + "e\u0301\xff": "\u034f" + sorted + "é\xff",
	} {
		if got := nfc(text); got != want {
			t.Errorf("%+q becomes %+q, want %+q", text, got, want)
		}
	}
}
