package tests

import (
	"testing"

	"vkdecode/runtime"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

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
			drivers.Each(t, func(t *testing.T, d *vk.Device) {
				info := d.Info
				info.Kind = "discrete"
				e := runtime.NewEngine(d)
				e.Tuning = runtime.TuningFor(info)
				m := loadOn(t, e, "testdata/llama/"+name+".gguf")
				for _, chunk := range []int{1, 7} {
					got := promptLogits(t, openSession(t, m, fullKV(chunk), len(want.IDs)), want.IDs)
					if e := nmse(got, want.Logits); !(e <= errorF32) {
						t.Errorf("chunk %d: NMSE %.2e, want %.0e at most", chunk, e, errorF32)
					}
				}
			})
		})
	}
}
