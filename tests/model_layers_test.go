package tests

import (
	"testing"

	"vkdecode/model"
	"vkdecode/model/builtin"
	"vkdecode/model/gguf"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// Wherever the weights of layers lie, results are the same; how many layers are the device's own follows from what is asked
// for, or from its memory.
func TestLayersThatDoNotFitAreReadFromTheHost(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		e, prompt, settings := engineOf(d).Engine, passageIDs(t)[:promptTokens], evicting()[0]
		defer func() { e.OwnLayers, e.Room = -1, 0 }()
		f, err := gguf.Parse(builtin.Model)
		if err != nil {
			t.Fatal(err)
		}
		whole := builtinOn(t, d)
		want := decode(t, openSession(t, whole, settings, promptTokens+20), prompt, 20, false)
		all, layers := whole.Bytes(), len(whole.Layers)
		if whole.OwnLayers != layers || whole.OwnBytes() != all {
			t.Fatalf("%d of %d layers, %d of %d bytes are the device's own though nothing limits them", whole.OwnLayers, layers, whole.OwnBytes(), all)
		}
		var layer int64 // bytes
		for _, c := range []struct {
			name      string
			own, want int
			room      func() int64
		}{
			{"no layer", 0, 0, nil},
			{"one layer", 1, 1, nil},
			{"more than there are", layers + 5, layers, nil},
			{"room for all", -1, layers, func() int64 { return all }},
			{"a byte too little for all", -1, layers - 1, func() int64 { return all - 1 }},
			{"room for one", -1, 1, func() int64 { return all - int64(layers-1)*layer }},
			{"a byte too little for one", -1, 0, func() int64 { return all - int64(layers-1)*layer - 1 }},
			{"room for nothing", -1, 0, func() int64 { return 1 }},
		} {
			if e.OwnLayers, e.Room = c.own, 0; c.room != nil {
				e.Room = c.room()
			}
			m, err := model.Load(e, f, nil)
			if err != nil {
				t.Fatal(err)
			}
			if layer == 0 {
				layer = (all - m.OwnBytes()) / int64(layers)
			}
			if m.OwnLayers != c.want || m.Bytes() != all || m.OwnBytes() != all-int64(layers-c.want)*layer || layer <= 0 {
				t.Errorf("%s: %d layers and %d of %d bytes are the device's own, want %d layers; one has %d", c.name, m.OwnLayers, m.OwnBytes(), m.Bytes(), c.want, layer)
			}
			s := openSession(t, m, settings, promptTokens+20)
			if got := decode(t, s, prompt, 20, false); got.difference(want) != "" {
				t.Errorf("%s: differs in %s", c.name, got.difference(want))
			}
			s.Close()
			m.Close()
		}
	})
}
