package gguf

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

// golden is what tests/reference/dequant.py wrote.
type golden struct {
	Types []struct {
		Type     Type
		Name     string
		Elements int64
		Bytes    int64
	}
	Cases []struct {
		Type Type
		Src  []byte // blocks
		Dst  []byte // f32, little-endian
	}
}

func readGolden(t *testing.T) golden {
	t.Helper()
	text, err := os.ReadFile("testdata/dequant.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Cases) != len(expansions) {
		t.Fatalf("golden has %d types, want the %d we expand", len(g.Cases), len(expansions))
	}
	return g
}

// compareBits dequantises src and reports the first element whose bits differ from want.
func compareBits(t Type, src, want []byte) error {
	dst := make([]float32, len(want)/4)
	if err := Dequantize(t, src, dst); err != nil {
		return err
	}
	for i, x := range dst {
		if got, want := math.Float32bits(x), binary.LittleEndian.Uint32(want[4*i:]); got != want {
			return fmt.Errorf("%v element %d: bits %08x, want %08x", t, i, got, want)
		}
	}
	return nil
}

func TestDequantizeEqualsThePythonPackageBitForBit(t *testing.T) {
	for _, c := range readGolden(t).Cases {
		t.Run(c.Type.String(), func(t *testing.T) {
			if err := compareBits(c.Type, c.Src, c.Dst); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestComparisonSeesOneWrongByte(t *testing.T) {
	for _, c := range readGolden(t).Cases {
		for _, at := range []int{len(c.Src) / 2, len(c.Src) - 1} { // not in block 0, all of it zero
			src := append([]byte(nil), c.Src...)
			src[at] ^= 0x10
			if compareBits(c.Type, src, c.Dst) == nil {
				t.Errorf("%v: byte %d of the source changed, the comparison did not notice", c.Type, at)
			}
		}
	}
}

func TestHalvesEqualTheirDefinition(t *testing.T) {
	for bits := range 1 << 16 {
		var src [2]byte
		binary.LittleEndian.PutUint16(src[:], uint16(bits))
		exponent, fraction := bits>>10&31, float64(bits&1023)
		var want float64
		switch exponent {
		case 0:
			want = math.Ldexp(fraction, -24)
		case 31:
			want = math.Inf(1)
			if fraction != 0 {
				want = math.NaN()
			}
		default:
			want = math.Ldexp(1024+fraction, exponent-25)
		}
		if bits>>15 == 1 {
			want = -want
		}
		got := float64(half(src[:]))
		if math.IsNaN(want) != math.IsNaN(got) || !math.IsNaN(want) && math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("f16 %#04x = %v, want %v", bits, got, want)
		}
	}
}

func TestDequantizeRefuses(t *testing.T) {
	for _, c := range []struct {
		name     string
		kind     Type
		bytes    int
		elements int
		want     string
	}{
		{"a type without a formula", IQ2_XXS, 66, 256, "weight type IQ2_XXS is not supported, want one of F32 F16 Q4_0 Q4_1 Q5_0"},
		{"integers", I32, 4, 1, "weight type I32 is not supported"},
		{"an unknown number", 5, 18, 32, "weight type number 5 is not supported"},
		{"a short source", Q4_1, 39, 64, "39 bytes into 64 elements"},
		{"a long source", Q4_1, 41, 64, "41 bytes into 64 elements"},
		{"part of a block", Q8_0, 34, 31, "want 34 bytes for every 32 elements"},
		{"part of a super-block", Q6_K, 210, 32, "want 210 bytes for every 256 elements"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Dequantize(c.kind, make([]byte, c.bytes), make([]float32, c.elements))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	if err := Dequantize(Q4_1, nil, nil); err != nil {
		t.Errorf("no blocks: %v", err)
	}
}

func TestTypesEqualThePythonPackage(t *testing.T) {
	types := readGolden(t).Types
	for _, c := range types {
		if c.Type == Q8_1 {
			c.Bytes = 36 // the package still counts two f32; ggml's struct has two f16
		}
		if c.Type.String() != c.Name || c.Type.BlockSize() != c.Elements || c.Type.BlockBytes() != c.Bytes {
			t.Errorf("type %d: %v, %d elements in %d bytes, want %s, %d in %d",
				uint32(c.Type), c.Type, c.Type.BlockSize(), c.Type.BlockBytes(), c.Name, c.Elements, c.Bytes)
		}
	}
	known := 0
	for i := range Type(1000) {
		if i.known() {
			known++
		}
	}
	if known != len(types) {
		t.Errorf("%d types known, want %d", known, len(types))
	}
}

func BenchmarkDequantizeQ4_1(b *testing.B) {
	dst := make([]float32, 576*1536)
	src := make([]byte, len(dst)/32*20)
	b.SetBytes(int64(4 * len(dst)))
	for b.Loop() {
		Dequantize(Q4_1, src, dst)
	}
}
