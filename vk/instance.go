// Package vk is the part of Vulkan we use: one device, one compute queue, buffers, pipelines, recorded commands.
//
// An Instance lists devices; Open gives a Device. Buffers hold bytes, pipelines run shaders over ranges of them, and
// Record turns a list of operations into Commands that Submit replays without touching the Go heap or the driver's
// descriptors again. Methods may be called from several goroutines; a range that the device is using is the caller's to
// protect, with a barrier inside a recording and with Pending.Wait outside.
//
// Flat calls go through vulkan-go, whose handles are 64-bit pointers (so 64-bit platforms only); the calls that it makes
// unsafely, and those newer than Vulkan 1.0, go through the shim in the C files.
package vk

/*
#cgo CFLAGS: -std=gnu11 -Wall -Wextra
#cgo LDFLAGS: -ldl
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"

	vulkan "github.com/vulkan-go/vulkan"
)

// Options of an Instance. The loader itself honours VK_DRIVER_FILES, or VK_ICD_FILENAMES where it is older.
type Options struct {
	Validation bool   // turn on VK_LAYER_KHRONOS_validation with synchronization validation; see Instance.Messages
	Loader     string // library to open, "libvulkan.so.1" if empty
}

// Instance is a connection to the Vulkan loader and all drivers it found.
type Instance struct {
	shim    *C.shim_instance
	devices []C.VkPhysicalDevice // in the loader's order
	drain   sync.Mutex           // guards shim_messages, two calls that belong together
}

// NewInstance loads Vulkan. The error is a *LoaderError when there is nothing to load.
func NewInstance(o Options) (*Instance, error) {
	if o.Loader == "" {
		o.Loader = "libvulkan.so.1"
	}
	getProc, err := load(o.Loader)
	if err != nil {
		return nil, err
	}
	validation := C.int(0)
	if o.Validation {
		validation = 1
	}
	in := &Instance{}
	s := C.shim_instance_create(getProc, validation, &in.shim)
	switch vulkan.Result(s.result) {
	case vulkan.Success:
	case vulkan.ErrorLayerNotPresent:
		return nil, fmt.Errorf("vk: layer VK_LAYER_KHRONOS_validation not found; install vulkan-validationlayers (Debian) or turn validation off")
	case vulkan.ErrorIncompatibleDriver:
		return nil, &LoaderError{o.Loader, "it found no driver, or is older than Vulkan 1.1"}
	default:
		return nil, failure(s, "instance")
	}
	if err := in.enumerate(); err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

// loader is the one library that this process uses: vulkan-go keeps its function pointers in globals.
var loader struct {
	sync.Mutex
	name    string
	getProc unsafe.Pointer
}

func load(name string) (unsafe.Pointer, error) {
	loader.Lock()
	defer loader.Unlock()
	if loader.name == name {
		return loader.getProc, nil
	}
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	var reason [512]C.char
	getProc := C.shim_load(cname, &reason[0], C.size_t(len(reason)))
	if getProc == nil {
		return nil, &LoaderError{name, C.GoString(&reason[0])}
	}
	if loader.name != "" {
		return nil, &LoaderError{name, fmt.Sprintf("this process already uses %q", loader.name)}
	}
	vulkan.SetGetInstanceProcAddr(getProc)
	if err := vulkan.Init(); err != nil {
		return nil, &LoaderError{name, err.Error()}
	}
	loader.name, loader.getProc = name, getProc
	return getProc, nil
}

func (in *Instance) enumerate() error {
	// The loader's entry points for core calls serve every instance; vulkan-go only needs one to find them.
	instance := C.shim_instance_handle(in.shim)
	if err := initVulkanGo(*(*vulkan.Instance)(unsafe.Pointer(&instance))); err != nil {
		return err
	}
	var count C.uint32_t
	if s := C.shim_physical(in.shim, &count, nil); s.result != 0 {
		return failure(s, "instance")
	}
	if count == 0 {
		return nil
	}
	in.devices = make([]C.VkPhysicalDevice, count)
	s := C.shim_physical(in.shim, &count, &in.devices[0])
	in.devices = in.devices[:count]
	return failure(s, "instance")
}

var vulkanGo struct {
	sync.Once
	err error
}

func initVulkanGo(in vulkan.Instance) error {
	vulkanGo.Do(func() { vulkanGo.err = vulkan.InitInstance(in) })
	return vulkanGo.err
}

// Messages returns the validation messages since the last call, nil if there were none or validation is off.
// They are collected up to 1 MiB; what comes beyond is dropped.
func (in *Instance) Messages() []string {
	in.drain.Lock()
	defer in.drain.Unlock()
	size := C.shim_messages(in.shim, nil, 0)
	if size == 0 {
		return nil
	}
	text := make([]byte, size)
	C.shim_messages(in.shim, (*C.char)(unsafe.Pointer(&text[0])), size)
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// Close frees the instance; its devices must be closed.
func (in *Instance) Close() {
	C.shim_instance_destroy(in.shim)
	in.shim = nil
}

// failure turns a status of the shim into an error, nil for success.
func failure(s C.shim_status, object string) error {
	if s.result == 0 {
		return nil
	}
	return &Error{Call: C.GoString(s.call), Object: object, Code: int32(s.result)}
}
