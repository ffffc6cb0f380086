package tests

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"flag"
	"math"
	"os"
	"strings"
	"sync"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/model/builtin"
	"vkdecode/model/gguf"
	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/vk"
)

// engines are shared by the tests of the process, for drivers compile slowly; so are two models on each of them.
// A device's test runs alone on it.
var engines = struct {
	sync.Mutex
	of map[*vk.Device]*sharedEngine
}{of: map[*vk.Device]*sharedEngine{}}

type sharedEngine struct {
	*runtime.Engine
	builtin, smollm2 *model.Model
}

func engineOf(d *vk.Device) *sharedEngine {
	engines.Lock()
	defer engines.Unlock()
	if engines.of[d] == nil {
		engines.of[d] = &sharedEngine{Engine: runtime.NewEngine(d)}
	}
	return engines.of[d]
}

// whole asks for what `make test` has no time for: every text to its end, on SwiftShader as on lavapipe.
var whole = flag.Bool("whole", false, "spare no device, and read all texts to their end")

// slow tells whether a device is one that tests must spare: SwiftShader takes several times as long as lavapipe.
func slow(d *vk.Device) bool {
	return !*whole && d.Info.Kind == "cpu" && engineOf(d).Tuning.Form != shaders.Texel
}

// builtinOn loads the model inside the program, once per device.
func builtinOn(t testing.TB, d *vk.Device) *model.Model {
	t.Helper()
	e := engineOf(d)
	if e.builtin == nil {
		e.builtin = loadBuiltin(t, e.Engine)
	}
	return e.builtin
}

func loadBuiltin(t testing.TB, e *runtime.Engine) *model.Model {
	t.Helper()
	f, err := gguf.Parse(builtin.Model)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Load(e, f, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const smollm2 = "../models/SmolLM2-135M-Instruct.Q4_1.gguf"

// smollm2On loads the model that `make run` fetches, once per device.
func smollm2On(t testing.TB, d *vk.Device) *model.Model {
	t.Helper()
	e := engineOf(d)
	if e.smollm2 == nil {
		f, err := gguf.Open(smollm2)
		if err != nil {
			t.Fatalf("%v; `make run` fetches it", err)
		}
		defer f.Close()
		if e.smollm2, err = model.Load(e.Engine, f, nil); err != nil {
			t.Fatal(err)
		}
	}
	return e.smollm2
}

// loadModel loads a model file for the length of a test, on the device's shared engine.
func loadModel(t testing.TB, d *vk.Device, path string) *model.Model {
	t.Helper()
	return loadOn(t, engineOf(d).Engine, path)
}

// loadOn loads a model file for the length of a test.
func loadOn(t testing.TB, e *runtime.Engine, path string) *model.Model {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := model.Load(e, f, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// kv are the settings of a policy, with f32 K and V, original positions and the policy's own sinks.
func kv(policy, budget string, recentRatio float64, chunk int) h2o.Settings {
	spec, err := h2o.ParseSpec(policy)
	if err != nil {
		panic(err)
	}
	s := h2o.Settings{Policy: spec, RecentRatio: recentRatio, Sinks: -1, Type: "f32", Positions: "auto", Chunk: chunk}
	if s.Budget, err = h2o.ParseBudget(budget); err != nil {
		panic(err)
	}
	return s
}

// fullKV keeps every token.
func fullKV(chunk int) h2o.Settings { return kv("full", "100%", 0, chunk) }

// openSession opens a session for the length of a test.
func openSession(t testing.TB, m *model.Model, s h2o.Settings, length int) *model.Session {
	t.Helper()
	session, err := m.NewSession(t.Context(), model.SessionOptions{KV: s, Length: length})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	return session
}

// promptLogits processes ids and returns the logits (ids, vocab) of all of them.
func promptLogits(t testing.TB, s *model.Session, ids []int32) []float32 {
	t.Helper()
	var all []float32
	keep := func(step model.Step) error {
		all = append(all, step.Logits...)
		return nil
	}
	if err := s.Prompt(t.Context(), ids, model.Observer{Logits: true, Step: keep}, nil); err != nil {
		t.Fatal(err)
	}
	return all
}

// greedy continues a session by n tokens, without an observer: the recorded step is replayed.
func greedy(t testing.TB, s *model.Session, n int) (tokens []int32) {
	t.Helper()
	return generated(t, s, model.Generation{Tokens: n})
}

func generated(t testing.TB, s *model.Session, g model.Generation) (tokens []int32) {
	t.Helper()
	g.Emit = func(token int32) error {
		tokens = append(tokens, token)
		return nil
	}
	if _, err := s.Generate(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	return tokens
}

// nmse is the squared error of got relative to want.
func nmse(got, want []float32) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	var errors, squares float64
	for i := range got {
		e := float64(got[i]) - float64(want[i])
		errors += e * e
		squares += float64(want[i]) * float64(want[i])
	}
	return errors / squares
}

// floats are float32 in base64, as the reference data hold them.
type floats []float32

func (f *floats) UnmarshalJSON(b []byte) error {
	var raw []byte
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	for ; len(raw) >= 4; raw = raw[4:] {
		*f = append(*f, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	}
	return err
}

// readJSON reads a file of reference data.
func readJSON(t testing.TB, path string, to any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, to); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// wantError checks that an error holds all the given parts.
func wantError(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q, want one with %q", err, part)
		}
	}
}
