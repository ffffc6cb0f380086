package h2o

// pyramidKV is snapKV with more slots for lower layers, where attention is spread wide, and fewer for higher ones.
var pyramidKV = &Policy{
	Name:        "pyramidkv",
	Summary:     "snapkv with budgets that fall from layer to layer",
	Source:      "Cai et al., PyramidKV, arXiv 2406.02069",
	Evicts:      true,
	Rule:        observed,
	Observation: Observation{Window: 32, Kernel: 7},
	Share:       Pyramid,
	Beta:        20,
	Parameters:  append([]*Parameter{betaParameter, roundingParameter}, observedParameters...),
}

// pyramid are the budgets of layers for a mean budget of slots, of which every layer keeps the last window, and a prompt
// of so many tokens. The published formula is linear from max to min, min = base / beta, max = 2 base - min, where no layer
// has more than there are tokens; its integer steps overspend. Exact budgets are the linear values scaled to the right sum,
// rounded down, and what is left goes to the largest fractions, of equal ones to the lower layer.
func (p *Policy) pyramid(layers, budget, window, tokens int) []int {
	base, beyond := budget-window, tokens-window
	all := make([]int, layers)
	low := base / p.Beta
	high := 2*base - low
	if high >= beyond {
		high = max(beyond, 0)
		low = 2*base - high
	}
	if base <= 0 || tokens < 2*base || layers == 1 || high < low { // a budget without room beyond the window is refused elsewhere
		for i := range all {
			all[i] = budget
		}
		return all
	}
	if p.Published {
		for i := range all {
			all[i] = high - i*((high-low)/(layers-1)) + window
		}
		return all
	}
	// Linear values times layers-1, which are whole; they sum to layers * base * (layers-1).
	weights := make([]int, layers)
	for i := range weights {
		weights[i] = high*(layers-1) - i*(high-low)
	}
	for i, n := range apportion(layers*base, weights) {
		all[i] = n + window
	}
	return all
}

// apportion shares total in proportion to weights: rounded down, then one each to the largest fractions, of equal ones to
// the first.
func apportion(total int, weights []int) []int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	shares, left := make([]int, len(weights)), total
	fractions := make([]int, len(weights)) // times sum
	for i, w := range weights {
		shares[i], fractions[i] = total*w/sum, total*w%sum
		left -= shares[i]
	}
	for ; left > 0; left-- {
		most := 0
		for i, f := range fractions {
			if f > fractions[most] {
				most = i
			}
		}
		shares[most]++
		fractions[most] = -1
	}
	return shares
}
