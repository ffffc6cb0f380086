package h2o

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// LayerBudget is the budget of the layers First to Last, in its two parts.
type LayerBudget struct {
	First  int    `json:"first"`
	Last   int    `json:"last"`
	Recent Budget `json:"recent"`
	Heavy  Budget `json:"heavy"`
}

// String returns it as ParseLayers reads it.
func (b LayerBudget) String() string {
	return fmt.Sprintf("%d-%d:%s+%s", b.First, b.Last, b.Recent, b.Heavy)
}

// Relative tells whether a budget is a share of the context.
func (s Settings) Relative() bool {
	return s.Budget.Relative() || slices.ContainsFunc(s.Layers, func(b LayerBudget) bool { return b.Recent.Relative() || b.Heavy.Relative() })
}

// ParseLayers reads budgets of layer ranges, "0-9:8%+12%,10:64+32": recent plus heavy, each a share of the context or slots.
func ParseLayers(text string) ([]LayerBudget, error) {
	var all []LayerBudget
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		refuse := func(why any) ([]LayerBudget, error) {
			return nil, fmt.Errorf("h2o: layer budget %q: %v; give layers and two parts, recent and heavy, like 0-9:8%%+12%%", one, why)
		}
		layers, parts, found := strings.Cut(strings.TrimSpace(one), ":")
		recent, heavy, both := strings.Cut(parts, "+")
		if !found || !both {
			return refuse("not a range with two parts")
		}
		first, last, ranged := strings.Cut(layers, "-")
		if !ranged {
			last = first
		}
		b, err := LayerBudget{}, error(nil)
		if b.First, err = strconv.Atoi(first); err != nil || !digits(first) {
			return refuse(fmt.Sprintf("%q is no layer", first))
		}
		if b.Last, err = strconv.Atoi(last); err != nil || !digits(last) || b.Last < b.First {
			return refuse(fmt.Sprintf("%q is no layer from %d on", last, b.First))
		}
		if b.Recent, err = ParseBudget(recent); err == nil {
			b.Heavy, err = ParseBudget(heavy)
		}
		switch {
		case err != nil:
			return refuse(strings.TrimPrefix(err.Error(), "h2o: "))
		case b.Recent.InBytes() || b.Heavy.InBytes():
			return refuse("parts are not in bytes")
		}
		all = append(all, b)
	}
	return all, nil
}
