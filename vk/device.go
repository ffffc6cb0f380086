package vk

// #include "shim.h"
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	vulkan "github.com/vulkan-go/vulkan"
)

// Device is an open device with one compute queue.
type Device struct {
	Info DeviceInfo

	in     *Instance
	shim   *C.shim_device
	handle vulkan.Device
	raw    C.shim_info

	memory   memory
	cache    pipelineCache
	queue    queue
	staging  staging
	mu       sync.Mutex // guards the sets below and the buffers' views
	buffers  map[*Buffer]struct{}
	pipes    map[*Pipeline]struct{}
	compiled map[compiledKey]*compiled
	commands map[*Commands]struct{}
}

// Open opens a device that Devices or Select described.
func (in *Instance) Open(info DeviceInfo) (*Device, error) {
	if info.Index < 0 || info.Index >= len(in.devices) {
		return nil, fmt.Errorf("vk: device %d: there are %d; take it from Devices or Select", info.Index, len(in.devices))
	}
	if info = in.info(info.Index); info.Rejected != "" {
		return nil, fmt.Errorf("vk: device %q cannot be used: %s", info.Name, info.Rejected)
	}
	d := &Device{
		Info:     info,
		in:       in,
		raw:      in.describe(info.Index),
		buffers:  map[*Buffer]struct{}{},
		pipes:    map[*Pipeline]struct{}{},
		compiled: map[compiledKey]*compiled{},
		commands: map[*Commands]struct{}{},
	}
	if s := C.shim_open(in.shim, in.devices[info.Index], &d.raw, &d.shim); s.result != 0 {
		return nil, failure(s, info.Name)
	}
	handle := C.shim_device_handle(d.shim)
	d.handle = *(*vulkan.Device)(unsafe.Pointer(&handle))
	return d, nil
}

// Instance gives the instance that the device was opened on.
func (d *Device) Instance() *Instance { return d.in }

// Heaps describes the device's memory as it is now.
func (d *Device) Heaps() []Heap {
	c := d.in.describe(d.Info.Index)
	return heaps(&c)
}

// WaitIdle waits for all submitted work.
func (d *Device) WaitIdle() error {
	d.queue.Lock()
	defer d.queue.Unlock()
	return check(vulkan.DeviceWaitIdle(d.handle), "vkDeviceWaitIdle", d.Info.Name)
}

// Close waits for the device and frees it with everything made on it.
func (d *Device) Close() {
	_ = d.WaitIdle() // a lost device must still be freed
	for c := range d.commands {
		c.Free()
	}
	for p := range d.pipes {
		p.Free()
	}
	for b := range d.buffers {
		b.Free()
	}
	d.cache.close(d)
	d.queue.close(d)
	C.shim_close(d.shim)
	d.shim = nil
}

// name labels a handle for validation messages.
func (d *Device) name(t vulkan.ObjectType, handle uint64, name string) {
	cname := C.CString(name)
	C.shim_name(d.shim, C.VkObjectType(t), C.uint64_t(handle), cname)
	C.free(unsafe.Pointer(cname))
}

// as reads a handle as vulkan-go's pointer type, and bits is its inverse. Handles live as integers everywhere else,
// because some drivers' are not addresses and the garbage collector must not look at them.
func as[T any](handle uint64) T { return *(*T)(unsafe.Pointer(&handle)) }

func bits[T any](handle T) uint64 { return *(*uint64)(unsafe.Pointer(&handle)) }
