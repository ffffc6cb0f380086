package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"vkdecode/eval"
)

// style is how a series looks: its colour and marker, the same in every figure of a page.
type style struct {
	index     int
	reference bool // full: what the others are measured against
}

const colours = 7 // classes c0 to c6 of the style sheet

func (s style) colour() string {
	if s.reference {
		return "cref"
	}
	return fmt.Sprintf("c%d", s.index%colours)
}

// marker changes with the colour, and again after each round of colours.
func (s style) marker() int { return s.index%colours + s.index/colours }

// legend gives every series its style, in the order in which they come.
type legend map[string]style

func (l legend) of(name string, full bool) style {
	if full {
		return style{reference: true}
	}
	s, ok := l[name]
	if !ok {
		s = style{index: len(l)}
		l[name] = s
	}
	return s
}

// isFull says whether the policy keeps everything.
func isFull(s eval.Setting) bool {
	name, _, _ := strings.Cut(s.Policy, ":")
	return name == "full"
}

// varying says which settings besides policy and budget a series must name: those in which results of one policy differ.
type varying struct {
	kvType, positions, chunk, precision bool
	common                              string // the others in words, which are the same for all results of a policy
}

func differences(settings []eval.Setting) (v varying) {
	var evicting []eval.Setting // without eviction the chunk changes nothing
	for _, s := range settings {
		if !isFull(s) {
			evicting = append(evicting, s)
		}
	}
	kvType, positions, chunk := valuesOf(settings, func(s eval.Setting) string { return s.KVType }), valuesOf(settings, func(s eval.Setting) string { return s.Positions }),
		valuesOf(evicting, func(s eval.Setting) string { return integer(s.Chunk) })
	precision := valuesOf(settings, func(s eval.Setting) string { return s.Precision })
	v.kvType, v.positions, v.chunk, v.precision = kvType.differ, positions.differ, chunk.differ, precision.differ
	v.common = sentence(listed(slices.Concat(kvType.words("keys and values in %s"), positions.words("%s positions"), chunk.words("chunks of %s tokens"))))
	return v
}

// policyValues are the values that a setting has under each policy.
type policyValues struct {
	differ   bool // under one policy
	values   []string
	policies map[string][]string // by value
}

func valuesOf(settings []eval.Setting, get func(eval.Setting) string) (v policyValues) {
	v.policies = map[string][]string{}
	of := map[string]string{} // by policy
	for _, s := range settings {
		value := short(get(s), 20)
		if before, ok := of[s.Policy]; ok {
			v.differ = v.differ || before != value
			continue
		}
		of[s.Policy] = value
		if v.policies[value] == nil {
			v.values = append(v.values, value)
		}
		v.policies[value] = append(v.policies[value], clean(s.Policy))
	}
	return v
}

// words name the value that most policies have, and the others behind it. Nothing is said where series do.
func (v policyValues) words(format string) []string {
	if v.differ || len(v.values) == 0 {
		return nil
	}
	slices.SortStableFunc(v.values, func(a, b string) int { return len(v.policies[b]) - len(v.policies[a]) })
	if v.values[0] == "" || v.values[0] == "0" { // not known
		return nil
	}
	text := fmt.Sprintf(format, v.values[0])
	var others []string
	for _, value := range v.values[1:] {
		others = append(others, fmt.Sprintf("%s: %s", strings.Join(v.policies[value], ", "), value))
	}
	if len(others) > 0 {
		text += " (" + strings.Join(others, "; ") + ")"
	}
	return []string{text}
}

// series is the name of what a setting is a point of: its policy, and whatever else differs.
func (v varying) series(s eval.Setting) string {
	parts := []string{s.Policy}
	if v.kvType {
		parts = append(parts, s.KVType)
	}
	if v.positions {
		parts = append(parts, s.Positions+" positions")
	}
	if v.chunk && !isFull(s) {
		parts = append(parts, fmt.Sprintf("chunk %d", s.Chunk))
	}
	if v.precision && s.Precision != "" {
		parts = append(parts, "prompts in "+s.Precision)
	}
	return clean(strings.Join(parts, ", "))
}

// title names a setting: its series and its budget.
func (v varying) title(s eval.Setting) string {
	if isFull(s) {
		return v.series(s)
	}
	return v.series(s) + " at " + budget(s)
}

// budget is a budget as it was given; full has none.
func budget(s eval.Setting) string {
	given := short(s.Budget, 16)
	switch {
	case isFull(s):
		return ""
	case given == "":
		return counted(s.BudgetSlots, "slot")
	case strings.Trim(given, "0123456789") == "":
		return given + " slots"
	}
	return given
}

// passage is the perplexity of one text under several settings: figures that may be compared.
type passage struct {
	model, device, text string
	offset, tokens      int
	varying             varying
	inBytes             bool               // all budgets are a share of the bytes of the full cache, so that types hold different numbers of slots
	full                *eval.Perplexity   // the reference; nil if it was not measured
	rows                []*eval.Perplexity // full first, then by budget, complete or not
}

// passages puts together what may be compared, in order of appearance.
func passages(rows []eval.Perplexity) []*passage {
	var all []*passage
	same := func(g *passage, r *eval.Perplexity) bool {
		return g.model == r.Model && g.device == r.Device && g.text == r.Text && g.offset == r.Offset
	}
	for _, complete := range []bool{true, false} { // what was interrupted joins those that were not
		for i := range rows {
			r := &rows[i]
			if r.Complete != complete {
				continue
			}
			at := slices.IndexFunc(all, func(g *passage) bool {
				return same(g, r) && (g.tokens == r.Tokens || !complete && r.Tokens < g.tokens)
			})
			if at < 0 {
				at = len(all)
				all = append(all, &passage{model: r.Model, device: r.Device, text: r.Text, offset: r.Offset, tokens: r.Tokens})
			}
			all[at].rows = append(all[at].rows, r)
		}
	}
	for _, g := range all {
		g.arrange()
	}
	return all
}

func (g *passage) arrange() {
	settings := make([]eval.Setting, len(g.rows))
	for i, r := range g.rows {
		settings[i] = r.Setting
		if isFull(r.Setting) && r.Complete && drawable(r.PPL) && r.PPL > 0 && (g.full == nil || r.BytesHeld > g.full.BytesHeld) {
			g.full = r // of several element types, the one that takes most
		}
	}
	g.varying = differences(settings)
	g.inBytes = !slices.ContainsFunc(settings, func(s eval.Setting) bool {
		_, ok := byteShare(s)
		return !ok && !isFull(s)
	})
	sortBySetting(g.rows, func(r *eval.Perplexity) eval.Setting { return r.Setting })
}

// sortBySetting puts full first, then orders by budget; what is equal keeps its order.
func sortBySetting[T any](rows []T, setting func(T) eval.Setting) {
	least := map[string]int{} // slots of a budget, which may differ a little between policies
	for _, r := range rows {
		s := setting(r)
		if slots, ok := least[budget(s)]; !ok || s.BudgetSlots < slots {
			least[budget(s)] = s.BudgetSlots
		}
	}
	slices.SortStableFunc(rows, func(a, b T) int {
		s, t := setting(a), setting(b)
		if isFull(s) != isFull(t) {
			if isFull(s) {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(least[budget(s)], least[budget(t)]), cmp.Compare(budget(s), budget(t)))
	})
}

// increase is by how many percent the perplexity of r is above that of full; NaN if one of them is missing.
func (g *passage) increase(r *eval.Perplexity) float64 {
	if g.full == nil || !r.Complete || r.PPL <= 0 {
		return math.NaN()
	}
	return (r.PPL/g.full.PPL - 1) * 100
}

// bytesFull is what full holds; 0 if it is not known.
func (g *passage) bytesFull() (bytes int64) {
	for _, r := range g.rows {
		bytes = max(bytes, r.BytesFull)
	}
	return bytes
}

// share is the part of the memory of full that r holds; NaN if it is not known.
func (g *passage) share(r *eval.Perplexity) float64 {
	if full := g.bytesFull(); full > 0 && r.BytesHeld > 0 {
		return float64(r.BytesHeld) / float64(full)
	}
	return math.NaN()
}

// budgets lists the budgets of rows in their order, without full.
func budgets[T any](rows []T, setting func(T) eval.Setting) (names []string) {
	for _, r := range rows {
		if s := setting(r); !isFull(s) && !slices.Contains(names, budget(s)) {
			names = append(names, budget(s))
		}
	}
	return names
}
