package ref

import "slices"

// Advance makes the next step out of the rows of this one and the token sampled for each: the tokens are the next rows of
// their sequences. The step is done when every row met an end token, or one has no token.
func Advance(rows []Row, tokens, ends []int) (next []Row, done bool) {
	done = len(tokens) > 0
	for i, token := range tokens {
		next = append(next, Row{Token: token, Seq: rows[i].Seq, Pos: rows[i].Pos + 1})
		done = done && slices.Contains(ends, token)
	}
	return next, done || slices.Contains(tokens, NoToken)
}

// Count is how often each token of the window stands in it: the last window tokens of a sequence, 0 for all of them.
func Count(sequence []int, window int) map[int]int {
	if window > 0 {
		sequence = sequence[max(0, len(sequence)-window):]
	}
	seen := map[int]int{}
	for _, token := range sequence {
		seen[token]++
	}
	return seen
}
