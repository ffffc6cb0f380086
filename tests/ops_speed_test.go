package tests

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"vkdecode/ref"
	"vkdecode/shaders"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// BenchmarkProducts multiplies a matrix of every weight type by one and by four activation rows, in the form that the
// device's tuning takes. It reports weights per second, and for one row the bytes of both planes and what share that is of
// the rate at which a kernel that only reads gets through the weights, in turns with the product.
func BenchmarkProducts(b *testing.B) {
	const rows, columns, dispatches = 1536, 1536, 8
	for _, driver := range drivers.Names() {
		d := drivers.Open(b, driver, false)
		r := &bench{d, map[string]*vk.Pipeline{}, map[string]bool{}}
		defer r.close()
		tuning := engineOf(d).Tuning
		l := launch{form: tuning.Form, lanes: tuning.Lanes}
		perLane := tuning.RowsFor(rows)
		groups := ceil(rows*tuning.Run, perLane*l.lanes)
		for _, w := range shaders.WeightTypes {
			ofGroup := perLane * l.lanes / tuning.Run
			raw := randomWeights(rand.New(rand.NewPCG(1, 2)), w, ofGroup*columns/32)
			weights, scales := ref.Planes(w, ofGroup, columns, raw, l.lanes, tuning.Run, perLane) // all groups have the same
			for _, cols := range []int{1, tuning.Cols} {
				rig := r.rig(l, stepRows(cols))
				plane := in(rig, "w", slices.Repeat(weights, groups))
				planes := [2]*tensor{plane, plane}
				if scales != nil {
					planes[1] = in(rig, "s", slices.Repeat(scales, groups))
				}
				x := in(rig, "x", randomFloats(rand.New(rand.NewPCG(3, 4)), cols*columns))
				y := rig.out("y", cols*rows)
				steps := ceil(columns/32, tuning.Run)
				k := shaders.Matmul{Lanes: uint32(l.lanes), Run: uint32(tuning.Run), Rows: uint32(perLane), Cols: uint32(cols), Steps: uint32(steps), Count: rows,
					XStride: columns / 4, YStride: rows, Step: rig.step.Range, W: planes[0].Range, S: planes[1].Range, X: x.Range, Norm: x.Range, Bias: x.Range, Res: x.Range, Y: y.Range}
				for range dispatches {
					rig.add(k, w, "", groups, 1, 1)
				}
				bytes := int64(4 * (len(weights) + len(scales)) * groups)
				reading := r.rig(l, stepRows(1))
				const depth = 32
				elements := len(weights) * groups / 4
				read := shaders.Checksum{Lanes: uint32(l.lanes), Depth: depth, Count: uint32(elements), X: plane.Range, Y: reading.out("sums", ceil(elements, depth*l.lanes)*l.lanes).Range}
				for range dispatches {
					reading.add(read, "", "", ceil(elements, depth*l.lanes), 1, 1)
				}
				rig.submit() // compiles
				reading.submit()
				b.Run(fmt.Sprintf("%s/%s/%d", driver, w, cols), func(b *testing.B) {
					var multiplied, read time.Duration
					for b.Loop() {
						begin := time.Now()
						rig.submit()
						middle := time.Now()
						reading.submit()
						multiplied, read = multiplied+middle.Sub(begin), read+time.Since(middle)
					}
					b.ReportMetric(float64(b.N)*dispatches*rows*columns/multiplied.Seconds()/1e9, "Gweights/s")
					if cols == 1 {
						rate := func(bytes int64, in time.Duration) float64 {
							return float64(b.N) * dispatches * float64(bytes) / in.Seconds() / 1e9
						}
						b.ReportMetric(rate(bytes, multiplied), "GB/s")
						b.ReportMetric(100*rate(bytes, multiplied)/rate(int64(4*len(weights)*groups), read), "%-of-reading")
					}
				})
				if rig.err != nil {
					b.Fatal(rig.err)
				}
				rig.free()
				reading.free()
			}
		}
	}
}
