package h2o

// streaming keeps the first tokens, which soak up attention, and the most recent ones. As in the paper, positions are
// renumbered inside the cache: it goes on for ever without positions that the model was not trained for.
var streaming = &Policy{
	Name:       "streaming",
	Summary:    "attention sinks and the most recent tokens",
	Source:     "Xiao et al., StreamingLLM, arXiv 2309.17453",
	Evicts:     true,
	Renumbers:  true,
	Rule:       Rule{Birth: BirthPosition, Decay: 1, Sinks: 4, Every: 1},
	Parameters: []*Parameter{everyParameter},
}
