package tests

import (
	"os"
	"strings"
	"testing"

	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// ops are the kernels' comparisons with their twins, one row for each kernel or chain of kernels.
var ops = []struct {
	name  string
	cases func(l launch) []opCase
}{
	{"embed", embedCases},
	{"matmul", matmulCases},
	{"tile", tileCases}, // matmul_tile, matmul_half, matmul_matrix
	{"quantize", quantizeCases},
	{"int8", int8Cases}, // matmul_int8
	{"chain", chainCases},
	{"rms_norm", rmsNormCases},
	{"rope_cache", ropeCacheCases},
	{"attend", attendCases}, // attend_logits, attend_values, attend_merge, score
	{"prompt", promptCases}, // attend_rows, score_rows, window_rows
	{"token", tokenCases},   // attend_token, merge_parts, shares
	{"evict", evictCases},   // evict, rank, compact
	{"count", countCases},
	{"enter", enterCases}, // enter, gather
	{"observe", observeCases},
	{"window", windowCases}, // attend_logits, attend_merge, window
	{"pool", poolCases},
	{"share", shareCases},
	{"choose", chooseCases},
	{"carry", carryCases},
	{"sample", sampleCases}, // sample_peaks, sample_sums, sample_list, sample
	{"advance", advanceCases},
	{"nll", nllCases},
	{"kl", klCases},
	{"random", randomCases},
	{"checksum", checksumCases},
}

// opCase is one comparison of a kernel with its twin.
type opCase interface {
	String() string
	run(b *bench, l launch) error // the difference, if there is one
}

// TestKernelsAgreeWithTheirTwins runs every case in every form that the device has, and asks that no module is left out.
func TestKernelsAgreeWithTheirTwins(t *testing.T) {
	drivers.TogetherInThreads(t, func(t *testing.T, d *vk.Device) {
		b := &bench{d, map[string]*vk.Pipeline{}, map[string]bool{}}
		defer b.close()
		for _, op := range ops {
			t.Run(op.name, func(t *testing.T) {
				for _, l := range b.launches() {
					for _, c := range op.cases(l) {
						if err := c.run(b, l); err != nil {
							t.Errorf("%s, %s: %v", l, c, err)
						}
					}
				}
			})
		}
		t.Run("every module", func(t *testing.T) { b.missing(t) })
	})
}

// missing reports the modules that no case ran, of those that the device can run.
func (b *bench) missing(t *testing.T) {
	files, err := os.ReadDir("../shaders/spirv")
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string]bool{}
	for _, l := range b.launches() {
		forms[l.form.String()] = true
	}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".spv")
		code, err := os.ReadFile("../shaders/spirv/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if m := (&vk.Module{Code: code}); m.Lacks(b.device.Info) != "" {
			continue
		}
		for _, part := range strings.Split(name, ".") {
			if forms[part] && !b.modules[name] {
				t.Errorf("module %s was compared with no twin", name)
			}
		}
	}
}
