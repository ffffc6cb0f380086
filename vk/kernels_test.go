package vk_test

import (
	"embed"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"vkdecode/vk"
)

//go:embed testdata/*.spv
var spirv embed.FS

var (
	storage = vk.Binding{}
	texel   = vk.Binding{Texel: true, Format: vk.RGBA32Uint}
)

// module describes the kernels of testdata, see there for what they compute.
func module(t testing.TB, name string) *vk.Module {
	t.Helper()
	code, err := spirv.ReadFile("testdata/" + name + ".spv")
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]vk.Module{
		"scale": {Bindings: []vk.Binding{storage, storage}, PushBytes: 8, Constants: 2},
		"texel": {Bindings: []vk.Binding{texel, storage}, Constants: 1},
		"spin":  {Bindings: []vk.Binding{storage}, PushBytes: 4},
		"formats": {Bindings: []vk.Binding{
			{Texel: true, Format: vk.R32Uint}, {Texel: true, Format: vk.R32Float}, {Texel: true, Format: vk.RG32Uint},
			{Texel: true, Format: vk.RG32Float}, {Texel: true, Format: vk.RGBA32Float}, storage}},
	}[name]
	m.Name, m.Code = name, code
	return &m
}

func pipeline(t testing.TB, d *vk.Device, name string, constants ...uint32) *vk.Pipeline {
	t.Helper()
	p, err := d.NewPipeline(module(t, name), constants)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Free)
	return p
}

func buffer(t testing.TB, d *vk.Device, name string, size int64) *vk.Buffer {
	t.Helper()
	b, err := d.NewBuffer(name, size, vk.Local)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Free)
	return b
}

func record(t testing.TB, d *vk.Device, ops ...vk.Op) *vk.Commands {
	t.Helper()
	c, err := d.Record(t.Name(), ops)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Free)
	return c
}

// scale is one dispatch of y = factor·x + add over n elements, with workgroups of 64.
func scale(p *vk.Pipeline, x, y vk.Range, add, n uint32) vk.Op {
	return vk.Op{Kind: vk.Dispatch, Pipeline: p, Push: words(add, n), Bindings: []vk.Range{x, y}, X: (n + 63) / 64, Y: 1, Z: 1}
}

// spin is work for many milliseconds: 60,000 rounds in each of the workgroups, one for every word of x.
func spin(p *vk.Pipeline, x *vk.Buffer) vk.Op {
	return vk.Op{Kind: vk.Dispatch, Pipeline: p, Push: words(60_000), Bindings: []vk.Range{x.All()}, X: uint32(x.Size / 4), Y: 1, Z: 1}
}

func run(t testing.TB, d *vk.Device, ops ...vk.Op) {
	t.Helper()
	if err := d.Run(ops...); err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, d *vk.Device, r vk.Range, data []byte) {
	t.Helper()
	if err := d.Write(r, data); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, d *vk.Device, r vk.Range) []byte {
	t.Helper()
	data := make([]byte, r.Size)
	if err := d.Read(data, r); err != nil {
		t.Fatal(err)
	}
	return data
}

// words is little-endian 32-bit words.
func words(list ...uint32) []byte {
	var out []byte
	for _, w := range list {
		out = binary.LittleEndian.AppendUint32(out, w)
	}
	return out
}

// count is the words 0 to n-1.
func count(n uint32) []byte {
	var out []byte
	for i := range n {
		out = binary.LittleEndian.AppendUint32(out, i)
	}
	return out
}

func word(data []byte, i int) uint32 { return binary.LittleEndian.Uint32(data[4*i:]) }

func random(n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}
