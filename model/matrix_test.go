package model

import (
	"testing"

	"vkdecode/shaders"
)

func TestTilesHaveAsManyColumnsAsTheRowsMakeUnlessOnlyMostAreUnrolled(t *testing.T) {
	for _, c := range []struct {
		form       shaders.Form
		weight     string
		rows, want int
	}{
		{shaders.Texel, "q4_1", 1, 1}, {shaders.Texel, "q4_1", 5, 3}, {shaders.Texel, "q4_1", 6, 3}, {shaders.Texel, "q4_1", 8, 4},
		{shaders.Storage, "q4_1", 1, 1}, {shaders.Storage, "q4_1", 2, 4}, {shaders.Storage, "q4_1", 5, 4}, {shaders.Storage, "q4_k", 5, 3},
	} {
		k := shaders.Matmul{Lanes: 4, Run: 1, Rows: 16}
		if got := tile(k, shaders.Variant{Form: c.form, Weight: c.weight}, c.rows, 4); got != c.want {
			t.Errorf("%v, %s, %d rows: tiles of %d, want %d", c.form, c.weight, c.rows, got, c.want)
		}
	}
}
