package runtime

import (
	"fmt"
	"slices"

	"vkdecode/shaders"
	"vkdecode/vk"
)

// Launch is how the products with one weight matrix are launched. Its planes are packed for it.
type Launch struct {
	Lanes int `json:"lanes"` // invocations per workgroup
	Run   int `json:"run"`   // of them, how many share a weight row: a power of two
	Rows  int `json:"rows"`  // weight rows per invocation, a multiple of 4
}

func (l Launch) String() string {
	return fmt.Sprintf("%d lanes, %d along a row, %d rows each", l.Lanes, l.Run, l.Rows)
}

// Input is what a product multiplies with: some work on it is done again in every workgroup.
type Input string

const (
	Plain  Input = "x"
	Normed Input = "norm"  // of x, which every workgroup sums up
	Parts  Input = "parts" // of attention, which every workgroup brings together where Tuning.MergesParts says so
)

// Product is a kind of products in decode steps: all with matrices of one type and shape. What is best for it is measured
// once. It is the exact shape, for a few rows more can be one workgroup more than there are threads.
type Product struct {
	Weight  string `json:"weight"` // type of the kernels
	Rows    int    `json:"rows"`   // of the matrix
	Columns int    `json:"columns"`
	Input   Input  `json:"input"`
}

func (p Product) String() string {
	return fmt.Sprintf("%s %dx%d %s", p.Weight, p.Rows, p.Columns, p.Input)
}

// launches are the ways that are measured, by whether a workgroup is one subgroup, whose size then replaces Lanes. The
// twins are compared in each.
var launches = map[bool][]Launch{
	true:  {{Run: 1, Rows: 4}, {Run: 1, Rows: 8}, {Run: 1, Rows: 12}, {Run: 1, Rows: 16}, {Run: 2, Rows: 8}, {Run: 4, Rows: 4}},
	false: {{32, 8, 4}, {32, 32, 4}, {64, 8, 4}, {64, 16, 4}, {64, 32, 4}, {64, 32, 8}, {64, 64, 4}, {128, 32, 4}},
}

// Launches are the ways to launch a form of the kernels on a device that measuring may choose from.
func Launches(info vk.DeviceInfo, form shaders.Form) (all []Launch) {
	for _, l := range launches[oneSubgroup(info, form)] {
		if oneSubgroup(info, form) {
			l.Lanes = int(info.Limits.SubgroupSize)
		}
		if l.Run <= l.Lanes {
			all = append(all, l)
		}
	}
	return all
}

// Launch is how a product is launched: as was measured, or as the tuning says.
func (e *Engine) Launch(p Product) Launch {
	if l, ok := e.Measured[p]; ok {
		return l
	}
	return e.Tuning.Launch(p.Rows)
}

// Launch is the table's way for matrices of so many rows, multiplied one after the other.
func (t Tuning) Launch(heights ...int) Launch { return Launch{t.Lanes, t.Run, t.RowsFor(heights...)} }

// MostRun is the largest number of invocations that share a row: rows are padded for it.
func (e *Engine) MostRun() int {
	most := e.Tuning.Run
	for _, l := range e.Measured {
		most = max(most, l.Run)
	}
	return most
}

// Otherwise tells how products are launched otherwise than the tuning says; none where nothing better was measured.
func (e *Engine) Otherwise() (all []string) {
	for p, l := range e.Measured {
		if l != e.Tuning.Launch(p.Rows) {
			all = append(all, fmt.Sprintf("%s: %s", p, l))
		}
	}
	slices.Sort(all)
	return all
}
