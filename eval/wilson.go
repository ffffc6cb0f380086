package eval

import "math"

// wilson is the 95 % interval of a share, by Wilson's score (JASA 22, 1927): unlike the share plus or minus its standard
// error it stays within 0 and 1 and is right for few trials.
func wilson(hits, trials int) (low, high float64) {
	if trials == 0 {
		return 0, 1
	}
	const z = 1.959963984540054 // 97.5 % of a normal distribution lie below
	n, p := float64(trials), float64(hits)/float64(trials)
	middle := p + z*z/(2*n)
	margin := z * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	scale := 1 + z*z/n
	return max(0, (middle-margin)/scale), min(1, (middle+margin)/scale)
}
