package vk

// #include "shim.h"
import "C"

import (
	"fmt"
	"strings"
	"unsafe"

	vulkan "github.com/vulkan-go/vulkan"
)

// DeviceInfo describes a physical device, usable or not.
type DeviceInfo struct {
	Index         int      `json:"index"` // the loader's order
	Name          string   `json:"name"`
	UUID          string   `json:"uuid"`
	Kind          string   `json:"kind"`   // discrete, integrated, virtual, cpu or other
	Driver        string   `json:"driver"` // the driver's name and its own version text
	DriverVersion uint32   `json:"driver_version"`
	APIVersion    uint32   `json:"api_version"` // major << 22 | minor << 12 | patch
	VendorID      uint32   `json:"vendor_id"`
	DeviceID      uint32   `json:"device_id"`
	Rejected      string   `json:"rejected"` // why it cannot be used; empty when it can
	Limits        Limits   `json:"limits"`
	Features      Features `json:"features"`
	Heaps         []Heap   `json:"heaps"`
}

// Limits of a device that shapes and bindings must respect.
type Limits struct {
	SubgroupSize      uint32    `json:"subgroup_size"`       // invocations
	MaxInvocations    uint32    `json:"max_invocations"`     // per workgroup
	MaxGroupSize      [3]uint32 `json:"max_group_size"`      // invocations along x, y, z
	MaxGroups         [3]uint32 `json:"max_groups"`          // workgroups of one dispatch along x, y, z
	MaxSharedBytes    uint32    `json:"max_shared_bytes"`    // per workgroup
	MaxPushBytes      uint32    `json:"max_push_bytes"`      // per pipeline
	MaxStorageBuffers uint32    `json:"max_storage_buffers"` // in one pipeline
	MaxTexelBuffers   uint32    `json:"max_texel_buffers"`   // in one pipeline
	MaxTexelElements  uint32    `json:"max_texel_elements"`  // in one binding
	MaxStorageRange   int64     `json:"max_storage_range"`   // bytes in one binding
	MaxAllocation     int64     `json:"max_allocation"`      // bytes of one buffer
	StorageAlign      int64     `json:"storage_align"`       // bytes, of a storage binding's offset
	TexelAlign        int64     `json:"texel_align"`         // bytes, of a texel binding's offset
	Matrix            [3]uint32 `json:"matrix"`              // cooperative matrices of f16 with sums of f32: M x K by K x N, as M, N, K; 0 = none
	TimestampPeriod   float64   `json:"timestamp_period"`    // ns per tick, 0 = no timestamps
}

// Features are optional; Open turns on all that are true.
type Features struct {
	SubgroupArithmetic  bool `json:"subgroup_arithmetic"`
	SubgroupShuffle     bool `json:"subgroup_shuffle"`
	SubgroupSizeControl bool `json:"subgroup_size_control"`
	Storage16           bool `json:"storage16"`   // 16-bit types in storage buffers
	Storage8            bool `json:"storage8"`    // 8-bit types in storage buffers
	Float16             bool `json:"float16"`     // arithmetic
	Int8                bool `json:"int8"`        // arithmetic
	Int16               bool `json:"int16"`       // arithmetic
	Int64               bool `json:"int64"`       // arithmetic
	IntegerDot          bool `json:"integer_dot"` // accelerated dot product of packed signed bytes
	MemoryBudget        bool `json:"memory_budget"`
}

// Heap is a pool of memory.
type Heap struct {
	Size        int64 `json:"size"`   // bytes
	Budget      int64 `json:"budget"` // bytes that this process may use by now, -1 = the driver does not say
	DeviceLocal bool  `json:"device_local"`
}

// What every device must have; drivers promise more in all but the oldest hardware.
const (
	minSharedBytes    = 16 << 10
	minInvocations    = 128
	minPushBytes      = 128
	minStorageBuffers = 9
)

func (in *Instance) describe(index int) C.shim_info {
	var c C.shim_info
	C.shim_describe(in.shim, in.devices[index], &c)
	return c
}

func (in *Instance) info(index int) DeviceInfo {
	c := in.describe(index)
	p := &c.properties
	info := DeviceInfo{
		Index:         index,
		Name:          C.GoString(&p.deviceName[0]),
		UUID:          uuid(c.uuid),
		Kind:          kind(vulkan.PhysicalDeviceType(p.deviceType)),
		Driver:        strings.TrimSpace(C.GoString(&c.driver_name[0]) + " " + C.GoString(&c.driver_info[0])),
		DriverVersion: uint32(p.driverVersion),
		APIVersion:    uint32(p.apiVersion),
		VendorID:      uint32(p.vendorID),
		DeviceID:      uint32(p.deviceID),
		Limits:        limits(&c),
		Features:      features(&c),
		Heaps:         heaps(&c),
	}
	info.Rejected = reject(info, uint32(c.queue_family) != ^uint32(0))
	return info
}

func limits(c *C.shim_info) Limits {
	l := &c.properties.limits
	out := Limits{
		SubgroupSize:      uint32(c.subgroup_size),
		MaxInvocations:    uint32(l.maxComputeWorkGroupInvocations),
		MaxSharedBytes:    uint32(l.maxComputeSharedMemorySize),
		MaxPushBytes:      uint32(l.maxPushConstantsSize),
		MaxStorageBuffers: uint32(min(l.maxPerStageDescriptorStorageBuffers, l.maxDescriptorSetStorageBuffers, l.maxPerStageResources)),
		// A uniform texel buffer counts as a sampled image.
		MaxTexelBuffers:  uint32(min(l.maxPerStageDescriptorSampledImages, l.maxDescriptorSetSampledImages, l.maxPerStageResources)),
		MaxTexelElements: uint32(l.maxTexelBufferElements),
		MaxStorageRange:  int64(l.maxStorageBufferRange),
		MaxAllocation:    int64(min(uint64(c.max_allocation), 1<<62)),
		StorageAlign:     int64(l.minStorageBufferOffsetAlignment),
		TexelAlign:       int64(l.minTexelBufferOffsetAlignment),
	}
	for i := range 3 {
		out.Matrix[i] = uint32(c.matrix[i])
		out.MaxGroupSize[i] = uint32(l.maxComputeWorkGroupSize[i])
		out.MaxGroups[i] = uint32(l.maxComputeWorkGroupCount[i])
	}
	if c.timestamp_bits > 0 {
		out.TimestampPeriod = float64(l.timestampPeriod)
	}
	return out
}

func features(c *C.shim_info) Features {
	can := func(bits vulkan.SubgroupFeatureFlagBits) bool { return uint32(c.subgroup_operations)&uint32(bits) != 0 }
	return Features{
		SubgroupArithmetic:  can(vulkan.SubgroupFeatureArithmeticBit),
		SubgroupShuffle:     can(vulkan.SubgroupFeatureShuffleBit),
		SubgroupSizeControl: c.subgroup_size_control != 0,
		Storage16:           c.storage16 != 0,
		Storage8:            c.storage8 != 0,
		Float16:             c.float16 != 0,
		Int8:                c.int8 != 0,
		Int16:               c.int16 != 0,
		Int64:               c.int64 != 0,
		IntegerDot:          c.integer_dot != 0,
		MemoryBudget:        c.memory_budget != 0,
	}
}

func heaps(c *C.shim_info) []Heap {
	out := make([]Heap, c.memory.memoryHeapCount)
	for i := range out {
		h := &c.memory.memoryHeaps[i]
		out[i] = Heap{Size: int64(h.size), Budget: -1, DeviceLocal: uint32(h.flags)&uint32(vulkan.MemoryHeapDeviceLocalBit) != 0}
		if c.memory_budget != 0 {
			out[i].Budget = int64(c.budget[i])
		}
	}
	return out
}

// reject says why a device cannot be used, in the order in which a user would fix it.
func reject(d DeviceInfo, computes bool) string {
	l := d.Limits
	switch {
	case d.APIVersion < vulkan.MakeVersion(1, 1, 0):
		return fmt.Sprintf("Vulkan %s, want 1.1: update the driver", vulkan.Version(d.APIVersion))
	case !computes:
		return "no compute queue"
	case l.MaxSharedBytes < minSharedBytes:
		return fmt.Sprintf("%d bytes of shared memory, want %d", l.MaxSharedBytes, minSharedBytes)
	case l.MaxInvocations < minInvocations:
		return fmt.Sprintf("%d invocations per workgroup, want %d", l.MaxInvocations, minInvocations)
	case l.MaxPushBytes < minPushBytes:
		return fmt.Sprintf("%d bytes of push constants, want %d", l.MaxPushBytes, minPushBytes)
	case l.MaxStorageBuffers < minStorageBuffers:
		return fmt.Sprintf("%d storage buffers, want %d", l.MaxStorageBuffers, minStorageBuffers)
	}
	return ""
}

func kind(t vulkan.PhysicalDeviceType) string {
	switch t {
	case vulkan.PhysicalDeviceTypeDiscreteGpu:
		return "discrete"
	case vulkan.PhysicalDeviceTypeIntegratedGpu:
		return "integrated"
	case vulkan.PhysicalDeviceTypeVirtualGpu:
		return "virtual"
	case vulkan.PhysicalDeviceTypeCpu:
		return "cpu"
	}
	return "other"
}

func uuid(raw [16]C.uint8_t) string {
	b := *(*[16]byte)(unsafe.Pointer(&raw))
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
