package ref

// Embed is x = table[token], for a table (tokens, width).
func Embed(table []float64, width, token int) []float64 { return table[token*width : (token+1)*width] }
