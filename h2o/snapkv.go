package h2o

// snapKV keeps of a prompt what its last W queries look at: s_j = sum over those queries of a[t, j] for j before the
// window, pooled over neighbours for each query head, then taken together over the group; the last W tokens stay. Decoding
// goes on with heavy hitters, whose scores begin with these, or grows as in the paper.
var snapKV = &Policy{
	Name:        "snapkv",
	Summary:     "what the last queries of the prompt attend to, with its neighbours",
	Source:      "Li et al., SnapKV, arXiv 2404.14469",
	Evicts:      true,
	Rule:        observed,
	Observation: Observation{Window: 32, Kernel: 7},
	Parameters:  observedParameters,
}

// observed is the rule of policies that observe the last queries of a prompt.
var observed = Rule{Update: UpdateAdd, Decay: 1, Recent: true, Last: 32, Every: 1}

var observedParameters = []*Parameter{windowParameter, kernelParameter, poolParameter, reduceParameter, decodeParameter}
