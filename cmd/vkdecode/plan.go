package main

import (
	"fmt"
	"io"
	"math/bits"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"vkdecode/h2o"
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
	Batch        int        `json:"batch"` // sequences
	KVType       string     `json:"kv_type"`
	Budget       h2o.Budget `json:"budget"`
	Chunk        int        `json:"chunk"`          // rows
	BytesPerSlot int64      `json:"bytes_per_slot"` // one slot of every layer, KV head and sequence
	BytesFull    int64      `json:"bytes_full"`
	Policies     []policyKV `json:"policies"`
}

type policyKV struct {
	Policy        h2o.Spec `json:"policy"`
	BudgetSlots   int      `json:"budget_slots"`   // per KV head, kept after every eviction
	CapacitySlots int      `json:"capacity_slots"` // per KV head, allocated
	BytesBudget   int64    `json:"bytes_budget"`
	BytesCapacity int64    `json:"bytes_capacity"`
}

func newPlan() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan [MODEL]",
		Short: "say how many bytes a KV cache takes before running",
		Long: `Say how many bytes the keys and values of a run take, for each policy: the full
context, and what a budget leaves. A policy keeps its budget of slots per KV head
and allocates min(budget + chunk, context), because a chunk is written before
anything is evicted. Every slot takes 8 bytes more per KV head, for its position
and its score.

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
		if len(args) > 0 {
			for _, name := range shapeFlags {
				if cmd.Flags().Changed(name) {
					return usagef("plan: MODEL and --%s both give the shape, want one", name)
				}
			}
			if s, err = modelShape(args[0]); err != nil {
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
		plan, err := planKV(s, *batch, c, listed)
		if err != nil {
			return usageError{err}
		}
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

// planKV works out what each of the listed policies takes.
func planKV(s shape, batch int, c *configuration, listed []h2o.Spec) (*kvPlan, error) {
	if batch < 1 {
		return nil, fmt.Errorf("plan: --batch %d, want at least 1", batch)
	}
	p := &kvPlan{shape: s, Batch: batch, KVType: c.KV.Type, Budget: c.KV.Budget, Chunk: c.KV.Chunk}
	const keyAndValue = 2
	var fits bool
	if p.BytesPerSlot, fits = product(int64(s.Layers), int64(s.KVHeads), int64(s.HeadDim), int64(batch), keyAndValue, h2o.ElementBytes(c.KV.Type)); fits {
		p.BytesFull, fits = product(p.BytesPerSlot, int64(s.Context))
	}
	if !fits {
		return nil, fmt.Errorf("plan: %d layers of %d KV heads of %d, context %d, batch %d: more bytes than 64 bits count", s.Layers, s.KVHeads, s.HeadDim, s.Context, batch)
	}
	for _, spec := range listed {
		policy, err := h2o.Find(h2o.Spec{Name: spec.Name}) // which options there are is for the run to say
		if err != nil {
			return nil, err
		}
		kept, capacity := s.Context, s.Context
		if policy.Evicts {
			if kept, capacity, err = c.KV.Budget.Fit(s.Context, c.KV.Chunk, p.BytesPerSlot); err != nil {
				return nil, err
			}
		}
		p.Policies = append(p.Policies, policyKV{
			Policy: spec, BudgetSlots: kept, CapacitySlots: capacity,
			BytesBudget: int64(kept) * p.BytesPerSlot, BytesCapacity: int64(capacity) * p.BytesPerSlot,
		})
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
	fmt.Fprintf(w, "%d layers of %d KV heads of %d, %s, context %d, batch %d: full KV %s (%s, %d bytes)\n",
		p.Layers, p.KVHeads, p.HeadDim, p.KVType, p.Context, p.Batch, decimalSize(p.BytesFull), binarySize(p.BytesFull), p.BytesFull)
	fmt.Fprintf(w, "budget %s, chunk %d\n\n", p.Budget, p.Chunk)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "policy\tkept slots\tbytes\t\tallocated slots\tbytes\t\tof full\t")
	for _, k := range p.Policies {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%d\t%s\t%s\t%.1f%%\t\n",
			k.Policy, k.BudgetSlots, decimalSize(k.BytesBudget), binarySize(k.BytesBudget),
			k.CapacitySlots, decimalSize(k.BytesCapacity), binarySize(k.BytesCapacity), 100*float64(k.BytesCapacity)/float64(p.BytesFull))
	}
	return t.Flush()
}
