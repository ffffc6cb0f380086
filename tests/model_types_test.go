package tests

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

func typed(s h2o.Settings, types string) h2o.Settings {
	s.Type = types
	return s
}

// quantised are types of K and V with scales, alone and mixed.
var quantised = []string{"q8_0", "q4_0", "q8_0/q4_0", "f16/q8_0"}

// How the squared errors of the types compare, per value, for values spread normally. f16 rounds to 2^-11 of the next
// power of two: (2^-11)^2 / 12 times the mean of 4^(exponent+1) / x^2, about 4e-8 of x^2. q8_0 rounds to steps of
// max / 127, where the largest of 32 normal values is about 2.1 deviations: (2.1 / 127)^2 / 12 = 2.3e-5. The steps of q4_0
// are 127 / 8 times as wide. The logits follow in proportion.
const (
	q8OverF16 = 575
	q4OverQ8  = 252
)

// The random models' logits are as far from the reference as the steps of the types are wide, within a factor of three on
// either side: a scale that is wrong or not used, or values that are cut instead of rounded, are outside of it.
func TestLogitsAreAsExactAsTheStepsOfTheTypes(t *testing.T) {
	for _, name := range []string{"group3-q8_0", "head48-biases", "head64-eps3", "head80-eps6", "head128-f16"} {
		t.Run(name, func(t *testing.T) {
			var want struct {
				IDs    []int32
				Logits floats
			}
			readJSON(t, "testdata/llama/"+name+".json", &want)
			drivers.Together(t, func(t *testing.T, d *vk.Device) {
				m := loadModel(t, d, "testdata/llama/"+name+".gguf")
				logits := func(types string, chunk int) []float32 {
					return promptLogits(t, openSession(t, m, typed(fullKV(chunk), types), len(want.IDs)), want.IDs)
				}
				f16 := nmse(logits("f16", 64), want.Logits)
				var errors []float64
				for _, c := range []struct {
					types string
					steps float64 // squared, against those of f16
				}{{"q8_0", q8OverF16}, {"q4_0", q8OverF16 * q4OverQ8}, {"q8_0/q4_0", q8OverF16 * q4OverQ8 / 2}, {"q4_0/q8_0", q8OverF16 * q4OverQ8 / 2}} {
					got := logits(c.types, 64)
					e := nmse(got, want.Logits)
					errors = append(errors, e)
					t.Logf("%s: NMSE %.1e, %.2f of what the steps say", c.types, e, e/f16/c.steps)
					if !(e/f16 > c.steps/3 && e/f16 < 3*c.steps) {
						t.Errorf("%s: NMSE %.2e, that of f16 is %.2e, want it %g times as large", c.types, e, f16, c.steps)
					}
					if e := nmse(logits(c.types, 7), got); !(e <= errorChunk) {
						t.Errorf("%s in chunks of 7 against 64: NMSE %.2e, want %.0e at most", c.types, e, errorChunk)
					}
				}
				if errors[0] > errors[2] || errors[0] > errors[3] {
					t.Errorf("q8_0 is less exact, %.2e, than it is mixed with q4_0, %v", errors[0], errors[2:])
				}
			})
		})
	}
}

// The kernels of a GPU hold the same blocks: what they differ in is the order of sums.
func TestGPUTuningHoldsTheSameBlocks(t *testing.T) {
	ids := passageIDs(t)[:30]
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		info := d.Info
		info.Kind = "discrete"
		e := runtime.NewEngine(d)
		e.Tuning = runtime.TuningFor(info)
		m := loadOn(t, e, "testdata/llama/group3-q8_0.gguf")
		own := loadModel(t, d, "testdata/llama/group3-q8_0.gguf")
		for _, types := range []string{"q8_0/q4_0", "q4_0/q8_0"} {
			for i := range ids {
				ids[i] %= int32(m.Vocab)
			}
			got := promptLogits(t, openSession(t, m, typed(fullKV(7), types), len(ids)), ids)
			want := promptLogits(t, openSession(t, own, typed(fullKV(7), types), len(ids)), ids)
			if e := nmse(got, want); !(e <= errorF16) {
				t.Errorf("%s: NMSE %.2e against the CPU's kernels, want %.0e at most", types, e, errorF16)
			}
		}
	})
}

// A budget that is never exceeded changes nothing, whatever the types; one that is, does.
func TestBudgetForAllTokensEqualsFullInEveryType(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, prompt := builtinOn(t, d), passageIDs(t)[:60]
		for _, types := range append(slices.Clone(shaders.CacheTypes), quantised[2:]...) {
			full := decode(t, openSession(t, m, typed(fullKV(32), types), 80), prompt, 20, true)
			for _, budget := range []string{"100%", "80", "70", "1GB"} {
				got := decode(t, openSession(t, m, typed(kv("h2o", budget, 0.5, 32), types), 80), prompt, 20, true)
				same := slices.Equal(got.tokens, full.tokens) && slices.Equal(got.logits, full.logits) && got.log == full.log
				if evicts := budget == "70"; same == evicts {
					t.Errorf("%s, budget %s for 80 tokens: the same as full %v", types, budget, same)
				}
			}
		}
	})
}

// Every policy runs with every type, in the prompt and after it, and keeps what it may.
func TestEveryPolicyRunsWithEveryType(t *testing.T) {
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:90]
		for i, policy := range h2o.Names() {
			for j, types := range append(slices.Clone(shaders.CacheTypes), quantised[2:]...) {
				if slow(d) && (i+j)%3 > 0 {
					continue // two types for each
				}
				if err := runTyped(t, m, typed(kv(policy, "40", 0.5, 16), types), ids); err != nil {
					t.Errorf("%s, %s: %v", policy, types, err)
				}
			}
		}
	})
}

func runTyped(t *testing.T, m *model.Model, settings h2o.Settings, ids []int32) error {
	s, err := m.NewSession(t.Context(), model.SessionOptions{KV: settings, Length: len(ids) + 20})
	if err != nil {
		return err
	}
	defer s.Close()
	o := decode(t, s, ids, 20, false)
	if len(o.tokens) != 20 {
		return fmt.Errorf("%d tokens, want 20", len(o.tokens))
	}
	for i, l := range o.logits {
		if math.IsNaN(float64(l)) || math.IsInf(float64(l), 0) {
			return fmt.Errorf("logit %d is %v", i, l)
		}
	}
	counts, err := s.Cache().Counts(0)
	if err != nil {
		return err
	}
	most := 0 // live slots of a head
	for _, l := range s.Plan().Layers {
		most = max(most, l.Most)
	}
	if p := s.Plan(); counts.Kept > most || p.Evicts() && counts.Evicted == 0 || p.Bytes != s.Held() {
		return fmt.Errorf("%d slots kept of %d, %d evicted; %d bytes held, %d planned", counts.Kept, most, counts.Evicted, s.Held(), p.Bytes)
	}
	return nil
}

// Scores stay f32 sums of probabilities, and the victims are the lowest, whatever K and V are rounded to.
func TestScoresAreExactInEveryType(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:120]
		for _, types := range quantised {
			for _, chunk := range []int{1, 16} {
				h := watch(t, m, typed(kv("h2o", "24", 0.5, chunk), types), ids, false)
				if err := checkVictims(h); err != nil {
					t.Errorf("%s, chunk %d: %v", types, chunk, err)
				}
				if err := checkMass(h); err != nil {
					t.Errorf("%s, chunk %d: %v", types, chunk, err)
				}
			}
		}
	})
}
