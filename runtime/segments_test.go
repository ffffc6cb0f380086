package runtime

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"vkdecode/shaders"
	"vkdecode/vk"
)

// graph is a program of dispatches of so many workgroups, of which nothing is run.
func graph(grids ...[3]uint32) *Program {
	p := &Program{}
	for _, g := range grids {
		p.calls = append(p.calls, dispatch{x: g[0], y: g[1], z: g[2]})
	}
	p.segments = p.begin()
	return p
}

// covers fails unless the segments run every workgroup once, dispatch after dispatch.
func covers(t *testing.T, p *Program) {
	t.Helper()
	seen, last := make([]map[[3]uint32]bool, len(p.calls)), 0
	for _, s := range p.segments {
		if len(s) == 0 {
			t.Fatal("an empty segment")
		}
		for _, part := range s {
			if part.call < last {
				t.Fatalf("dispatch %d after %d", part.call, last)
			}
			last = part.call
			if seen[last] == nil {
				seen[last] = map[[3]uint32]bool{}
			}
			for x := range part.groups[0] {
				for y := range part.groups[1] {
					for z := range part.groups[2] {
						at := [3]uint32{part.first[0] + x, part.first[1] + y, part.first[2] + z}
						if seen[last][at] || at[0] >= p.calls[last].x || at[1] >= p.calls[last].y || at[2] >= p.calls[last].z {
							t.Fatalf("workgroup %v of dispatch %d is run twice, or is none", at, last)
						}
						seen[last][at] = true
					}
				}
			}
		}
	}
	for i, c := range p.calls {
		if len(seen[i]) != int(c.x*c.y*c.z) {
			t.Fatalf("dispatch %d: %d workgroups run, want %d", i, len(seen[i]), c.x*c.y*c.z)
		}
	}
}

// slowDevice takes so long for a workgroup of each dispatch.
type slowDevice []time.Duration

func (d slowDevice) times(p *Program) (times []time.Duration) {
	for _, s := range p.segments {
		sum := time.Duration(0)
		for _, part := range s {
			sum += time.Duration(part.groups[0]*part.groups[1]*part.groups[2]) * d[part.call]
		}
		times = append(times, sum)
	}
	return times
}

// runs lets the program run on a device, and tells whether it is cut anew.
func (p *Program) runs(d slowDevice, joins bool) bool {
	p.next = p.fit(d.times(p), joins)
	changed := p.next != nil
	p.segments, p.next = p.coming(), nil
	return changed
}

// However slow a device is, after a few runs no submit takes too long; and none takes so little that it could be joined.
func TestSegmentsFollowWhatTheyTake(t *testing.T) {
	grids := [][3]uint32{{1, 1, 1}, {64, 64, 1}, {3, 5, 7}, {1, 1, 300}, {12, 2, 1}, {1, 1, 1}, {40, 1, 1}}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := graph(grids...)
		if p.Long = seed%2 == 0; p.Long {
			p.segments = p.begin()
		}
		device := make(slowDevice, len(grids))
		for i, g := range grids {
			most := 10 * time.Second / time.Duration(g[0]*g[1]*g[2]) // of a workgroup: a dispatch takes 10 s at most
			device[i] = time.Duration(math.Exp(r.Float64() * math.Log(float64(min(most, longSubmit)))))
		}
		runs := 0
		for p.runs(device, true) {
			covers(t, p)
			if runs++; runs > 12 {
				t.Fatalf("seed %d: not settled after %d runs", seed, runs)
			}
		}
		times := device.times(p)
		for i, took := range times {
			if took > longSubmit {
				t.Errorf("seed %d: a submit takes %v, %v at most", seed, took, longSubmit)
			}
			if i > 0 && took+times[i-1] <= ShortSubmit {
				t.Errorf("seed %d: submits of %v and %v are not one", seed, times[i-1], took)
			}
		}
	}
}

func TestSegmentsOfAQuickDeviceAreOne(t *testing.T) {
	p := graph(slices.Repeat([][3]uint32{{4, 4, 1}}, 50)...)
	p.Long = true
	p.segments = p.begin()
	if len(p.segments) != 50 {
		t.Fatalf("%d segments before anything is known, want 50", len(p.segments))
	}
	quick := make(slowDevice, 50)
	for i := range quick {
		quick[i] = time.Microsecond
	}
	if p.runs(quick, false) || len(p.segments) != 50 {
		t.Errorf("%d segments after a run of some rows, want 50", len(p.segments))
	}
	if !p.runs(quick, true) || len(p.segments) != 1 || p.runs(quick, true) {
		t.Errorf("%d segments, want 1", len(p.segments))
	}
	covers(t, p)
	for i := range quick { // where it gets slower, one run of some rows is enough to see it
		quick[i] = 10 * time.Millisecond
	}
	if !p.runs(quick, false) || len(p.segments) != 50 {
		t.Errorf("%d segments on a device that has become slow, want 50", len(p.segments))
	}
}

// A kernel that asks for the number of workgroups is not cut, nor one that has a single one.
func TestWhatCannotBeCutIsNot(t *testing.T) {
	p := graph([3]uint32{8, 1, 1}, [3]uint32{1, 1, 1})
	p.calls[0].Call = shaders.Call{Whole: true}
	hour := slowDevice{time.Hour, time.Hour}
	if !p.runs(hour, true) || len(p.segments) != 2 || p.runs(hour, true) {
		t.Errorf("%d segments", len(p.segments))
	}
	covers(t, p)
	p.calls[0].Whole = false
	if !p.runs(hour, true) || len(p.segments) != 9 {
		t.Errorf("%d segments, want 9", len(p.segments))
	}
	covers(t, p)
}

func TestPartsNeedAPipelineOfTheirOwn(t *testing.T) {
	call := shaders.Call{Module: &vk.Module{Name: "m"}, Constants: []uint32{64}}
	if (build{call, true}).key() == (build{call, false}).key() {
		t.Error("one pipeline for both")
	}
}
