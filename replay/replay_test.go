package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/model/builtin"
	"vkdecode/model/gguf"
	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// loaded is the built-in model on a device, of which there is one each: drivers compile slowly.
type loaded struct {
	engine *runtime.Engine
	model  *model.Model
}

var models = map[*vk.Device]*loaded{}

func modelOn(t testing.TB, d *vk.Device) *loaded {
	t.Helper()
	if models[d] == nil {
		f, err := gguf.Parse(builtin.Model)
		if err != nil {
			t.Fatal(err)
		}
		l := &loaded{engine: runtime.NewEngine(d)}
		if l.model, err = model.Load(l.engine, f, nil); err != nil {
			t.Fatal(err)
		}
		models[d] = l
	}
	return models[d]
}

// slow tells whether a device is one that tests must spare.
func (l *loaded) slow() bool {
	return l.engine.Device.Info.Kind == "cpu" && l.engine.Tuning.Form != shaders.Texel
}

func (l *loaded) open(t testing.TB, o model.SessionOptions) *model.Session {
	t.Helper()
	s, err := l.model.NewSession(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// kv are settings: policies of decoding and of prompts, "" = the same, and how prompts are cut.
func kv(policy, prompts, how, budget string, chunk int) h2o.Settings {
	s := h2o.Settings{Prompt: how, RecentRatio: 0.5, Sinks: -1, Type: "f16", Positions: "auto", Chunk: chunk}
	if errors.Join(s.Policy.UnmarshalText([]byte(policy)), s.Prefill.UnmarshalText([]byte(prompts)), s.Budget.UnmarshalText([]byte(budget))) != nil {
		panic("a test's settings cannot be read")
	}
	return s
}

const text = "Well, Prince, so Genoa and Lucca are now just family estates of the Buonapartes. But I warn you, if you don't tell me that this means war, " +
	"if you still try to defend the infamies and horrors perpetrated by that Antichrist, I really believe he is Antichrist, I will have nothing more to do with you."

func (l *loaded) prompt(tokens int) []int32 {
	return l.model.Tokenizer.Encode(text, encodeNothing)[:tokens]
}

// write does a run and logs it. stop, if not 0, interrupts the prompt after so many tokens.
func (l *loaded) write(t testing.TB, s *model.Session, prompt []int32, tokens, stop int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "e.jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := NewWriter(f, HeaderOf(s, l.model, l.engine, "builtin:", "test", prompt))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	observer := model.Observer{Evictions: true, Step: func(step model.Step) error {
		if step.Seen == stop {
			cancel()
		}
		return w.Write(step.Evicted, s.Tokens)
	}}
	var decoded []int32
	reason := model.StopCancelled
	if len(prompt) > 0 {
		err = s.Prompt(ctx, prompt, observer, nil)
	}
	if err == nil {
		reason, err = s.Generate(ctx, model.Generation{Tokens: tokens, Observer: observer, Continue: len(prompt) == 0, Emit: func(token int32) error {
			decoded = append(decoded, token)
			return nil
		}})
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := w.End(decoded, len(s.Tokens), reason); err != nil {
		t.Fatal(err)
	}
	return path
}

// replayed does a log's run again.
func (l *loaded) replayed(t testing.TB, path string, from []byte) (*Result, error) {
	t.Helper()
	log, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s := l.open(t, log.Header.Options())
	if from != nil {
		if err := s.Restore(bytes.NewReader(from)); err != nil {
			t.Fatal(err)
		}
	}
	return Run(t.Context(), log, s, DeviceOf(l.engine), nil)
}

// Every policy, in decoding and for prompts, leaves a log that holds, and the twin has checked all of it but what a prompt's
// policy chose by scores that decoding does not keep.
func TestReplaysHold(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		l := modelOn(t, d)
		all := []h2o.Settings{
			kv("h2o", "snapkv", "bounded", "40", 16), kv("adakv", "", "bounded", "40", 16), kv("h2o", "window", "exact", "24", 16), kv("h2o", "random", "bounded", "24", 16), kv("window", "h2o", "exact", "24", 16),
		}
		if !l.slow() {
			for _, name := range h2o.Names() {
				all = append(all, kv(name, "", "auto", "40", 16), kv(name, "", "auto", "40", 1), kv(name, "", "exact", "40", 16))
			}
			all = append(all, kv("h2o:every=5", "", "auto", "24", 1), kv("h2o:every=5", "", "auto", "24", 16), kv("h2o:score=guide", "", "auto", "24", 16), kv("h2o:grace=9", "", "auto", "24", 1),
				kv("random", "strided", "bounded", "24", 16), kv("snapkv:decode=grow", "", "bounded", "40", 16), kv("streaming", "tova", "bounded", "24", 16), kv("adakv:alpha=0", "", "exact", "36", 16))
		}
		for _, settings := range all {
			settings.Pinned = []h2o.Span{{Begin: 5, End: 7}}
			name := fmt.Sprintf("%s, prompts %s %s, chunk %d", settings.Policy, settings.Prefill, settings.Prompt, settings.Chunk)
			s := l.open(t, model.SessionOptions{KV: settings, Length: 100, Prompt: 70})
			r, err := l.replayed(t, l.write(t, s, l.prompt(70), 31, 0), nil)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if !r.Holds || r.Tokens != 100 || r.Evictions.Here != r.Evictions.Log || r.Choices.Checked+r.Choices.Unchecked != r.Evictions.Here || r.NotComparable != nil {
				t.Errorf("%s: %s", name, toJSON(t, r))
			}
			if (r.Evictions.Here == 0) != (settings.Policy.Name == "full") {
				t.Errorf("%s: %d evictions", name, r.Evictions.Here)
			}
			measured := settings.Prefill.Name == "h2o" || settings.Prefill.Name == "tova"
			if (r.Choices.Unchecked > 0) != measured || r.Choices.Checked == 0 && r.Evictions.Here > 0 {
				t.Errorf("%s: %d choices checked, %d not", name, r.Choices.Checked, r.Choices.Unchecked)
			}
		}
	})
}

func toJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A run that was interrupted, in its prompt or after it, and one that went on from a session, can be replayed too.
func TestReplaysOfPartsHold(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		l := modelOn(t, d)
		holds := func(what, path string, from []byte, tokens int) {
			t.Helper()
			if r, err := l.replayed(t, path, from); err != nil || !r.Holds || r.Tokens != tokens || r.Choices.Checked == 0 {
				t.Errorf("%s: %s, %v", what, toJSON(t, r), err)
			}
		}
		o := model.SessionOptions{KV: kv("h2o", "", "auto", "12", 16), Length: 100}
		holds("interrupted in the prompt", l.write(t, l.open(t, o), l.prompt(70), 31, 48), nil, 48)
		holds("interrupted in decoding", l.write(t, l.open(t, o), l.prompt(70), 31, 80), nil, 80)
		s := l.open(t, o)
		l.write(t, s, l.prompt(40), 10, 0)
		var file bytes.Buffer
		if err := s.Save(&file); err != nil {
			t.Fatal(err)
		}
		for what, prompt := range map[string][]int32{"after a session": append([]int32{s.Pending}, l.prompt(20)...), "without a prompt": nil} {
			on := l.open(t, o)
			if err := on.Restore(bytes.NewReader(file.Bytes())); err != nil {
				t.Fatal(err)
			}
			path := l.write(t, on, prompt, 10, 0)
			holds(what, path, file.Bytes(), len(on.Tokens))
			if log, err := Open(path); err != nil || log.Header.Session == nil || log.Header.Session.Tokens != 49 || len(log.Header.Session.SHA256) != 64 {
				t.Errorf("%s: %+v, %v", what, log, err)
			}
		}
	})
}

// forged are logs that differ from a genuine one in the given way, and what must be found.
func TestForgedLogsDoNotHold(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		l := modelOn(t, d)
		path := l.write(t, l.open(t, model.SessionOptions{KV: kv("h2o", "", "auto", "12", 16), Length: 60}), l.prompt(40), 21, 0)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		genuine := strings.SplitAfter(string(b), "\n")
		genuine = genuine[:len(genuine)-1]
		last := len(genuine) // the end's line, from 1
		const at = 100       // lines before, with the header
		change := func(from, to string) func(lines []string) []string {
			return func(lines []string) []string {
				if !strings.Contains(lines[at], from) {
					t.Fatalf("line %q has no %q", lines[at], from)
				}
				lines[at] = strings.Replace(lines[at], from, to, 1)
				return lines
			}
		}
		var e h2o.Eviction
		if err := json.Unmarshal([]byte(genuine[at]), &e); err != nil {
			t.Fatal(err)
		}
		score := func(v float32) string { return fmt.Sprintf(`"score":%s,`, toJSON(t, v)) }
		position := func(p uint32) string { return fmt.Sprintf(`"position":%d,`, p) }
		for name, c := range map[string]struct {
			forge func(lines []string) []string
			line  int // that differs first; 0 = none
		}{
			"nothing":                   {func(l []string) []string { return l }, 0},
			"another victim":            {change(position(e.Position), position(e.Position+1)), at + 1},
			"a score's last bit":        {change(score(e.Score), score(nextUp(e.Score))), at + 1},
			"another step":              {change(fmt.Sprintf(`"step":%d,`, e.Step), fmt.Sprintf(`"step":%d,`, e.Step+1)), at + 1},
			"a line dropped":            {func(l []string) []string { return slices.Delete(l, at, at+1) }, at + 1},
			"the first line dropped":    {func(l []string) []string { return slices.Delete(l, 1, 2) }, 2},
			"the last eviction dropped": {func(l []string) []string { return slices.Delete(l, last-2, last-1) }, last - 1},
			"a line twice":              {func(l []string) []string { return slices.Insert(l, at, l[at]) }, at + 2},
			"a line more at the end":    {func(l []string) []string { return slices.Insert(l, last-1, l[last-2]) }, last},
			"two lines exchanged":       {func(l []string) []string { l[at], l[at+1] = l[at+1], l[at]; return l }, at + 1},
			"an empty line":             {func(l []string) []string { return slices.Insert(l, at, "\n") }, at + 1},
			"a space":                   {change(",", ", "), at + 1},
			"another number of evictions": {func(l []string) []string {
				l[last-1] = strings.Replace(l[last-1], `"evictions":`, `"evictions":1`, 1)
				return l
			}, last},
			"another number of tokens": {func(l []string) []string {
				l[last-1] = strings.Replace(l[last-1], `"seen":60`, `"seen":59`, 1)
				return l
			}, last},
			"another token of the prompt": {func(l []string) []string {
				l[0] = replaceLast(l[0], "]", ",5]")
				l[0] = strings.Replace(l[0], `"length":60`, `"length":61`, 1)
				return l
			}, -1},
			"another decoded token": {func(l []string) []string {
				l[last-1] = strings.Replace(l[last-1], `"tokens":[`, `"tokens":[7,`, 1)
				l[0] = strings.Replace(l[0], `"length":60`, `"length":61`, 1)
				return l
			}, -1},
			"another budget in the header": {func(l []string) []string { l[0] = strings.Replace(l[0], `"budget":"12"`, `"budget":"13"`, 1); return l }, -1},
		} {
			lines := c.forge(slices.Clone(genuine))
			forged := filepath.Join(t.TempDir(), "forged.jsonl")
			if err := os.WriteFile(forged, []byte(strings.Join(lines, "")), 0o666); err != nil {
				t.Fatal(err)
			}
			r, err := l.replayed(t, forged, nil)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if r.Holds != (c.line == 0) || (r.Difference != nil) != (c.line != 0) || r.Choices.Wrong != 0 {
				t.Errorf("%s: %s", name, toJSON(t, r))
				continue
			}
			if d := r.Difference; d != nil && (c.line > 0 && d.Line != c.line || d.Log == d.Here || d.Line <= len(lines) && d.Log+"\n" != lines[d.Line-1]) {
				t.Errorf("%s: line %d differs, want %d: %q, here %q", name, d.Line, c.line, d.Log, d.Here)
			}
		}
	})
}

func replaceLast(s, old, replacement string) string {
	i := strings.LastIndex(s, old)
	return s[:i] + replacement + s[i+len(old):]
}

// Of a log from another device, or of another form of the kernels, only the sets are compared.
func TestLogsOfOtherDevicesAreComparedAsSets(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		l := modelOn(t, d)
		path := l.write(t, l.open(t, model.SessionOptions{KV: kv("h2o", "", "auto", "12", 16), Length: 60}), l.prompt(40), 21, 0)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(b), "\n")
		const at = 100
		var e h2o.Eviction
		if err := json.Unmarshal([]byte(lines[at]), &e); err != nil {
			t.Fatal(err)
		}
		other := func(from, to string, more ...string) (*Result, error) {
			t.Helper()
			changed := slices.Clone(lines)
			if changed[0] = strings.Replace(lines[0], from, to, 1); changed[0] == lines[0] {
				t.Fatalf("no %q in %s", from, lines[0])
			}
			for i := 0; i < len(more); i += 2 {
				changed[at] = strings.Replace(changed[at], more[i], more[i+1], 1)
			}
			p := filepath.Join(t.TempDir(), "other.jsonl")
			if err := os.WriteFile(p, []byte(strings.Join(changed, "")), 0o666); err != nil {
				t.Fatal(err)
			}
			return l.replayed(t, p, nil)
		}
		device := `"device":{"name":"`
		r, err := other(device, device+"Other ")
		if err != nil || !r.Holds || r.Difference != nil || len(r.NotComparable) != 1 || !strings.Contains(r.NotComparable[0], "name: Other ") || *r.Sets != (Sets{Both: r.Evictions.Here}) || r.Choices.Checked == 0 {
			t.Errorf("%s, %v", toJSON(t, r), err)
		}
		n := r.Evictions.Here
		step, position := fmt.Sprintf(`"step":%d,`, e.Step), fmt.Sprintf(`"position":%d,`, e.Position)
		if r, err = other(`"Lanes":`, `"Lanes":1`, position, `"position":59,`); err != nil || !r.Holds || *r.Sets != (Sets{n - 1, 0, 1, 1}) || !strings.Contains(r.NotComparable[0], "tuning: {") {
			t.Errorf("%s, %v", toJSON(t, r), err)
		}
		if r, err = other(`"kernels":"`, `"kernels":"f`, step, fmt.Sprintf(`"step":%d,`, e.Step+1)); err != nil || !r.Holds || *r.Sets != (Sets{n, 1, 0, 0}) {
			t.Errorf("%s, %v", toJSON(t, r), err)
		}
		if _, err = other(device, device+"Other ", `"step"`, `"stop"`); err == nil || !strings.Contains(err.Error(), "is no eviction") {
			t.Errorf("%v", err)
		}
	})
}
