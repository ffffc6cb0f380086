package ref

// Carry copies rows of so many values from those of a step, x, to their places in a prompt, y.
func Carry[T any](y, x []T, width int, places []int) {
	for row, place := range places {
		copy(y[place*width:][:width], x[row*width:])
	}
}

// CarryBack copies them from their places in a prompt, x, to the rows of a step, y.
func CarryBack[T any](y, x []T, width int, places []int) {
	for row, place := range places {
		copy(y[row*width:][:width], x[place*width:])
	}
}
