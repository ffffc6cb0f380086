package eval

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// haystack is a text in which needles are hidden, between two sentences.
type haystack struct {
	text   string
	encode func(string) []int32
}

// minHaystack is the shortest text, in bytes, that is worth hiding something in.
const minHaystack = 256

func newHaystack(text string, encode func(string) []int32) (haystack, error) {
	text = strings.TrimSpace(text)
	if len(text) < minHaystack {
		return haystack{}, fmt.Errorf("eval: haystack: the text has %d bytes, want at least %d", len(text), minHaystack)
	}
	return haystack{text, encode}, nil
}

// straw returns tokens of the text from a sentence that is drawn, with a needle between the two sentences next to a
// depth from 0 (before everything) to 1 (behind everything). It begins anew where the text ends.
func (h haystack) straw(draw *rand.Rand, tokens int, depth float64, needle []int32) ([]int32, error) {
	own := tokens - len(needle)
	at := draw.IntN(len(h.text))
	at += sentence(h.text[at:]) // into the middle of one: begin with the next
	var straw []int32
	gaps := []int{0} // where a sentence ends
	for again := false; len(straw) < own; {
		if at >= len(h.text) {
			if again && len(straw) == 0 {
				return nil, fmt.Errorf("eval: haystack: the model has no token for any of the text")
			}
			at, again = 0, true
		}
		end := at + sentence(h.text[at:])
		straw, at = append(straw, h.encode(h.text[at:end])...), end
		gaps = append(gaps, min(len(straw), own))
	}
	place, want := 0, depth*float64(own)
	for _, gap := range gaps {
		if math.Abs(float64(gap)-want) < math.Abs(float64(place)-want) {
			place = gap
		}
	}
	all := make([]int32, 0, tokens)
	all = append(all, straw[:place]...)
	all = append(all, needle...)
	return append(all, straw[place:own]...), nil
}

// longestSentence bounds what is taken for a sentence, in bytes, in texts without any.
const longestSentence = 2048

// sentence is the length of the sentence at the beginning of a text, up to the white space behind it.
func sentence(text string) int {
	text = text[:min(len(text), longestSentence)]
	for i := 0; i+1 < len(text); i++ {
		if strings.IndexByte(".!?\"\n", text[i]) >= 0 && (text[i+1] == ' ' || text[i+1] == '\n') {
			return i + 1
		}
	}
	return len(text)
}
