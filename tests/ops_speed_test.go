package tests

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"vkdecode/shaders"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// BenchmarkProducts multiplies a matrix of every weight type by one and by four activation rows, in the form that the
// device's tuning takes. It reports weights per second, and for one row the bytes of both planes.
func BenchmarkProducts(b *testing.B) {
	const rows, columns, dispatches = 1536, 1536, 8
	for _, driver := range drivers.Names() {
		d := drivers.Open(b, driver, false)
		r := &bench{d, map[string]*vk.Pipeline{}, map[string]bool{}}
		defer r.close()
		tuning := engineOf(d).Tuning
		l := launch{tuning.Form, tuning.Lanes}
		perLane := tuning.RowsFor(rows)
		order := make([]int, rows)
		for i := range order {
			order[i] = i
		}
		for _, w := range shaders.WeightTypes {
			raw := randomWeights(rand.New(rand.NewPCG(1, 2)), w, rows*columns/32)
			for _, cols := range []int{1, tuning.Cols} {
				c := matmulCase{weight: w, share: tuning.Run, perLane: perLane, cols: cols, rows: rows, blocks: columns / 32, many: cols}
				rig := r.rig(l, stepRows(cols))
				weights, scales := rig.planes(c, raw, order)
				x := in(rig, "x", randomFloats(rand.New(rand.NewPCG(3, 4)), cols*columns))
				y := rig.out("y", cols*rows)
				steps := ceil(c.blocks, c.share)
				k := shaders.Matmul{Lanes: uint32(l.lanes), Run: uint32(c.share), Rows: uint32(perLane), Cols: uint32(cols), Steps: uint32(steps), Count: rows,
					XStride: columns / 4, YStride: rows, Step: rig.step.Range, W: weights[0].Range, S: scales[0].Range, X: x.Range, Norm: x.Range, Bias: x.Range, Res: x.Range, Y: y.Range}
				for range dispatches {
					rig.add(k, w, "", ceil(rows*c.share, perLane*l.lanes), 1, 1)
				}
				bytes := weights[0].data.Size
				if scales[0] != weights[0] {
					bytes += scales[0].data.Size
				}
				rig.submit() // compiles
				b.Run(fmt.Sprintf("%s/%s/%d", driver, w, cols), func(b *testing.B) {
					if cols == 1 {
						b.SetBytes(bytes * dispatches)
					}
					for b.Loop() {
						rig.submit()
					}
					b.ReportMetric(float64(b.N)*dispatches*rows*columns/b.Elapsed().Seconds()/1e9, "Gweights/s")
				})
				if rig.err != nil {
					b.Fatal(rig.err)
				}
				rig.free()
			}
		}
	}
}
