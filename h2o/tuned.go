package h2o

// tuned is the setting of h2o that lost least at a fifth of the full f16 cache's bytes, of those that were tried on texts
// (docs/evaluation.md has the search): K and V in q8_0, which at equal bytes is almost twice as many tokens, and of the query heads of a
// group the strongest one counts, so that a token that one head needs is not outvoted by those that do not.
var tuned = &Policy{
	Name:       "h2o-tuned",
	Summary:    "h2o by the strongest query head of a group, K and V in q8_0",
	Source:     "measured: docs/evaluation.md",
	Evicts:     true,
	Rule:       Rule{Update: UpdateAdd, Reduce: ReduceMax, Decay: 1, Recent: true, Every: 1},
	Type:       "q8_0",
	Parameters: heavyHitter.Parameters,
}
