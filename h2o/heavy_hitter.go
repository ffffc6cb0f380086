package h2o

// heavyHitter keeps the tokens that attention returned to most, S_j = sum over queries t >= j and the query heads of the
// group of a[t, j], beside a window of recent ones. The order is the published code's "real drop": the token that leaves
// the window competes at once with the heavy hitters.
var heavyHitter = &Policy{
	Name:       "h2o",
	Summary:    "heavy hitters by accumulated attention, and a recent window",
	Source:     "Zhang et al., H2O: Heavy-Hitter Oracle, arXiv 2306.14048",
	Evicts:     true,
	Rule:       Rule{Update: UpdateAdd, Decay: 1, Recent: true, Every: 1},
	Parameters: []*Parameter{scoreParameter, reduceParameter, decayParameter, normParameter, admitParameter, graceParameter, everyParameter},
}
