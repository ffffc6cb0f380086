// Package runtime records a decode graph once and replays it for every token. It knows tensors, rows and token ids, not
// text and not cache policies.
package runtime

import (
	"encoding/binary"
	"fmt"
	"sync"

	"vkdecode/shaders"
	"vkdecode/vk"
)

// Engine is an open device with the kernels' pipelines and how to launch them well there.
type Engine struct {
	Device *vk.Device
	Tuning Tuning

	Measured map[Product]Launch // ways that were measured, in place of the tuning's

	Debug int  // 1: device; 2: time per kernel; 3: the graph, one line per dispatch
	Anew  bool // record every program anew before each submit: slow, for checking that replay is the same

	lock      sync.Mutex
	pipelines map[string]*vk.Pipeline
}

// Bindable is the most bytes of vec4 that one binding of a kernel takes.
func (e *Engine) Bindable() int64 {
	l := e.Device.Info.Limits
	limit := min(l.MaxStorageRange, l.MaxAllocation)
	if e.Tuning.Form == shaders.Texel {
		limit = min(limit, 16*int64(l.MaxTexelElements))
	}
	return limit
}

// NewEngine wraps an open device.
func NewEngine(d *vk.Device) *Engine {
	return &Engine{Device: d, Tuning: TuningFor(d.Info), pipelines: map[string]*vk.Pipeline{}}
}

// pipelineKey identifies a module with its constants.
func pipelineKey(m *vk.Module, constants []uint32) string {
	key := []byte(m.Name)
	for _, c := range constants {
		key = binary.LittleEndian.AppendUint32(key, c)
	}
	return string(key)
}

// compile makes the pipelines of the calls that the engine does not have yet, on two threads: drivers compile slowly.
func (e *Engine) compile(calls []shaders.Call) error {
	missing := map[string]shaders.Call{}
	e.lock.Lock()
	for _, c := range calls {
		key := pipelineKey(c.Module, c.Constants)
		if e.pipelines[key] == nil {
			missing[key] = c
		}
	}
	e.lock.Unlock()
	keys := make(chan string, len(missing))
	for key := range missing {
		keys <- key
	}
	close(keys)
	var wg sync.WaitGroup
	var failed error
	for range min(2, len(missing)) {
		wg.Go(func() {
			for key := range keys {
				c := missing[key]
				p, err := e.Device.NewPipeline(c.Module, c.Constants)
				e.lock.Lock()
				if err != nil && failed == nil {
					failed = fmt.Errorf("runtime: kernel %s: %w", c.Kernel, err)
				}
				e.pipelines[key] = p
				e.lock.Unlock()
			}
		})
	}
	wg.Wait()
	return failed
}

func (e *Engine) pipeline(c shaders.Call) *vk.Pipeline {
	e.lock.Lock()
	defer e.lock.Unlock()
	return e.pipelines[pipelineKey(c.Module, c.Constants)]
}
