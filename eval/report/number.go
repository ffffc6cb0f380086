package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// absent stands where there is no figure.
const absent = "–"

// largest is what can be drawn: beyond it the arithmetic of scales would overflow.
const largest = 1e100

// drawable says whether a plot can show v.
func drawable(v float64) bool { return !math.IsNaN(v) && math.Abs(v) <= largest }

// number prints v with about digits significant ones, and never less than its whole part below a million.
func number(v float64, digits int) string {
	switch {
	case math.IsNaN(v):
		return absent
	case math.IsInf(v, 1):
		return "∞"
	case math.IsInf(v, -1):
		return "−∞"
	case v == 0:
		return "0"
	case math.Abs(v) >= 1e6 || math.Abs(v) < 1e-6:
		return scientific(strconv.FormatFloat(v, 'e', max(0, digits-2), 64))
	}
	whole := int(math.Floor(math.Log10(math.Abs(v)))) + 1
	return fixed(v, max(0, digits-whole))
}

// fixed prints v with a number of decimals, and thousands apart.
func fixed(v float64, decimals int) string {
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Trim(text, "-0.") == "" {
		text = strings.TrimPrefix(text, "-") // there is no minus zero for a reader
	}
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "−", text[1:]
	}
	whole, rest := text, ""
	if dot := strings.IndexByte(text, '.'); dot >= 0 {
		whole, rest = text[:dot], text[dot:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return sign + whole + rest
}

func integer[T int | int64](n T) string { return fixed(float64(n), 0) }

// scientific turns 1.5e+09 into 1.5×10⁹.
func scientific(text string) string {
	mantissa, exponent, _ := strings.Cut(text, "e")
	n, err := strconv.Atoi(exponent)
	if err != nil {
		return text
	}
	var raised strings.Builder
	for _, r := range strconv.Itoa(n) {
		if r == '-' {
			raised.WriteRune('⁻')
		} else {
			raised.WriteRune([]rune("⁰¹²³⁴⁵⁶⁷⁸⁹")[r-'0'])
		}
	}
	return strings.Replace(mantissa, "-", "−", 1) + "×10" + raised.String()
}

// increase prints a change in percent with its sign.
func increase(percent float64) string {
	switch {
	case math.IsNaN(percent):
		return absent
	case math.Abs(percent) >= 1e6:
		return plus(number(percent, 3)) + "%"
	}
	decimals := 1
	if math.Abs(percent) >= 1000 {
		decimals = 0
	}
	return plus(fixed(percent, decimals)) + "%"
}

func plus(text string) string {
	if strings.HasPrefix(text, "−") {
		return text
	}
	return "+" + text
}

// percent prints a share of 1.
func percent(share float64) string {
	switch {
	case math.IsNaN(share):
		return absent
	case math.Abs(share) >= 1e4:
		return number(share*100, 3) + "%"
	}
	return fixed(share*100, 1) + "%"
}

// mebibytes prints bytes in MiB, without the unit.
func mebibytes(bytes float64) string { return number(bytes/(1<<20), 3) }

func date(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") }

// clean makes one line of text that can be shown: no control characters, nothing that turns the direction of writing.
func clean(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError || unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r):
			return ' '
		case unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, text))
}

// cleanLines is clean for a text of several lines.
func cleanLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = clean(lines[i])
	}
	return strings.Join(lines, "\n")
}

// short is clean, and at most n characters: what is cut in the middle, for the ends of names tell them apart.
func short(text string, n int) string {
	runes := []rune(clean(text))
	if len(runes) <= n {
		return string(runes)
	}
	head := n / 2
	tail := n - head - 1
	return string(runes[:head]) + "…" + string(runes[len(runes)-tail:])
}

// counted is "1 budget", "2 budgets".
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "y") {
		noun = strings.TrimSuffix(noun, "y") + "ie"
	}
	return fmt.Sprintf("%s %ss", integer(n), noun)
}

// listed is "a, b and c".
func listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// sentence gives words a capital and a full stop; no words stay none.
func sentence(words string) string {
	r, size := utf8.DecodeRuneInString(words)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(r)) + words[size:] + "."
}
