package runtime

import (
	"os"
	"path/filepath"
	"testing"

	"vkdecode/vk"
)

func TestAvailableMemoryIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meminfo")
	for text, want := range map[string]int64{
		"MemTotal: 9 kB\nMemAvailable:   24000 kB\n": 24000 << 10,
		"MemTotal: 9 kB\n":                           -1,
		"MemAvailable: much kB\n":                    -1,
	} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if got, told := available(path); told != (want >= 0) || told && got != want {
			t.Errorf("%q: %d, %t", text, got, told)
		}
	}
	if _, told := available(path + "s"); told {
		t.Error("told by a file that is not there")
	}
}

// Weights keep to the free memory of a device only where there is other memory to put them into, or where a limit is set.
func TestWeightsKeepToTheirRoomWhereThereIsOther(t *testing.T) {
	own := vk.Heap{Size: 8 << 30, Budget: -1, DeviceLocal: true}
	for _, c := range []struct {
		heaps   []vk.Heap
		room    int64
		want    int64
		limited bool
	}{
		{[]vk.Heap{own}, 0, 0, false},
		{[]vk.Heap{own, {Size: 16 << 30, Budget: -1}}, 0, 7 << 30, true},
		{[]vk.Heap{own}, 1000, 1000, true},
	} {
		free := func() (int64, bool) { return 8 << 30, true }
		if got, limited := forWeights(c.heaps, c.room, free); limited != c.limited || limited && got != c.want {
			t.Errorf("%+v, room %d: %d, %v, want %d, %v", c.heaps, c.room, got, limited, c.want, c.limited)
		}
	}
}
