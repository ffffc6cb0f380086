package model

import (
	"testing"
	"time"
)

func TestStepsGoTogetherWhileTheyAreShort(t *testing.T) {
	for _, c := range []struct {
		step              time.Duration
		most, left, steps int
		alone             bool
	}{
		{0, 16, 100, 1, true},                      // not known
		{time.Nanosecond, 16, 100, 16, false},      // as many as there is room for
		{time.Millisecond, 16, 5, 5, false},        // as are left
		{2 * time.Millisecond, 16, 100, 10, false}, // as take 20 ms
		{3 * time.Millisecond, 16, 100, 6, false},
		{15 * time.Millisecond, 16, 100, 1, false},
		{15 * time.Millisecond, 1, 100, 1, false},
		{90 * time.Millisecond, 16, 100, 1, false},
		{101 * time.Millisecond, 16, 100, 1, true}, // must be cut
	} {
		p := pace{step: c.step}
		if p.steps(c.most, c.left) != c.steps || p.alone() != c.alone {
			t.Errorf("a step of %v: %d together, alone %v; want %d, %v", c.step, p.steps(c.most, c.left), p.alone(), c.steps, c.alone)
		}
	}
	var p pace
	p.note(4, 8*time.Millisecond)
	if p.step != 2*time.Millisecond {
		t.Errorf("4 steps in 8 ms: %v each", p.step)
	}
	if p.note(1, 0); p.alone() {
		t.Error("a step that took no time is not known")
	}
}
