package h2o

// window keeps the last B tokens: a token's score is its position, so the oldest goes.
var window = &Policy{
	Name:    "window",
	Summary: "the most recent tokens",
	Birth:   BirthPosition,
	Evicts:  true,
}
