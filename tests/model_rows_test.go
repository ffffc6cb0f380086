package tests

import (
	"slices"
	"strings"
	"testing"

	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// Prompts are attended to by rows where no scores come of it, and by slots elsewhere: the logits are the same but for the
// order of sums, and what is kept is the same.
func TestPromptsByRowsAgreeWithThoseBySlots(t *testing.T) {
	for _, c := range []struct {
		model, policy, cache, positions string
		length                          int  // 0: as short as can be
		rows, slots                     bool // how a chunk goes
	}{
		{"group2-q4_1", "full", "f16", "auto", 0, true, false},
		{"group3-q8_0", "full", "f32", "auto", 0, true, false},
		{"group16-bf16", "window", "f16", "auto", 0, true, false},
		{"head80-eps6", "strided", "f16", "original", 0, true, false},
		{"group1-untied", "snapkv:window=3", "f16", "auto", 0, true, true}, // its last queries are looked at by slots
		{"group2-q4_1", "full", "f16", "auto", 300_000, false, true},       // one loop would be too long
		{"group2-q4_1", "full", "q8_0", "auto", 0, false, true},
		{"group2-q4_1", "window", "f16", "cache", 0, false, true},
		{"group2-q4_1", "h2o", "f16", "auto", 0, true, true}, // and its scores come by slots
	} {
		t.Run(c.model+" "+c.policy+" "+c.cache, func(t *testing.T) {
			var want struct{ IDs []int32 }
			readJSON(t, "testdata/llama/"+c.model+".json", &want)
			settings := kv(c.policy, "60%", 0.5, 7)
			settings.Type, settings.Positions = c.cache, c.positions
			drivers.Each(t, func(t *testing.T, d *vk.Device) {
				run := func(together int) (logits []float32, kept []uint32, graph string) {
					e := runtime.NewEngine(d)
					e.Tuning.RowSlots = together
					s := openSession(t, loadOn(t, e, "testdata/llama/"+c.model+".gguf"), settings, max(c.length, len(want.IDs)))
					var text strings.Builder
					s.PrintGraph(&text)
					logits = promptLogits(t, s, want.IDs)
					state, err := s.Cache().State(0)
					if err != nil {
						t.Fatal(err)
					}
					for _, l := range state.Layers {
						for _, h := range l.Heads {
							kept = append(kept, h.Positions...)
						}
					}
					return logits, kept, text.String()
				}
				bySlots, keptBySlots, graph := run(0)
				if strings.Contains(graph, "\nattend_rows.") {
					t.Fatal("by rows, though it shall not be")
				}
				byRows, kept, graph := run(4)
				if rows, slots := strings.Contains(graph, "\nattend_rows."), strings.Contains(graph, "\nattend_logits."); rows != c.rows || slots != c.slots {
					t.Errorf("by rows %t and by slots %t, want %t and %t", rows, slots, c.rows, c.slots)
				}
				if e := nmse(byRows, bySlots); !(e <= errorChunk) {
					t.Errorf("NMSE %.2e, want %.0e at most", e, errorChunk)
				}
				if c.rows == slices.Equal(byRows, bySlots) {
					t.Errorf("by rows %t, and the same bits %t", c.rows, c.rows)
				}
				if !slices.Equal(kept, keptBySlots) {
					t.Errorf("%d kept by rows, other %d by slots", kept, keptBySlots)
				}
			})
		})
	}
}

// GPUs, and workgroups of several subgroups, have no such kernel.
func TestOnlyCPUDriversAttendByRows(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		gpu := d.Info
		gpu.Kind = "discrete"
		for _, f := range []shaders.Form{shaders.Texel, shaders.Storage, shaders.Shared} {
			here, there := runtime.TuningIn(d.Info, f).RowSlots, runtime.TuningIn(gpu, f).RowSlots
			if there != 0 || (here > 0) != (f != shaders.Shared) {
				t.Errorf("%s: %d slots at once here, %d on a GPU", f, here, there)
			}
		}
	})
}
