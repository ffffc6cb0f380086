package h2o

import "strings"

// Nearest returns the known name that word was probably meant to be, or "" when
// none is close: at most one edit for every three letters.
func Nearest(word string, known []string) string {
	best, least := "", 0
	for _, name := range known {
		d := distance(strings.ToLower(word), strings.ToLower(name))
		if 3*d <= len(name) && (best == "" || d < least) {
			best, least = name, d
		}
	}
	return best
}

// distance is Levenshtein's: the insertions, deletions and replacements that
// turn a into b.
func distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	row := make([]int, len(to)+1) // of the prefix of a seen so far, to every prefix of b
	for j := range row {
		row[j] = j
	}
	for i, r := range from {
		diagonal := row[0]
		row[0] = i + 1
		for j, s := range to {
			replace := diagonal
			if r != s {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(to)]
}
