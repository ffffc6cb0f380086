package h2o

// random drops any token but the recent ones: every step each token draws a fresh number, a hash of the seed, the step,
// the layer, the KV head and its position. It is the baseline that a score has to beat.
var random = &Policy{
	Name:       "random",
	Summary:    "any token goes, but for a recent window",
	Evicts:     true,
	Rule:       Rule{Update: UpdateHash, Decay: 1, Recent: true, Every: 1, Seed: 1},
	Parameters: []*Parameter{seedParameter, everyParameter},
}
