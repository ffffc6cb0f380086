package h2o

// adaKV is snapKV with a budget for each KV head: the heads of a layer share the layer's slots by the scores of a prompt.
// Of the H * base tokens with the highest scores of all heads, c_i are head i's; it keeps
// round((1 - alpha) c_i + alpha base) of its own, never more than it has, and the last W.
var adaKV = &Policy{
	Name:        "adakv",
	Summary:     "snapkv with budgets for each KV head, by its scores",
	Source:      "Feng et al., Ada-KV, arXiv 2407.11550",
	Evicts:      true,
	Rule:        observed,
	Observation: Observation{Window: 32, Kernel: 7},
	Share:       PerHead,
	Alpha:       200,
	Parameters:  append([]*Parameter{alphaParameter}, observedParameters...),
}

// leastShare is what a head keeps at least where the heads of a layer share slots, so many for each, of which so many are
// protected: beside these its own part of the rest, whatever its scores.
func (p *Policy) leastShare(budget, protected int) int {
	return protected + p.Alpha*(budget-protected)/thousand
}
