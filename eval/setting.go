package eval

import (
	"cmp"
	"slices"

	"vkdecode/h2o"
	"vkdecode/runtime"
)

// Settings are what an evaluation compares: every policy with every budget, in this order, and once those that need no
// budget. What is given twice is judged once. base says the rest.
func Settings(base h2o.Settings, policies []h2o.Spec, budgets []h2o.Budget) (all []h2o.Settings, err error) {
	whole, err := h2o.ParseBudget("100%")
	if err != nil {
		return nil, err
	}
	for _, spec := range policies {
		policy, err := h2o.Find(spec)
		if err != nil {
			return nil, err
		}
		given := budgets
		if !policy.Evicts {
			given = []h2o.Budget{whole}
		}
		for _, b := range given {
			s := base
			s.Policy, s.Budget = spec, b
			if !slices.ContainsFunc(all, func(o h2o.Settings) bool {
				return o.Policy.String() == spec.String() && o.Budget.String() == b.String()
			}) {
				all = append(all, s)
			}
		}
	}
	return all, nil
}

// SettingOf is how results name a plan of sessions whose prompts are multiplied in a precision.
func SettingOf(p *h2o.Plan, precision string) Setting {
	s := Setting{Policy: p.Settings.Policy.String(), Budget: p.Settings.Budget.String(), BudgetSlots: p.Budget,
		KVType: p.Type, Positions: "original", Chunk: p.Chunk}
	if precision != runtime.F32 {
		s.Precision = precision
	}
	if p.Renumber {
		s.Positions = "cache"
	}
	if p.Policy.Evicts {
		s.PrefillPolicy = cmp.Or(p.Settings.Prefill.String(), s.Policy)
		if s.Prefill = "bounded"; p.Exact {
			s.Prefill = "exact"
		}
		s.Layers, s.RecentRatio, s.Sinks = h2o.LayersText(p.Settings.Layers), p.RecentRatio, p.Sinks
	}
	return s
}
