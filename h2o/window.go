package h2o

// window keeps the last B tokens: a token's score is its position, so the oldest goes.
var window = &Policy{
	Name:       "window",
	Summary:    "the most recent tokens",
	Evicts:     true,
	Rule:       Rule{Birth: BirthPosition, Decay: 1, Every: 1},
	Parameters: []*Parameter{everyParameter},
}
