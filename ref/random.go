package ref

// Random are the words of a seed from element first to end, four to an element: the bits of mask are random, the others
// are those of value.
func Random(seed, mask, value uint32, first, end int) (words []uint32) {
	for i := 4 * first; i < 4*end; i++ {
		words = append(words, mixed(uint32(i)^mixed(seed))&mask|value)
	}
	return words
}

// PastColumns tells whether an element of a matrix's plane belongs to a block past its columns, whose blocks there are. A
// lane has one block in each of its steps, which lie stride elements apart; run lanes share a row.
func PastColumns(element, lanes, run, stride, steps, blocks int) bool {
	step, lane := element/stride%steps, element%lanes
	return step*run+lane%run >= blocks
}
