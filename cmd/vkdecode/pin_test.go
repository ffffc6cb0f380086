package main

import (
	"slices"
	"strings"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model/gguf"
)

// pinnedBy runs a prompt and returns what is pinned, with the text of each span.
func pinnedBy(t *testing.T, args ...string) (spans []h2o.Span, texts []string) {
	t.Helper()
	r := runReported(t, append([]string{"run"}, append(args, "-n", "30", "--budget", "60", "--chunk", "16", "--temp", "0", "--kv-state", "s.json")...)...)
	var s h2o.State
	readJSON(t, "s.json", &s)
	for _, span := range r.KV.Pinned {
		texts = append(texts, pieces(t, r.PromptTokens[span.Begin:span.End]))
		for _, l := range s.Layers {
			for _, h := range l.Heads {
				for pos := span.Begin; pos < span.End; pos++ {
					if !slices.Contains(h.Positions, uint32(pos)) {
						t.Errorf("%v: position %d of %v is gone", args, pos, span)
					}
				}
			}
		}
	}
	return r.KV.Pinned, texts
}

const longer = "Prince Andrew looked at the sky, and the Emperor, with his staff, rode on to the field of Austerlitz, where the French stood. The Emperor looked at Prince Andrew."

func TestTheSystemMessageIsPinned(t *testing.T) {
	template := func(text string) string {
		return variant(t, nil, nil, func(w *gguf.Writer) { w.Set("tokenizer.chat_template", text) })
	}
	onFirstDriver(t, map[string]string{
		"m.gguf": template(chatML), "behind.gguf": template("{{ messages[-1].content }} ({{ messages[0].content }})"), "without.gguf": template("{{ messages[-1].content }}"),
	})
	const system = "Be brief, and kind."
	spans, texts := pinnedBy(t, "m.gguf", "-p", longer, "--system", system, "--pin-system", "--kv", "window")
	if turn := "<|im_start|>system\n" + system + "<|im_end|>\n"; len(spans) != 1 || spans[0].Begin != 0 || !strings.HasPrefix(texts[0], turn) || len(texts[0]) > len(turn)+4 {
		t.Errorf("%v, %q", spans, texts)
	}
	// Where the turn does not come first, its words are.
	spans, texts = pinnedBy(t, "behind.gguf", "-p", longer, "--system", system, "--pin-system")
	if len(spans) != 1 || spans[0].Begin < 30 || !strings.Contains(texts[0], system) || len(texts[0]) > len(system)+8 {
		t.Errorf("%v, %q", spans, texts)
	}
	refused(t, exitUsage, []string{"without.gguf", "-p", longer, "--system", system, "--pin-system"}, "--pin-system: the chat template leaves the system message out")
	refused(t, exitUsage, []string{"m.gguf", "-p", longer, "--pin-system"}, "there is no system message; give --system")
	refused(t, exitUsage, []string{"m.gguf", "--raw", "-p", longer, "--pin-system"}, "there is no system message")
	refused(t, exitUsage, []string{builtinName, "--prompt-tokens", "1,2,3", "--pin-system"}, "there is no system message")
	refused(t, exitUsage, []string{"m.gguf", "-p", longer, "--system", strings.Repeat(system, 9), "--pin-system", "--budget", "20"}, "budget of 20 slots per KV head is less than the", "pinned tokens")
}

func TestTextsOfThePromptArePinned(t *testing.T) {
	onFirstDriver(t, nil)
	text := func(args ...string) ([]h2o.Span, []string) {
		return pinnedBy(t, append([]string{builtinName, "-p", longer}, args...)...)
	}
	spans, texts := text("--pin-text", "the Emperor", "--kv", "streaming")
	if len(spans) != 1 || !strings.Contains(texts[0], "the Emperor") || len(texts[0]) > len(" the Emperor,") {
		t.Errorf("%v, %q", spans, texts)
	}
	if before := spans[0].Begin; before < 4 || before > 16 {
		t.Errorf("not the first place: %v", spans)
	}
	whole := spans[0]
	// Of a part of a word, the tokens that have a part in it.
	if spans, texts = text("--pin-text", "mpero"); len(spans) != 1 || !strings.Contains(texts[0], "mpero") || spans[0].Begin < whole.Begin || spans[0].End > whole.End {
		t.Errorf("%v, %q", spans, texts)
	}
	if spans, texts = text("--pin-text", "Austerlitz", "--pin-text", "Prince"); len(spans) != 2 || spans[0].Begin != 0 || !strings.Contains(texts[0], "Prince") || !strings.Contains(texts[1], "Austerlitz") {
		t.Errorf("%v, %q", spans, texts)
	}
	// What meets is one span.
	if spans, _ = text("--pin-text", "looked", "--pin-text", "Prince Andrew", "--pin-first", "3", "--pin-text", "Austerlitz"); len(spans) != 2 || spans[0].Begin != 0 || spans[0].End < 4 {
		t.Errorf("%v", spans)
	}
	got := vkdecode(t, "run", builtinName, "-p", longer, "-n", "2", "--pin-text", "Prince", "--budget", "30")
	got.want(t, exitOK, "pinned   positions 0 to ")
	refuse := func(want string, args ...string) {
		t.Helper()
		refused(t, exitUsage, append([]string{builtinName, "--budget", "60"}, args...), want)
	}
	refuse(`--pin-text: "Napoleon" is not in the prompt`, "-p", longer, "--pin-text", "Napoleon")
	refuse(`--pin-text: "" is not in the prompt`, "-p", longer, "--pin-text", "")
	refuse("--pin-text needs a prompt of text", "--prompt-tokens", "1,2,3", "--pin-text", "x")
	refuse("3 pinned spans, 2 at most", "-p", longer, "--pin-text", "Andrew", "--pin-text", "sky", "--pin-text", "Austerlitz")
}
