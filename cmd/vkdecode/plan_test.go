package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const guide = "plan --layers 80 --kv-heads 8 --head-dim 128 --ctx 64000 --batch 16"

// planReport is kvPlan as a reader of the JSON sees it.
type planReport struct {
	Weights *struct {
		Layers int64 `json:"bytes_layers"`
		Rest   int64 `json:"bytes_rest"`
	} `json:"weights"`
	Layers       int    `json:"layers"`
	KVHeads      int    `json:"kv_heads"`
	HeadDim      int    `json:"head_dim"`
	Context      int    `json:"context"`
	Batch        int    `json:"batch"`
	KVType       string `json:"kv_type"`
	Budget       string `json:"budget"`
	Chunk        int    `json:"chunk"`
	BytesPerSlot int64  `json:"bytes_per_slot"`
	BytesFull    int64  `json:"bytes_full"`
	Policies     []struct {
		Policy        string `json:"policy"`
		KVType        string `json:"kv_type"`
		BudgetSlots   int    `json:"budget_slots"`
		CapacitySlots int    `json:"capacity_slots"`
		PromptSlots   int    `json:"prompt_slots"`
		BytesBudget   int64  `json:"bytes_budget"`
		BytesPrompt   int64  `json:"bytes_prompt"`
		BytesCapacity int64  `json:"bytes_capacity"`
		Refused       string `json:"refused"`
	} `json:"policies"`
}

func plan(t *testing.T, line string) (p planReport) {
	t.Helper()
	r := vkdecode(t, append(strings.Fields(line), "--json")...)
	r.want(t, exitOK)
	r.read(t, &p)
	return p
}

// 2 (K and V) x 2 bytes x 80 layers x 8 heads x 128 x 64,000 tokens x 16 sequences.
func TestPlanReproducesTheGuide(t *testing.T) {
	inFolder(t, nil)
	p := plan(t, guide)
	if want := int64(335_544_320_000); p.BytesFull != want {
		t.Errorf("full: %d bytes, want %d", p.BytesFull, want)
	}
	var names []string
	for _, k := range p.Policies {
		names = append(names, k.Policy)
		slots, bytes := [2]int{12_800, 13_056}, [2]int64{67_108_864_000, 68_451_041_280}
		switch k.Policy {
		case "full":
			slots, bytes = [2]int{64_000, 64_000}, [2]int64{p.BytesFull, p.BytesFull}
		case "snapkv", "pyramidkv", "adakv": // decode adds one token; a prompt of 64,000 is held for one of 80 layers
			const prompt = 335_544_320_000 / 80
			slots[1], bytes[1] = 12_801, bytes[0]+bytes[0]/12_800+prompt
			if k.PromptSlots != 64_000 || k.BytesPrompt != prompt {
				t.Errorf("%+v, want %d bytes for prompts", k, int64(prompt))
			}
		case "h2o-tuned": // q8_0 takes 34 bytes for 32 numbers, f16 64
			bytes[0], bytes[1] = bytes[0]/64*34, bytes[1]/64*34
		}
		if k.BudgetSlots != slots[0] || k.CapacitySlots != slots[1] || k.BytesBudget != bytes[0] || k.BytesCapacity != bytes[1] {
			t.Errorf("%+v, want %v slots, %v bytes", k, slots, bytes)
		}
	}
	if !cmp.Equal(names, policies) {
		t.Errorf("policies %v, want %v", names, policies)
	}
	r := vkdecode(t, strings.Fields(guide)...)
	r.want(t, exitOK)
	for _, part := range []string{"335.5 GB (312.5 GiB, 335544320000 bytes)", "67.1 GB", "68.5 GB", "63.8 GiB", "20.4%"} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("%q is missing in:\n%s", part, r.stdout)
		}
	}
}

func TestPlanFollowsItsFlags(t *testing.T) {
	inFolder(t, nil)
	p := plan(t, "plan --layers 2 --kv-heads 3 --head-dim 5 --ctx 1000 --kv-type f32 --budget 100 --chunk 7 --kv window,h2o:score=guide")
	if p.BytesPerSlot != 2*2*3*8*4 || p.BytesFull != 1000*p.BytesPerSlot {
		t.Errorf("%d bytes per slot, %d in full", p.BytesPerSlot, p.BytesFull)
	}
	if len(p.Policies) != 2 || p.Policies[0].Policy != "window" || p.Policies[1].Policy != "h2o:score=guide" {
		t.Errorf("policies %+v", p.Policies)
	}
	for _, k := range p.Policies {
		if k.BudgetSlots != 100 || k.CapacitySlots != 107 {
			t.Errorf("%+v, want 100 slots kept, 107 allocated", k)
		}
	}
	// Types with scales: 32 or 16 bytes and a word of scales for each head, and layers of whole uvec4.
	p = plan(t, "plan --layers 2 --kv-heads 1 --head-dim 20 --ctx 101 --kv-type q8_0/q4_0 --kv full")
	if p.BytesPerSlot != 2*(32+4+16+4) || p.BytesFull != 2*(101*36+12+101*20+12) {
		t.Errorf("q8_0/q4_0: %d bytes per slot, %d in full", p.BytesPerSlot, p.BytesFull)
	}
	p = plan(t, guide+" --kv h2o --kv-type q4_0/f16 --budget 64GB")
	if k := p.Policies[0]; k.BytesCapacity > 64e9 || k.BytesCapacity+2*p.BytesPerSlot <= 64e9 {
		t.Errorf("64 GB of q4_0/f16: %+v", k)
	}
	// A budget in bytes bounds the allocation.
	p = plan(t, guide+" --kv h2o --budget 64GiB")
	if k := p.Policies[0]; k.BytesCapacity > 64<<30 || k.BytesCapacity+p.BytesPerSlot <= 64<<30 || k.BudgetSlots+256 != k.CapacitySlots {
		t.Errorf("64 GiB: %+v", k)
	}
}

func TestPlanReadsTheShapeOfAModel(t *testing.T) {
	folder := inFolder(t, map[string]string{"m.gguf": string(smallModel().Bytes())})
	p := plan(t, "plan m.gguf")
	if p.Layers != 2 || p.KVHeads != 1 || p.HeadDim != 8 || p.Context != 512 {
		t.Errorf("%+v in %s", p, folder)
	}
	if p.Weights == nil || p.Weights.Layers <= 0 || p.Weights.Rest <= 0 {
		t.Errorf("weights %+v", p.Weights)
	}
	p = plan(t, "plan m.gguf --ctx 64")
	if p.Context != 64 {
		t.Errorf("--ctx 64 planned for %d", p.Context)
	}
	for _, k := range p.Policies { // a fifth of 64 is less than an observation window of 32: no reason to be silent about the others
		if observes := strings.Contains("snapkv pyramidkv adakv", k.Policy); observes != strings.Contains(k.Refused, "observation window") {
			t.Errorf("%+v", k)
		}
	}
	vkdecode(t, "plan", "m.gguf", "--layers", "3").want(t, exitUsage, "MODEL and --layers both give the shape")
	vkdecode(t, "plan", "none.gguf").want(t, exitFailure, "none.gguf")
}

func TestPlanSaysWhatIsMissingOrTooLarge(t *testing.T) {
	inFolder(t, nil)
	for line, part := range map[string]string{
		"plan": "--layers, --kv-heads, --head-dim, --ctx missing",
		"plan --layers 1 --kv-heads 1 --head-dim 1": "plan: --ctx missing",
		guide + " --layers -1":                      "--layers -1, want at least 1",
		guide + " --batch 0":                        "--batch 0, want at least 1",
		guide + " --budget 1MiB":                    "one slot of every layer and KV head and the 256 that a prompt adds take 1347420160 bytes",
		guide + " --kv h2o --budget 1GB":            "lower --chunk",
		guide + " --head-dim 999999999999":          "more bytes than 64 bits count",
	} {
		vkdecode(t, strings.Fields(line)...).want(t, exitUsage, part)
	}
}
