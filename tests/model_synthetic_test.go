package tests

import (
	"errors"
	"math"
	"strings"
	"testing"

	"vkdecode/model"
	"vkdecode/model/gguf"
	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

func syntheticShape(t *testing.T, text string) model.Shape {
	t.Helper()
	s, err := model.ParseShape(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A model of random weights decodes, in every weight type, and its logits are neither all alike nor out of range.
func TestSyntheticModelsDecode(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		for i, kind := range shaders.WeightTypes {
			s, err := model.NewSynthetic(engineOf(d).Engine, syntheticShape(t, "llama-3m:"+kind))
			if err != nil {
				t.Fatal(err)
			}
			before := d.HeldBy("weights.")
			m, err := s.Build(nil)
			if err != nil {
				t.Fatal(err)
			}
			if held := d.HeldBy("weights.") - before; held != s.Bytes() || held == 0 {
				t.Errorf("%s: %d bytes held, %d planned", kind, held, s.Bytes())
			}
			if slow(d) && i%4 > 0 { // what is random is the same on every driver
				m.Close()
				continue
			}
			session := openSession(t, m, fullKV(16), 40)
			logits := promptLogits(t, session, []int32{1, 2, 3, 4, 5})
			mean, square := 0.0, 0.0
			for _, v := range logits {
				mean += float64(v) / float64(len(logits))
				square += float64(v) * float64(v) / float64(len(logits))
			}
			if deviation := math.Sqrt(square - mean*mean); !(deviation > 0.2 && deviation < 5) {
				t.Errorf("%s: logits of mean %g and deviation %g, want about 0 and 1", kind, mean, deviation)
			}
			if n := len(greedy(t, session, 3)); n != 3 {
				t.Errorf("%s: %d tokens decoded, want 3", kind, n)
			}
			session.Close()
			m.Close()
		}
	})
}

// Planning needs no memory of the device, whatever the size of the model.
func TestSyntheticModelsArePlannedWithoutMemory(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		before := d.Reserved()
		for text, want := range map[string]struct{ parameters, bits float64 }{
			"llama-135m:q4_0": {135e6, 5},
			"llama-1b:q8_0":   {1.24e9, 9},
			"llama-7b:q4_0":   {6.74e9, 5}, // scales are held as f32
			"llama-8b:f16":    {8.03e9, 16},
			"llama-14b:q4_1":  {14.77e9, 5},
		} {
			s, err := model.NewSynthetic(engineOf(d).Engine, syntheticShape(t, text))
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			// Planes are padded to whole blocks of every lane, which weighs on small models.
			if got := float64(s.Bytes()) * 8 / want.parameters; got < 0.99*want.bits || got > 1.15*want.bits {
				t.Errorf("%s: %d bytes, %.2f bits for each of %g parameters, want about %g", text, s.Bytes(), got, want.parameters, want.bits)
			}
		}
		if d.Reserved() != before {
			t.Errorf("%d bytes reserved by planning", d.Reserved()-before)
		}
	})
}

func TestWrongShapesAreRefused(t *testing.T) {
	for text, parts := range map[string][]string{
		"":                {`shape ""`, "llama-7b"},
		"llama-9b:q4_0":   {`shape "llama-9b"`, "llama-135m, llama-1b, llama-7b"},
		"llama-7b":        {"no weight type", "llama-7b:q4_0"},
		"llama-7b:q9_9":   {`weight type "q9_9"`, "q4_0, q4_1, q4_k, q5_0"},
		"llama-7b:":       {`weight type ""`},
		"llama-7b:q4_0:x": {`weight type "q4_0:x"`},
	} {
		_, err := model.ParseShape(text)
		wantError(t, err, parts...)
	}
	for _, word := range model.ShapeWords() {
		if s := syntheticShape(t, word); s.String() != word {
			t.Errorf("%s is read as %s", word, s)
		}
	}
}

// Every weight type that has kernels can be made up.
func TestEveryWeightTypeCanBeMadeUp(t *testing.T) {
	words := strings.Join(model.ShapeWords(), " ")
	for _, kind := range shaders.WeightTypes {
		if !strings.Contains(words, "llama-3m:"+kind) {
			t.Errorf("%s has no row in model.noises", kind)
		}
	}
}

// Two models of a shape are the same, and one whose embedding is its own has another matrix.
func TestSyntheticModelsAreTheSameEveryTime(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		logits := func(s model.Shape) []float32 {
			synthetic, err := model.NewSynthetic(engineOf(d).Engine, s)
			if err != nil {
				t.Fatal(err)
			}
			m, err := synthetic.Build(nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(m.Close)
			return promptLogits(t, openSession(t, m, fullKV(4), 4), []int32{7, 8, 9})
		}
		s := syntheticShape(t, "llama-3m:f16")
		first := logits(s)
		if e := nmse(logits(s), first); e != 0 {
			t.Errorf("the second model's logits differ from the first's: NMSE %.2e", e)
		}
		s.Tied = false
		if e := nmse(logits(s), first); e < 0.1 {
			t.Errorf("another matrix for the logits gives almost the same ones: NMSE %.2e", e)
		}
		s.Type = gguf.Q8_1 // no file has matrices of it
		_, err := model.NewSynthetic(engineOf(d).Engine, s)
		wantError(t, err, "Q8_1", "no kernel")
	})
}

// A step reads every matrix but an embedding of its own, and multiplies with every one.
func TestTheWorkOfAStepIsThatOfItsMatrices(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		const head = 256 * 2048
		layers := 3 * (256*(4*64+2*2*64) + 4*64*256 + 3*256*768)
		for _, tied := range []bool{true, false} {
			s := syntheticShape(t, "llama-3m:f32")
			s.Tied = tied
			synthetic, err := model.NewSynthetic(engineOf(d).Engine, s)
			if err != nil {
				t.Fatal(err)
			}
			m, err := synthetic.Build(nil)
			if err != nil {
				t.Fatal(err)
			}
			w, embedding := m.Work(), int64(0)
			if !tied {
				embedding = head * 4
			}
			if w.Weights != int64(layers+head) || w.HeadWeights != head {
				t.Errorf("tied %t: %d weights, %d of the logits; want %d and %d", tied, w.Weights, w.HeadWeights, layers+head, head)
			}
			if w.WeightBytes < 4*w.Weights || w.WeightBytes > m.Bytes()-embedding {
				t.Errorf("tied %t: %d bytes, want from %d to %d", tied, w.WeightBytes, 4*w.Weights, m.Bytes()-embedding)
			}
			m.Close()
		}
	})
}

// A progress that fails ends the building and leaves no memory behind.
func TestBuildingEndsWithItsProgress(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		s, err := model.NewSynthetic(runtime.NewEngine(d), syntheticShape(t, "llama-3m:q4_0"))
		if err != nil {
			t.Fatal(err)
		}
		before, calls := d.HeldBy("weights."), 0
		_, err = s.Build(func(done, total int64) error {
			if calls++; done < 1 || done > total || total != s.Bytes() {
				t.Errorf("%d of %d bytes", done, total)
			}
			return errors.New("enough")
		})
		wantError(t, err, "enough")
		if calls != 1 || d.HeldBy("weights.") != before {
			t.Errorf("%d calls, %d bytes left", calls, d.HeldBy("weights.")-before)
		}
	})
}
