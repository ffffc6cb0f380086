package h2o

// full keeps every token; the capacity is the context.
var full = &Policy{
	Name:    "full",
	Summary: "keep every token",
}
