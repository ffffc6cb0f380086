package h2o

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// LayerSettings are what the layers First to Last have of their own.
type LayerSettings struct {
	First       int     `json:"first"`
	Last        int     `json:"last"`
	Budget      Budget  `json:"budget"`       // a share of the context or slots; the zero Budget = that of the other layers
	RecentRatio float64 `json:"recent_ratio"` // share of the budget that is the protected recent window; -1 = that of the other layers
}

// What layers can have of their own, as ParseLayers reads it.
const (
	layerBudget = "budget"
	layerRecent = "recent_ratio"
)

// String returns them as ParseLayers reads them.
func (l LayerSettings) String() string {
	text := strconv.Itoa(l.First)
	if l.Last != l.First {
		text += "-" + strconv.Itoa(l.Last)
	}
	if l.Budget != (Budget{}) {
		text += fmt.Sprintf(":%s=%s", layerBudget, l.Budget)
	}
	if l.RecentRatio >= 0 {
		text += fmt.Sprintf(":%s=%g", layerRecent, l.RecentRatio)
	}
	return text
}

// LayersText is what ParseLayers reads as these.
func LayersText(all []LayerSettings) string {
	var words []string
	for _, l := range all {
		words = append(words, l.String())
	}
	return strings.Join(words, ",")
}

// ParseLayers reads ranges of layers with what they have of their own, "0-9:budget=30%:recent_ratio=0.7,10:budget=64".
func ParseLayers(text string) (all []LayerSettings, err error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		l, err := parseLayer(strings.TrimSpace(one))
		if err != nil {
			return nil, fmt.Errorf("h2o: layers %q: %w; give a range and what it has of its own, like 0-9:budget=30%%:recent_ratio=0.7", one, err)
		}
		all = append(all, l)
	}
	return all, checkLayers(all)
}

func parseLayer(text string) (l LayerSettings, err error) {
	parts := strings.Split(text, ":")
	first, last, ranged := strings.Cut(parts[0], "-")
	if !ranged {
		last = first
	}
	if l.First, err = strconv.Atoi(first); err != nil || !digits(first) {
		return l, fmt.Errorf("%q is no layer", first)
	}
	if l.Last, err = strconv.Atoi(last); err != nil || !digits(last) {
		return l, fmt.Errorf("%q is no layer", last)
	}
	l.RecentRatio = -1
	for i, part := range parts[1:] {
		key, value, _ := strings.Cut(part, "=")
		if slices.ContainsFunc(parts[1:i+1], func(before string) bool { return strings.HasPrefix(before, key+"=") }) {
			return l, fmt.Errorf("%s is given twice", key)
		}
		switch key {
		case layerBudget:
			if l.Budget, err = ParseBudget(value); err != nil {
				return l, errors.New(strings.TrimPrefix(err.Error(), "h2o: "))
			}
		case layerRecent:
			if l.RecentRatio, err = strconv.ParseFloat(value, 64); err != nil || !(l.RecentRatio >= 0 && l.RecentRatio <= 1) {
				return l, fmt.Errorf("%s %q, want a number from 0 to 1", key, value)
			}
		default:
			known := []string{layerBudget, layerRecent}
			if near := Nearest(key, known); near != "" {
				return l, fmt.Errorf("%q is unknown; did you mean %q?", key, near)
			}
			return l, fmt.Errorf("%q is unknown, want %s", key, strings.Join(known, " or "))
		}
	}
	return l, nil
}

// checkLayers refuses what ParseLayers does not read: settings come from files, too.
func checkLayers(all []LayerSettings) error {
	for i, l := range all {
		refuse := func(format string, args ...any) error {
			return fmt.Errorf("h2o: layers %q: %s", l, fmt.Sprintf(format, args...))
		}
		switch {
		case l.First < 0 || l.Last < l.First:
			return refuse("from %d to %d is no range", l.First, l.Last)
		case l.Budget == (Budget{}) && l.RecentRatio == -1:
			return refuse("they have nothing of their own; give a budget, a recent ratio or both")
		case l.Budget.InBytes():
			return refuse("their budget is in bytes; give a share of the context such as 10%% or slots per KV head such as 256")
		case l.RecentRatio != -1 && !(l.RecentRatio >= 0 && l.RecentRatio <= 1):
			return refuse("recent ratio %g, want 0 to 1", l.RecentRatio)
		}
		for _, before := range all[:i] {
			if first, last := max(l.First, before.First), min(l.Last, before.Last); first <= last {
				return refuse("layer %d is in %q, too; give each layer once", first, before)
			}
		}
	}
	return nil
}

// Relative tells whether a budget is a share of the context.
func (s Settings) Relative() bool {
	return s.Budget.Relative() || slices.ContainsFunc(s.Layers, func(l LayerSettings) bool { return l.Budget.Relative() })
}

// shifted tells whether layers have budgets of their own.
func (s Settings) shifted() bool {
	return slices.ContainsFunc(s.Layers, func(l LayerSettings) bool { return l.Budget != (Budget{}) })
}

// own are the budget and the recent ratio of a layer, which are these where it has none of its own.
func (p *Plan) own(layer, budget int) (slots int, ratio float64, err error) {
	i := slices.IndexFunc(p.Settings.Layers, func(l LayerSettings) bool { return l.First <= layer && layer <= l.Last })
	if i < 0 || !p.Evicts() {
		return budget, p.RecentRatio, nil
	}
	ratio = p.Settings.Layers[i].RecentRatio
	if ratio == -1 {
		ratio = p.RecentRatio
	}
	if own := p.Settings.Layers[i].Budget; own != (Budget{}) {
		budget, err = own.Slots(p.Context)
	}
	return budget, ratio, err
}
