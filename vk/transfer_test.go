package vk_test

import (
	"bytes"
	"strings"
	"testing"

	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

func TestWriteReadZero(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		checkTransfers(t, d, buffer(t, d, "mapped", 100003))
	})
}

func TestWriteReadZeroThroughStaging(t *testing.T) {
	for _, name := range drivers.Names() {
		t.Run(name, func(t *testing.T) {
			d := drivers.Open(t, name, true)
			b := buffer(t, d, "unmapped", 40<<20+3) // large enough for a block of its own
			b.Unmap()
			checkTransfers(t, d, b)
		})
	}
}

// checkTransfers writes, clears and reads odd parts, with sentinels around them.
func checkTransfers(t *testing.T, d *vk.Device, b *vk.Buffer) {
	want := random(int(b.Size))
	write(t, d, b.All(), want)
	part := b.All().Slice(1001, b.Size-2003)
	patch := random(int(part.Size))
	write(t, d, part, patch)
	copy(want[1001:], patch)
	if err := d.Zero(b.All().Slice(400, 404)); err != nil {
		t.Fatal(err)
	}
	clear(want[400:804])
	if !bytes.Equal(read(t, d, b.All()), want) {
		t.Error("the buffer does not hold what was written")
	}
	if !bytes.Equal(read(t, d, part), want[1001:1001+part.Size]) {
		t.Error("a part reads differently")
	}
}

func TestTransfersRefuseWrongRanges(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		b := buffer(t, d, "x", 100)
		freed := buffer(t, d, "gone", 100)
		freed.Free()
		for says, err := range map[string]error{
			"99 bytes of host memory": d.Write(b.All(), make([]byte, 99)),
			"want a part of [0, 100)": d.Read(make([]byte, 8), vk.Range{Buffer: b, Offset: 96, Size: 8}),
			"multiples of 4":          d.Zero(b.All().Slice(2, 8)),
			"was freed":               d.Write(vk.Range{Buffer: freed, Size: 4}, make([]byte, 4)),
			"no buffer":               d.Zero(vk.Range{}),
		} {
			if err == nil || !strings.HasPrefix(err.Error(), "vk: ") || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, want an error that says %q", err, says)
			}
		}
	})
}
