package vk

import (
	"errors"
	"fmt"

	vulkan "github.com/vulkan-go/vulkan"
)

// ErrTimeout: the work is still running; waiting again is allowed.
var ErrTimeout = errors.New("timeout")

// ErrDeviceLost: the driver reset the device; only closing it and opening it anew helps.
var ErrDeviceLost = errors.New("device lost")

// ErrNotReady: a result was asked for before the work that gives it.
var ErrNotReady = errors.New("not ready")

// Error is a Vulkan call that failed.
type Error struct {
	Call   string // "vkQueueSubmit"
	Object string // name of the buffer, pipeline or recording
	Code   int32  // VkResult
}

func (e *Error) Error() string {
	r, ok := results[vulkan.Result(e.Code)]
	if !ok {
		r.text = fmt.Sprintf("VkResult %d", e.Code)
	}
	s := fmt.Sprintf("vk: %s %q: %s", e.Call, e.Object, r.text)
	if r.advice != "" {
		s += "; " + r.advice
	}
	return s
}

// Unwrap makes errors.Is(err, ErrDeviceLost) and the like true.
func (e *Error) Unwrap() error { return results[vulkan.Result(e.Code)].is }

var results = map[vulkan.Result]struct {
	text, advice string
	is           error
}{
	vulkan.Timeout:                   {"timeout", "", ErrTimeout},
	vulkan.NotReady:                  {"not ready", "submit the recording and wait for it first", ErrNotReady},
	vulkan.ErrorDeviceLost:           {"device lost", "a submit ran too long or the driver failed; see the system log", ErrDeviceLost},
	vulkan.ErrorOutOfHostMemory:      {"out of host memory", "", nil},
	vulkan.ErrorOutOfDeviceMemory:    {"out of device memory", "use a smaller budget or close other programs", nil},
	vulkan.ErrorInitializationFailed: {"initialization failed", "the driver does not start; check its installation", nil},
	vulkan.ErrorMemoryMapFailed:      {"memory map failed", "", nil},
	vulkan.ErrorLayerNotPresent:      {"layer not present", "", nil},
	vulkan.ErrorExtensionNotPresent:  {"extension not present", "", nil},
	vulkan.ErrorFeatureNotPresent:    {"feature not present", "", nil},
	vulkan.ErrorIncompatibleDriver:   {"incompatible driver", "", nil},
	vulkan.ErrorTooManyObjects:       {"too many objects", "", nil},
	vulkan.ErrorInvalidShaderNv:      {"invalid shader", "", nil},
}

// check turns a result of vulkan-go into an error.
func check(result vulkan.Result, call, object string) error {
	if result == vulkan.Success {
		return nil
	}
	return &Error{Call: call, Object: object, Code: int32(result)}
}

// LoaderError: there is no Vulkan loader, or none that we can use.
type LoaderError struct {
	Loader string // library asked for
	Reason string
}

func (e *LoaderError) Error() string {
	return fmt.Sprintf("vk: loader %q: %s; install a Vulkan driver (on Debian libvulkan1 and, to run on the CPU, mesa-vulkan-drivers)",
		e.Loader, e.Reason)
}

// OutOfMemoryError: the device has no room for a buffer.
type OutOfMemoryError struct {
	Buffer string
	Wants  int64 // bytes
	Free   int64 // bytes that this process could still get, or the largest single allocation if that is less
}

func (e *OutOfMemoryError) Error() string {
	return fmt.Sprintf("vk: vkAllocateMemory %q: out of device memory (wants %s, %s free); try a smaller --budget, --kv-type q8_0 or a smaller model",
		e.Buffer, gib(e.Wants), gib(e.Free))
}

// gib writes bytes for people.
func gib(bytes int64) string {
	switch {
	case bytes >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	case bytes >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", bytes)
}
