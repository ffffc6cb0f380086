package h2o

// strided thins history to every 2^k-th token, k growing with the context: a token's score is the lowest set bit of its
// position, so that odd positions go first, then those divisible by two but not by four, and so on.
var strided = &Policy{
	Name:       "strided",
	Summary:    "every 2^k-th token, and a recent window",
	Evicts:     true,
	Rule:       Rule{Birth: BirthLowBit, Decay: 1, Recent: true, Every: 1},
	Parameters: []*Parameter{everyParameter},
}
