package tests

import (
	"slices"
	"strings"
	"testing"

	"vkdecode/model/tokenizer"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// SmolLM2's own vocabulary gives the ids that Hugging Face's tokenizers library gives; tests/reference/tokenizer.py
// writes them.
func TestSmolLM2sTokenizerAgreesWithTheReference(t *testing.T) {
	var golden struct {
		Cases []struct {
			Text    string
			Repeat  int
			Special bool
			IDs     []int32
		}
	}
	readJSON(t, "../model/tokenizer/testdata/smollm2.json", &golden)
	if len(golden.Cases) == 0 {
		t.Fatal("no cases")
	}
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		if slow(d) {
			return // the tokenizer is the same on every device
		}
		m := smollm2On(t, d)
		if m.TokenizerErr != nil {
			t.Fatal(m.TokenizerErr)
		}
		known := func(r rune) rune { // the vocabulary has no token for some control characters: they are dropped
			if r < ' ' && len(m.Tokenizer.Encode(string(r), tokenizer.EncodeOptions{})) == 0 {
				return -1
			}
			return r
		}
		others := 0
		for _, c := range golden.Cases {
			text := strings.Repeat(c.Text, max(c.Repeat, 1))
			got := m.Tokenizer.Encode(text, tokenizer.EncodeOptions{ParseSpecial: c.Special})
			if !slices.Equal(got, c.IDs) {
				t.Errorf("%.100q (special %v): %.200v, want %.200v", text, c.Special, got, c.IDs)
			}
			if decoded, want := m.Tokenizer.Decode(got), strings.Map(known, text); !c.Special && decoded != want {
				t.Errorf("%.100q decodes as %.100q", text, decoded)
			}
			if !slices.Equal(builtinOn(t, d).Tokenizer.Encode(text, tokenizer.EncodeOptions{ParseSpecial: c.Special}), c.IDs) {
				others++
			}
		}
		if others < len(golden.Cases)/2 {
			t.Errorf("another vocabulary disagrees on %d of %d cases only", others, len(golden.Cases))
		}
		if !slices.Contains(m.Ends(), 2) {
			t.Errorf("end tokens %v, want <|im_end|>, 2, among them", m.Ends())
		}
		if m.Template == "" || m.EOS != "<|im_end|>" || m.BOS != "<|im_start|>" {
			t.Errorf("template of %d bytes, BOS %q, EOS %q", len(m.Template), m.BOS, m.EOS)
		}
	})
}
