package ref

// Checksum is what so many workgroups of lanes invocations make of x (elements of four words), depth elements each: the
// exclusive or of the words that an invocation reads.
func Checksum(x []uint32, groups, lanes, depth int) []uint32 {
	y := make([]uint32, groups*lanes)
	for i, word := range x {
		element := i / 4
		y[element/(depth*lanes)*lanes+element%lanes] ^= word
	}
	return y
}
