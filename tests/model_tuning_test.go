package tests

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/model/gguf"
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

// short is how many of n tokens a device that tests must spare has to process with a GPU's kernels: a whole chunk and a rest.
func short(d *vk.Device, n int) int {
	if slow(d) {
		return min(n, 10)
	}
	return n
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
				tuned := runtime.NewEngine(d)
				tuned.Tuning = runtime.TuningFor(info)
				tuned.Tuning.Many = 5
				m, n := loadOn(t, tuned, "testdata/llama/"+name+".gguf"), short(d, len(want.IDs))
				agrees := func(chunk int, most float64) []float32 {
					got := promptLogits(t, openSession(t, m, fullKV(chunk), n), want.IDs[:n])
					if e := nmse(got, want.Logits[:n*m.Vocab]); !(e <= most) {
						t.Errorf("chunk %d, tile %+v: NMSE %.2e, want %.0e at most", chunk, tuned.Tuning.Tile, e, most)
					}
					return got
				}
				agrees(1, errorF32)
				beside := agrees(3, errorF32)
				whole := agrees(7, errorF32)
				if slices.Equal(beside, whole) {
					t.Error("products of 7 rows are done as those of 3")
				}
				if info.Features.Float16 {
					tuned.Tuning = tuned.Tuning.Halved(info)
					if slices.Equal(agrees(7, errorHalf), whole) {
						t.Error("tiles of f16 compute as those of f32")
					}
				}
			})
		})
	}
}

// CPU drivers multiply chunks with activations in int8 if they are asked to: decode steps are as before, chunks are not far
// from the reference.
func TestPromptsInInt8AreNearTheReference(t *testing.T) {
	const path = "testdata/llama/group2-q4_1"
	var want struct {
		IDs    []int32
		Logits floats
	}
	readJSON(t, path+".json", &want)
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		e, can := runtime.NewEngine(d), false
		if e.Tuning, can = e.Tuning.Int8(); !can {
			t.Skip("this device is no CPU driver")
		}
		e.Tuning.Many = 5
		m := loadOn(t, e, path+".gguf")
		for _, chunk := range []int{1, 7} {
			got, most, least := promptLogits(t, openSession(t, m, fullKV(chunk), len(want.IDs)), want.IDs), errorF32, 0.0
			if chunk > 1 {
				most, least = errorInt8, errorInt8/100
			}
			if e := nmse(got, want.Logits); !(e <= most) || e < least {
				t.Errorf("chunk %d: NMSE %.2e, want %.0e to %.0e", chunk, e, least, most)
			}
		}
	})
}

// However products are launched, each in another way, with rows of x as wide as the widest wants them, the logits are the
// reference's.
func TestProductsLaunchedAsWasMeasuredAgreeWithTheReference(t *testing.T) {
	const path = "testdata/llama/group2-q4_1"
	var want struct {
		IDs    []int32
		Logits floats
	}
	readJSON(t, path+".json", &want)
	drivers.Together(t, func(t *testing.T, d *vk.Device) {
		gpu := d.Info
		gpu.Kind = "discrete"
		for _, info := range []vk.DeviceInfo{d.Info, gpu} {
			tuning := runtime.TuningFor(info)
			e := measuredEngine(t, d, info, path+".gguf")
			if len(e.Otherwise()) < 3 {
				t.Fatalf("launched otherwise: %q", e.Otherwise())
			}
			m, n := loadOn(t, e, path+".gguf"), short(d, len(want.IDs))
			for _, chunk := range []int{1, 7} {
				got := promptLogits(t, openSession(t, m, fullKV(chunk), n), want.IDs[:n])
				if e := nmse(got, want.Logits[:n*m.Vocab]); !(e <= errorF32) {
					t.Errorf("%v kernels, chunk %d: NMSE %.2e, want %.0e at most", tuning.Form, chunk, e, errorF32)
				}
			}
		}
	})
}

// measuredEngine launches the products of a file in as many ways as there are.
func measuredEngine(t *testing.T, d *vk.Device, info vk.DeviceInfo, path string) *runtime.Engine {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	e := runtime.NewEngine(d)
	e.Tuning = runtime.TuningFor(info)
	e.Tuning.Unlinked = true // linked ones are launched alike
	products, err := model.Products(e, f)
	if err != nil {
		t.Fatal(err)
	}
	ways, n := runtime.Launches(info, e.Tuning.Form), 0
	e.Measured = map[runtime.Product]runtime.Launch{}
	for _, p := range slices.SortedFunc(maps.Keys(products), func(a, b runtime.Product) int { return strings.Compare(a.String(), b.String()) }) {
		if e.Measured[p] = ways[n%len(ways)]; p.Input == runtime.Parts {
			e.Measured[p] = ways[n%4] // with one invocation for a row
		}
		n++
	}
	return e
}

// A way to launch a product is tried only if it computes what the CPU does, whatever the product takes and the type.
func TestTrialsComputeWhatTheyShould(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		e := runtime.NewEngine(d)
		ways := runtime.Launches(d.Info, e.Tuning.Form)
		inputs := []runtime.Input{runtime.Plain, runtime.Normed}
		if e.Tuning.MergesParts() {
			inputs = append(inputs, runtime.Parts)
		}
		for i, w := range shaders.WeightTypes {
			if slow(d) && i%3 > 0 {
				continue // it takes seconds to compile each
			}
			way := ways[i%len(ways)]
			p := runtime.Product{Weight: w, Rows: 100, Columns: 768, Input: inputs[i%len(inputs)]}
			trials, err := model.NewTrials(e, p, 2, ways)
			if err != nil {
				t.Fatal(err)
			}
			trial, err := trials.Try(way)
			if p.Input == runtime.Parts && way.Run > 1 {
				if err == nil {
					t.Errorf("%v: %v brings parts together", p, way)
				}
			} else if err != nil {
				t.Error(err)
			} else {
				for _, measure := range []func() (float64, error){trial.Decode, trial.Chunk} {
					if took, err := measure(); !(took > 0) || err != nil {
						t.Errorf("%v: %v: %g us, %v", p, way, took, err)
					}
				}
			}
			trials.Close()
		}
		if _, err := model.NewTrials(e, runtime.Product{Weight: "q9", Rows: 1, Columns: 32}, 1, ways); err == nil {
			t.Error("trials of an unknown type")
		}
		module := func(weight string) *vk.Module {
			c, err := shaders.Matmul{Lanes: uint32(ways[0].Lanes), Run: 1, Rows: uint32(ways[0].Rows), Cols: 1}.Call(e.Variant(weight, ""))
			if err != nil {
				t.Fatal(err)
			}
			return c.Module
		}
		wrong, right := module("q4_0"), module("q4_0").Code
		wrong.Code = module("q4_1").Code // the same planes, read as something else
		t.Cleanup(func() { wrong.Code = right })
		trials, err := model.NewTrials(runtime.NewEngine(d), runtime.Product{Weight: "q4_0", Rows: 100, Columns: 768, Input: runtime.Plain}, 2, ways)
		if err != nil {
			t.Fatal(err)
		}
		defer trials.Close()
		if _, err := trials.Try(ways[0]); err == nil || !strings.Contains(err.Error(), "NMSE") {
			t.Errorf("a way that computes wrong is tried: %v", err)
		}
	})
}

// Layers that are linked compute what their dispatches do one by one, bit for bit, whoever does which part of them.
func TestLinkedLayersGiveTheSameBits(t *testing.T) {
	drivers.TogetherInThreads(t, func(t *testing.T, d *vk.Device) {
		if !runtime.TuningFor(d.Info).Links() {
			return // the form of the kernels that does is tried with all others
		}
		for _, c := range []struct {
			model, policy, cache string
			length               int // 0: as short as can be
			chains, apart        int // dispatches of a decode step, and those of attention besides
		}{
			{"group2-q4_1", "h2o", "f32", 0, 1, 0},
			{"group2-q4_1", "full", "q8_0", 0, 2, 0}, // in the kernels for several rows
			{"group16-bf16", "h2o", "f16", 0, 1, 0},
			{"group16-bf16", "full", "f16", 300_000, 2, 0}, // one loop would be too long
			{"group16-bf16", "full", "f16", 500_000, 2, 2},
			{"head48-biases", "h2o", "f16", 0, 0, 2},
		} {
			var want struct{ IDs []int32 }
			readJSON(t, "testdata/llama/"+c.model+".json", &want)
			settings, name := kv(c.policy, "50%", 0.5, 1), fmt.Sprint(c)
			settings.Type = c.cache
			logits := func(threads int, unlinked bool) (_ []float32, chains, apart int) {
				e := runtime.NewEngine(d)
				e.Tuning.Threads, e.Tuning.Unlinked = threads, unlinked
				s := openSession(t, loadOn(t, e, "testdata/llama/"+c.model+".gguf"), settings, max(c.length, len(want.IDs)))
				graph := decodeGraph(s)
				return promptLogits(t, s, want.IDs), strings.Count(graph, "\nchain."), strings.Count(graph, "\nattend_token.")
			}
			apart, chains, _ := logits(2, true)
			if chains > 0 {
				t.Fatalf("%s: linked, though it shall not be", name)
			}
			for _, threads := range []int{1, 5} {
				got, chains, attentions := logits(threads, false)
				if chains != c.chains || attentions != c.apart {
					t.Errorf("%s: %d chains and %d attentions beside them, want %d and %d", name, chains, attentions, c.chains, c.apart)
				}
				if !slices.Equal(got, apart) {
					t.Errorf("%s: other logits with %d threads", name, threads)
				}
			}
		}
	})
}

// decodeGraph prints the program of a session's decode step.
func decodeGraph(s *model.Session) string {
	var graph strings.Builder
	s.PrintGraph(&graph)
	_, decode, _ := strings.Cut(graph.String(), "program decode")
	decode, _, _ = strings.Cut(decode, "program ")
	return decode
}
