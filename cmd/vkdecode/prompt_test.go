package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"vkdecode/model/gguf"
	"vkdecode/model/tokenizer"
)

// onlyPrompt processes a prompt row by row, which needs the fewest kernels.
var onlyPrompt = []string{"-n", "0", "--chunk", "1"}

// promptOf is the prompt that a run processed.
func promptOf(t *testing.T, args ...string) []int32 {
	t.Helper()
	return runReported(t, slices.Concat([]string{"run", builtinName}, onlyPrompt, args)...).PromptTokens
}

func TestPromptComesInEveryForm(t *testing.T) {
	onFirstDriver(t, map[string]string{"p.txt": "Prince Andrew", "ids.txt": "48, 435\n559\n"})
	want := []int32{48, 435, 559}
	for _, args := range [][]string{{"-p", "Prince Andrew"}, {"-f", "p.txt"}, {"-f", "p.txt", "--raw"}, {"--prompt-tokens", "48,435,559"}, {"--prompt-tokens", "@ids.txt"}} {
		if got := promptOf(t, args...); !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", args, got, want)
		}
	}
	var stdout, stderr bytes.Buffer
	code := run(inProcess(t), slices.Concat([]string{"run", builtinName, "-f", "-", "--json"}, onlyPrompt), strings.NewReader("Prince Andrew"), &stdout, &stderr)
	var r runJSON
	result{code, stdout.String(), stderr.String()}.read(t, &r)
	if !slices.Equal(r.PromptTokens, want) {
		t.Errorf("-f -: %v, want %v", r.PromptTokens, want)
	}
}

// The built-in vocabulary has a token for every byte.
func TestPromptKeepsItsBytes(t *testing.T) {
	text := "one\r\ntwo\xff\xfe \x00 \u00e9"
	onFirstDriver(t, map[string]string{"p": text})
	file, err := openFile(builtinName)
	if err != nil {
		t.Fatal(err)
	}
	tokens, _, _ := file.Strings("tokenizer.ggml.tokens")
	merges, _, _ := file.Strings("tokenizer.ggml.merges")
	vocabulary, err := tokenizer.New(tokenizer.Vocabulary{Model: "gpt2", Pre: "gpt-2", Tokens: tokens, Merges: merges, BOS: -1, EOS: -1, EOT: -1, UNK: -1, PAD: -1})
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	for _, id := range promptOf(t, "-f", "p", "--raw") {
		got = append(got, vocabulary.Piece(id)...)
	}
	if string(got) != text {
		t.Errorf("%q became %q", text, got)
	}
}

func TestPromptKnowsSpecialTokens(t *testing.T) {
	onFirstDriver(t, nil)
	if got := promptOf(t, "--raw", "-p", "<|endoftext|>Prince Andrew"); !slices.Equal(got, []int32{0, 48, 435, 559}) {
		t.Errorf("%v, want the end token 0 first", got)
	}
}

func TestPromptIsWrappedInTheModelsTemplate(t *testing.T) {
	const template = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[me]{% endif %}"
	templated := func(text string) string {
		return variant(t, nil, nil, func(w *gguf.Writer) { w.Set("tokenizer.chat_template", text) })
	}
	onFirstDriver(t, map[string]string{"m.gguf": templated(template), "bad.gguf": templated("{% for %}")})
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-p", "hi"}, "[user]hi[me]"},
		{[]string{"-p", "hi", "--system", "be"}, "[system]be[user]hi[me]"},
		{[]string{"-p", "hi", "--raw"}, "hi"},
	} {
		r := runReported(t, slices.Concat([]string{"run", "m.gguf"}, onlyPrompt, c.args)...)
		if got := pieces(t, r.PromptTokens); got != c.want {
			t.Errorf("%v: %q, want %q", c.args, got, c.want)
		}
	}
	vkdecode(t, "run", "bad.gguf", "-p", "x").want(t, exitFailure, "template", "try --raw")
	vkdecode(t, "run", builtinName, "-p", "x", "--system", "y").want(t, exitUsage, "--system needs a chat template")
}

func TestPromptRunsWithoutAVocabulary(t *testing.T) {
	onFirstDriver(t, map[string]string{"m.gguf": variant(t, without("tokenizer."), nil),
		"odd.gguf": variant(t, with("tokenizer.ggml.pre", "klingon"), nil)})
	for _, name := range []string{"m.gguf", "odd.gguf"} {
		line := []string{"run", name, "--prompt-tokens", "48,435,559", "-n", "4", "--temp", "0"}
		r := runReported(t, line...)
		if len(r.Tokens) != 4 || r.Text != "" {
			t.Errorf("%s: %+v", name, r)
		}
		if got := vkdecode(t, line...); got.stdout != strings.Trim(fmt.Sprint(r.Tokens), "[]")+" \n" {
			t.Errorf("%s: stdout %q", name, got.stdout)
		}
	}
	vkdecode(t, "run", "m.gguf", "-p", "x").want(t, exitFailure, "no vocabulary", "--prompt-tokens")
	vkdecode(t, "run", "odd.gguf", "-p", "x").want(t, exitFailure, "klingon", "--prompt-tokens")
}

func TestPromptRefusesWhatIsNone(t *testing.T) {
	onFirstDriver(t, map[string]string{"empty": "", "blank": " \n"})
	for _, c := range []struct {
		args  []string
		code  int
		parts []string
	}{
		{nil, exitUsage, []string{"at least one of the flags", "prompt"}},
		{[]string{"-p", "a", "-f", "b"}, exitUsage, []string{"prompt", "file"}},
		{[]string{"-p", ""}, exitUsage, []string{"empty"}},
		{[]string{"-f", "empty"}, exitUsage, []string{"empty"}},
		{[]string{"-f", "-"}, exitUsage, []string{"empty"}},
		{[]string{"-f", "none"}, exitFailure, []string{"prompt", "none", "no such file"}},
		{[]string{"-f", "."}, exitFailure, []string{"is a directory"}},
		{[]string{"--prompt-tokens", ""}, exitUsage, []string{"empty"}},
		{[]string{"--prompt-tokens", "@none"}, exitFailure, []string{"none", "no such file"}},
		{[]string{"--prompt-tokens", "@blank"}, exitUsage, []string{"no token ids"}},
		{[]string{"--prompt-tokens", "1,two"}, exitUsage, []string{`"two"`, "from 0 to 1023"}},
		{[]string{"--prompt-tokens", "1,1024"}, exitUsage, []string{`"1024"`, "from 0 to 1023"}},
		{[]string{"--prompt-tokens", "-1"}, exitUsage, []string{`"-1"`}},
		{[]string{"--prompt-tokens", "99999999999"}, exitUsage, []string{"from 0 to 1023"}},
		{[]string{"--prompt-tokens", "1", "--system", "x"}, exitUsage, []string{"system", "prompt-tokens"}},
		{[]string{"-p", "x", "--raw", "--system", "x"}, exitUsage, []string{"system", "raw"}},
	} {
		got := vkdecode(t, append([]string{"run", builtinName}, c.args...)...)
		got.want(t, c.code, c.parts...)
		if got.stdout != "" {
			t.Errorf("%v: stdout holds %q", c.args, got.stdout)
		}
	}
}
