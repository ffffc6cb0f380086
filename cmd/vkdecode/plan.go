package main

import (
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"vkdecode/h2o"
	"vkdecode/model/gguf"
)

// policies are the names that --kv knows, in the order in which plan lists them.
var policies = h2o.Names()

// shape is what the size of a KV cache depends on.
type shape struct {
	Layers  int `json:"layers"`
	KVHeads int `json:"kv_heads"` // in each layer
	HeadDim int `json:"head_dim"` // elements of a key, and of a value
	Context int `json:"context"`  // tokens
}

// kvPlan is the memory of the keys and values of a run, by policy.
type kvPlan struct {
	shape
	Batch        int                 `json:"batch"` // sequences
	KVType       string              `json:"kv_type"`
	Budget       h2o.Budget          `json:"budget"`
	OwnLayers    []h2o.LayerSettings `json:"own_layers,omitempty"`
	Chunk        int                 `json:"chunk"`          // rows
	BytesPerSlot int64               `json:"bytes_per_slot"` // one slot of every layer, KV head and sequence
	BytesFull    int64               `json:"bytes_full"`
	Policies     []policyKV          `json:"policies"`

	Weights *weightPlan `json:"weights,omitempty"` // of a MODEL
}

// weightPlan is what a file's weights take.
type weightPlan struct {
	Layers int64 `json:"bytes_layers"` // of all layers
	Rest   int64 `json:"bytes_rest"`   // that always lie in the device's own memory
}

// weightsOf sums up a file's tensors.
func weightsOf(f *gguf.File) *weightPlan {
	p := &weightPlan{}
	for _, t := range f.Tensors() {
		if strings.HasPrefix(t.Name, "blk.") {
			p.Layers += int64(len(t.Data))
		} else {
			p.Rest += int64(len(t.Data))
		}
	}
	return p
}

type policyKV struct {
	Policy        h2o.Spec `json:"policy"`
	KVType        string   `json:"kv_type"`
	BudgetSlots   int      `json:"budget_slots"`   // per KV head, kept after every eviction
	CapacitySlots int      `json:"capacity_slots"` // per KV head, allocated
	PromptSlots   int      `json:"prompt_slots"`   // per KV head of one layer, in the pool where prompts are processed
	BytesBudget   int64    `json:"bytes_budget"`
	BytesPrompt   int64    `json:"bytes_prompt"`
	BytesCapacity int64    `json:"bytes_capacity"`    // all of it, prompts included
	Refused       string   `json:"refused,omitempty"` // why the budget cannot be kept to
}

func newPlan() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan [MODEL]",
		Short: "say how many bytes a KV cache takes before running",
		Long: `Say how many bytes the keys and values of a run take, for each policy: the full
context, and what a budget leaves. A policy keeps its budget of slots per KV head
and allocates min(budget + chunk, context), because a chunk is written before
anything is evicted. Policies that see a whole prompt before they choose process
it in a pool of its own, which serves one layer at a time. Every slot takes 8
bytes more per KV head, for its position and its score.

A budget in percent is a share of the context; one in bytes bounds what is
allocated for all sequences together. The context is --ctx, or else what the
model was trained on.`,
		Example: `  vkdecode plan models/SmolLM2-135M-Instruct.Q4_1.gguf --ctx 8192
  vkdecode plan --layers 80 --kv-heads 8 --head-dim 128 --ctx 64000 --batch 16`,
		Args: cobra.MaximumNArgs(1),
	}
	bindSettings(cmd, "kv")
	var s shape
	cmd.Flags().IntVar(&s.Layers, "layers", 0, "layers of the model")
	cmd.Flags().IntVar(&s.KVHeads, "kv-heads", 0, "KV heads of a layer")
	cmd.Flags().IntVar(&s.HeadDim, "head-dim", 0, "elements of a head")
	batch := cmd.Flags().Int("batch", 1, "sequences at once")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := loadConfig(cmd)
		if err != nil {
			return err
		}
		if err := c.oneBudget("plan"); err != nil {
			return err
		}
		var weights *weightPlan
		if len(args) > 0 {
			for _, name := range shapeFlags {
				if cmd.Flags().Changed(name) {
					return usagef("plan: MODEL and --%s both give the shape, want one", name)
				}
			}
			if s, weights, err = modelShape(args[0]); err != nil {
				return err
			}
		}
		if c.KV.Context > 0 {
			s.Context = c.KV.Context
		}
		if err := s.check(); err != nil {
			return usageError{err}
		}
		listed := c.KV.Policies
		if !cmd.Flags().Changed("kv") {
			if listed, err = h2o.ParseSpecs(strings.Join(policies, ",")); err != nil {
				return err
			}
		}
		plan, err := planKV(s, *batch, c, listed, cmd.Flags().Changed("kv"))
		if err != nil {
			return usageError{err}
		}
		plan.Weights = weights
		if *asJSON {
			return printJSON(cmd.OutOrStdout(), plan)
		}
		return plan.print(cmd.OutOrStdout())
	}
	return cmd
}

var shapeFlags = []string{"layers", "kv-heads", "head-dim"}

// check names every number that is missing or wrong.
func (s shape) check() error {
	var missing []string
	for i, v := range []int{s.Layers, s.KVHeads, s.HeadDim, s.Context} {
		name := append(shapeFlags, "ctx")[i]
		switch {
		case v < 0:
			return fmt.Errorf("plan: --%s %d, want at least 1", name, v)
		case v == 0:
			missing = append(missing, "--"+name)
		}
	}
	if missing != nil {
		return fmt.Errorf("plan: %s missing; give a MODEL, or --layers, --kv-heads, --head-dim and --ctx", strings.Join(missing, ", "))
	}
	return nil
}

// planKV works out what each of the listed policies takes. One that cannot be is an error if it was asked for.
func planKV(s shape, batch int, c *configuration, listed []h2o.Spec, asked bool) (*kvPlan, error) {
	if batch < 1 {
		return nil, fmt.Errorf("plan: --batch %d, want at least 1", batch)
	}
	types, err := h2o.ParseTypes(strings.Replace(c.KV.Type, "auto", "f16", 1)) // of the full cache that all are compared with
	if err != nil {
		return nil, err
	}
	const mostLayers, mostDims = 1 << 16, 1 << 40 // more must not be multiplied before it is checked
	head := h2o.Geometry{HeadDim: min(s.HeadDim, mostDims)}
	perSlot, fits := product(int64(s.Layers), int64(s.KVHeads), int64(batch), head.SlotBytes(types))
	if fits {
		_, fits = product(perSlot, 2*(int64(s.Context)+1)) // a layer is rounded up, and prompts may have a pool of their own
	}
	if !fits || s.HeadDim > mostDims {
		return nil, fmt.Errorf("plan: %d layers of %d KV heads of %d, context %d, batch %d: more bytes than 64 bits count", s.Layers, s.KVHeads, s.HeadDim, s.Context, batch)
	}
	if s.Layers > mostLayers {
		return nil, fmt.Errorf("plan: --layers %d, want at most %d", s.Layers, mostLayers)
	}
	heads := h2o.Heads{Query: s.KVHeads * batch, KV: s.KVHeads * batch}
	g := h2o.Geometry{HeadDim: s.HeadDim, Layers: slices.Repeat([]h2o.Heads{heads}, s.Layers)}
	p := &kvPlan{shape: s, Batch: batch, KVType: types.String(), Budget: c.KV.Budget, OwnLayers: c.KV.Layers, Chunk: c.KV.Chunk, BytesPerSlot: perSlot, BytesFull: g.Bytes(types, s.Context)}
	var first error
	kept := false // a policy keeps to the budget
	for _, spec := range listed {
		plan, err := h2o.NewPlan(c.cache(spec, c.KV.Budget), g, s.Context, s.Context, s.Context)
		if err != nil && asked {
			return nil, err
		}
		if err != nil { // one of all policies, which cannot keep to the budget
			p.Policies = append(p.Policies, policyKV{Policy: spec, Refused: err.Error()})
			if first == nil {
				first = err
			}
			continue
		}
		kept = kept || plan.Policy.Evicts
		p.Policies = append(p.Policies, policyKV{
			Policy: spec, KVType: plan.Types.String(), BudgetSlots: plan.Budget, CapacitySlots: plan.Capacity, PromptSlots: plan.Work,
			BytesBudget: plan.Kept, BytesPrompt: plan.WorkBytes, BytesCapacity: plan.Bytes,
		})
	}
	if first != nil && !kept {
		return nil, first
	}
	return p, nil
}

// product multiplies numbers of at least 1 and tells whether the result fits.
func product(factors ...int64) (int64, bool) {
	result := uint64(1)
	for _, f := range factors {
		hi, lo := bits.Mul64(result, uint64(f))
		if hi != 0 || lo>>63 != 0 {
			return 0, false
		}
		result = lo
	}
	return int64(result), true
}

func (p *kvPlan) print(w io.Writer) error {
	fmt.Fprintf(w, "%d layers of %d KV heads of %d, context %d, batch %d: full KV in %s %s (%s, %d bytes)\n",
		p.Layers, p.KVHeads, p.HeadDim, p.Context, p.Batch, p.KVType, decimalSize(p.BytesFull), binarySize(p.BytesFull), p.BytesFull)
	if p.Weights != nil {
		fmt.Fprintf(w, "weights %s in the file: %s in the layers, %s beside them; layers that do not fit into the device's own memory are read from the host's (--gpu-layers)\n",
			binarySize(p.Weights.Layers+p.Weights.Rest), binarySize(p.Weights.Layers), binarySize(p.Weights.Rest))
	}
	fmt.Fprintf(w, "budget %s, chunk %d\n", p.Budget, p.Chunk)
	for _, l := range p.OwnLayers {
		fmt.Fprintf(w, "layers %s\n", l)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "policy\tK and V\tkept slots\tbytes\t\tallocated slots\tfor prompts\tbytes\t\tof full\t")
	var refused []policyKV
	for _, k := range p.Policies {
		if k.Refused != "" {
			refused = append(refused, k)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%d\t%d\t%s\t%s\t%.1f%%\t\n",
			k.Policy, k.KVType, k.BudgetSlots, decimalSize(k.BytesBudget), binarySize(k.BytesBudget),
			k.CapacitySlots, k.PromptSlots, decimalSize(k.BytesCapacity), binarySize(k.BytesCapacity), 100*float64(k.BytesCapacity)/float64(p.BytesFull))
	}
	if err := t.Flush(); err != nil || refused == nil {
		return err
	}
	fmt.Fprintln(w)
	for _, k := range refused {
		fmt.Fprintf(w, "%s: %s\n", k.Policy, k.Refused)
	}
	return nil
}
