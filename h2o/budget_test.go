package h2o

import (
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestBudgetCountsSlots(t *testing.T) {
	for _, c := range []struct {
		budget  string
		context int
		want    int
	}{
		{"20%", 64000, 12800},
		{"100%", 77, 77},
		{"50%", 5, 3}, // 2.5, half up
		{"10%", 24, 2},
		{"10%", 25, 3},
		{"12.5%", 100, 13},
		{"0.1%", 10, 1}, // at least one slot
		{"0.0001%", 1_500_000, 2},
		{" 20 % ", 100, 20},
		{"1024", 64000, 1024},
		{"1024", 1000, 1000}, // never more than the context
		{"1", 1, 1},
	} {
		b, err := ParseBudget(c.budget)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		got, err := b.Slots(c.context)
		if err != nil || got != c.want {
			t.Errorf("%s of %d tokens: %d slots, %v; want %d", c.budget, c.context, got, err, c.want)
		}
	}
}

func TestBudgetKeepsTheGivenText(t *testing.T) {
	for _, text := range []string{"20%", "12.50%", "1024", "512MiB", "1.5GB"} {
		b, err := ParseBudget(text)
		if err != nil || b.String() != text {
			t.Errorf("ParseBudget(%q) = %q, %v", text, b, err)
		}
	}
}

func TestBudgetRefusalsSayWhatIsAccepted(t *testing.T) {
	for text, why := range map[string]string{
		"":                    "empty",
		"0":                   "keeps nothing",
		"0%":                  "keeps nothing",
		"0MiB":                "keeps nothing",
		"-5":                  "negative",
		"-20%":                "negative",
		"100.0001%":           "more than the whole context",
		"101%B":               "more than the whole context",
		"0%B":                 "keeps nothing",
		"250%":                "more than the whole context",
		"12.34567%":           "too many decimals",
		"1.5":                 "too many decimals",
		"4294967295":          "more slots than there are positions",
		"9999999999999999999": "too large",
		"9999999999TiB":       "too large",
		"lots":                "not a number",
		"20 percent":          "not a number",
		"512M":                "not a number",
		"5.%":                 "not a number",
		".5%":                 "not a number",
		"1e3":                 "not a number",
		"+5":                  "not a number",
		"--5":                 "not a number",
		"NaN%":                "not a number",
		"0x10":                "not a number",
		"20%%":                "not a number",
		"٢٠%":                 "not a number",
		"9223372.9TB":         "too large",
	} {
		b, err := ParseBudget(text)
		if err == nil {
			t.Errorf("ParseBudget(%q) = %v, want an error", text, b)
			continue
		}
		for _, part := range []string{why, accepted} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("ParseBudget(%q): %q does not say %q", text, err, part)
			}
		}
	}
	if _, err := (Budget{}).Slots(10); err == nil {
		t.Error("the zero budget counts slots")
	}
}

// A share is compared with exact rationals.
func TestBudgetArithmeticIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		context := rapid.IntRange(1, 1<<31).Draw(t, "context")
		share := rapid.Int64Range(1, million).Draw(t, "parts per million")
		text := big.NewRat(share, million/100).FloatString(4) + "%"
		b, err := ParseBudget(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.Slots(context)
		if err != nil {
			t.Fatal(err)
		}
		exact := new(big.Rat).Mul(big.NewRat(share, million), big.NewRat(int64(context), 1))
		miss := exact.Sub(big.NewRat(int64(got), 1), exact) // want -1/2 < miss <= 1/2, or one slot
		if half := big.NewRat(1, 2); got != 1 && (miss.Cmp(half) > 0 || miss.Cmp(half.Neg(half)) <= 0) {
			t.Fatalf("%s of %d: %d slots, off by %v", text, context, got, miss)
		}
	})
}

func FuzzParseBudget(f *testing.F) {
	for _, text := range []string{"20%", "1024", "512MiB", "-1", "1.5GB", "9e9", "%"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := ParseBudget(text)
		if err != nil {
			return
		}
		if slots, err := b.Slots(1000); !b.InBytes() && (err != nil || slots < 1 || slots > 1000) {
			t.Errorf("%q: %d slots of 1000, %v", text, slots, err)
		}
	})
}
