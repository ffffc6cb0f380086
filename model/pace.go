package model

import (
	"time"

	"vkdecode/runtime"
)

// pace is how long a decode step takes, and how many go into a submit. A few save the host the work of submitting each; too
// many keep the text waiting.
type pace struct {
	step time.Duration // the last one that was measured, 0 = none yet
}

const longBatch = 20 * time.Millisecond // steps that are submitted together take no longer

// alone tells whether a step is to be run by itself, segment by segment, and measured: the first one, and where one takes so
// long that it must be cut.
func (p *pace) alone() bool { return p.step == 0 || p.step > runtime.ShortSubmit }

// steps is how many go into the next submit, of those that are left.
func (p *pace) steps(most, left int) int {
	if p.alone() {
		return 1
	}
	return max(1, min(most, left, int(longBatch/p.step)))
}

// note learns from so many steps that took so long.
func (p *pace) note(steps int, took time.Duration) {
	p.step = max(1, took/time.Duration(steps))
}
