package tests

import (
	"slices"
	"strings"
	"testing"

	"vkdecode/h2o"
	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// A device that cannot bind what attend_token needs attends to a single token as to several.
func TestDevicesWithFewBindingsAgreeWithTheReference(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		info := d.Info
		info.Limits.MaxStorageBuffers = 8 // with texel buffers 5: inputs do not count
		e := runtime.NewEngine(d)
		e.Tuning = runtime.TuningFor(info)
		if e.Tuning.Form == shaders.Texel {
			info.Limits.MaxStorageBuffers = 5
			e.Tuning = runtime.TuningFor(info)
		}
		if e.Tuning.TokenDepth != 0 {
			t.Fatalf("%d storage buffers are enough: %+v", info.Limits.MaxStorageBuffers, e.Tuning)
		}
		var want struct {
			IDs    []int32
			Logits floats
		}
		readJSON(t, "testdata/llama/group3-q8_0.json", &want)
		m := loadOn(t, e, "testdata/llama/group3-q8_0.gguf")
		for _, settings := range []h2o.Settings{fullKV(1), kv("h2o", "100%", 0.5, 1)} {
			got := promptLogits(t, openSession(t, m, settings, len(want.IDs)), want.IDs)
			if e := nmse(got, want.Logits); !(e <= errorF32) {
				t.Errorf("%v: NMSE %.2e, want %.0e at most", settings.Policy, e, errorF32)
			}
		}
	})
}

// What runs on a GPU, workgroups of several subgroups combined through shared memory and lanes along the columns, must
// give the reference's logits here too: it is the form that this machine would otherwise never see whole.
func TestGPUTuningAgreesWithTheReference(t *testing.T) {
	for _, name := range []string{"group2-q4_1", "group3-q8_0", "group16-bf16", "head80-eps6", "layers-kv-ffn"} {
		t.Run(name, func(t *testing.T) {
			var want struct {
				IDs    []int32
				Logits floats
			}
			readJSON(t, "testdata/llama/"+name+".json", &want)
			drivers.Together(t, func(t *testing.T, d *vk.Device) {
				info := d.Info
				info.Kind = "discrete"
				e := runtime.NewEngine(d)
				e.Tuning = runtime.TuningFor(info)
				m, ids := loadOn(t, e, "testdata/llama/"+name+".gguf"), want.IDs
				if slow(d) {
					ids = ids[:9] // a chunk and a part of one
				}
				for _, chunk := range []int{1, 7} {
					got := promptLogits(t, openSession(t, m, fullKV(chunk), len(ids)), ids)
					if e := nmse(got, want.Logits[:len(ids)*m.Vocab]); !(e <= errorF32) {
						t.Errorf("chunk %d: NMSE %.2e, want %.0e at most", chunk, e, errorF32)
					}
				}
			})
		})
	}
}

// Products that are linked are those that are dispatched one by one, bit for bit, whoever does which part of them.
func TestLinkedProductsGiveTheSameBits(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		if !runtime.TuningFor(d.Info).Links() {
			return // the form of the kernels that does is tried with all others
		}
		for name, links := range map[string]bool{"group2-q4_1": true, "group16-bf16": true, "head48-biases": false} {
			var want struct{ IDs []int32 }
			readJSON(t, "testdata/llama/"+name+".json", &want)
			logits := func(threads int, unlinked bool) ([]float32, bool) {
				e := runtime.NewEngine(d)
				e.Tuning.Threads, e.Tuning.Unlinked = threads, unlinked
				s := openSession(t, loadOn(t, e, "testdata/llama/"+name+".gguf"), kv("h2o", "50%", 0.5, 1), len(want.IDs))
				var graph strings.Builder
				s.PrintGraph(&graph)
				return promptLogits(t, s, want.IDs), strings.Contains(graph.String(), "\nchain.")
			}
			apart, linked := logits(2, true)
			if linked {
				t.Fatalf("%s: linked, though it shall not be", name)
			}
			for _, threads := range []int{1, 5} {
				got, linked := logits(threads, false)
				if linked != links {
					t.Errorf("%s: linked %t, want %t", name, linked, links)
				}
				if !slices.Equal(got, apart) {
					t.Errorf("%s: other logits with %d threads", name, threads)
				}
			}
		}
	})
}
