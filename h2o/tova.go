package h2o

// tova drops the token that the last query looks at least: S_j = mean over all query heads of the layer of a[T, j]. The
// heads of a layer keep the same tokens, and the newest may be the one that goes.
var tova = &Policy{
	Name:       "tova",
	Summary:    "the tokens that the last query of the layer attends to",
	Source:     "Oren et al., Transformers are Multi-State RNNs, arXiv 2401.06104",
	Evicts:     true,
	Rule:       Rule{Update: UpdateLast, Reduce: ReduceMean, Layer: true, Decay: 1, Every: 1},
	Parameters: []*Parameter{protectParameter, everyParameter},
}
