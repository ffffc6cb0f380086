// Package runtime records a decode graph once and replays it for every token. It knows tensors, rows and token ids, not
// text and not cache policies.
package runtime

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"vkdecode/shaders"
	"vkdecode/vk"
)

// Engine is an open device with the kernels' pipelines and how to launch them well there.
type Engine struct {
	Device *vk.Device
	Tuning Tuning

	Measured map[Product]Launch // ways that were measured, in place of the tuning's

	OwnLayers int   // layers of a model whose weights lie in the device's own memory; it reads the others' from the host's. Negative: as many as fit
	Room      int64 // bytes of its own memory for weights, 0 = what is free

	Debug int  // 1: device; 2: time per kernel; 3: the graph, one line per dispatch
	Anew  bool // record every program anew before each submit: slow, for checking that replay is the same

	Clock func() time.Duration // what submits are cut by, nil = the host's clock

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
	return &Engine{Device: d, Tuning: TuningFor(d.Info), OwnLayers: -1, pipelines: map[string]*vk.Pipeline{}}
}

// build is a pipeline that a program needs: of a call, for the whole dispatch or for parts of it.
type build struct {
	shaders.Call
	parts bool
}

// key identifies a module with its constants.
func (b build) key() string {
	key := []byte(b.Module.Name)
	for _, c := range b.Constants {
		key = binary.LittleEndian.AppendUint32(key, c)
	}
	if b.parts {
		key = append(key, "in parts"...)
	}
	return string(key)
}

// compile makes the pipelines that the engine does not have yet, on two threads: drivers compile slowly. It stops between two
// pipelines when ctx ends.
func (e *Engine) compile(ctx context.Context, all []build) error {
	missing := map[string]build{}
	e.lock.Lock()
	for _, b := range all {
		if key := b.key(); e.pipelines[key] == nil {
			missing[key] = b
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
				if ctx.Err() != nil {
					return
				}
				b, compile := missing[key], e.Device.NewPipeline
				if b.parts {
					compile = e.Device.NewPartsPipeline
				}
				p, err := compile(b.Module, b.Constants)
				e.lock.Lock()
				if err != nil && failed == nil {
					failed = fmt.Errorf("runtime: kernel %s: %w", b.Kernel, err)
				}
				e.pipelines[key] = p
				e.lock.Unlock()
			}
		})
	}
	wg.Wait()
	if failed == nil {
		failed = ctx.Err()
	}
	return failed
}

func (e *Engine) pipeline(b build) *vk.Pipeline {
	e.lock.Lock()
	defer e.lock.Unlock()
	return e.pipelines[b.key()]
}
