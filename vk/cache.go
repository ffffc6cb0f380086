package vk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"unsafe"

	vulkan "github.com/vulkan-go/vulkan"

	"vkdecode/kept"
)

// pipelineCache keeps compiled pipelines on disk, by device and driver version.
type pipelineCache struct {
	sync.RWMutex // read: a pipeline is being compiled with it
	handle       uint64
	path         string // empty: not used
}

// UsePipelineCache reads dir/<uuid>-<driverversion>.bin and compiles with it from now on. A missing, foreign or damaged file
// counts as empty. An error means only that SavePipelineCache will fail; the device works without.
func (d *Device) UsePipelineCache(dir string) error {
	c := &d.cache
	c.Lock()
	defer c.Unlock()
	path := filepath.Join(dir, fmt.Sprintf("%s-%d.bin", d.Info.UUID, d.Info.DriverVersion))
	data, err := os.ReadFile(path)
	if err == nil {
		data = d.cacheBody(data)
	}
	if err := c.create(d, data); err != nil {
		return err
	}
	c.path = path
	if err := kept.Writable(dir); err != nil {
		return fmt.Errorf("vk: pipeline cache: %w", err)
	}
	return nil
}

// SavePipelineCache writes what was compiled since UsePipelineCache; without that it does nothing.
func (d *Device) SavePipelineCache() error {
	c := &d.cache
	c.Lock()
	defer c.Unlock()
	if c.path == "" {
		return nil
	}
	data, err := c.data(d)
	if err != nil {
		return err
	}
	if err := kept.Replace(c.path, kept.Seal(data)); err != nil {
		return fmt.Errorf("vk: pipeline cache: %w", err)
	}
	return nil
}

// cacheBody opens a sealed file: it returns the driver's data, or nil when they are damaged or foreign.
// The driver's header must name this device: not all drivers check that themselves.
func (d *Device) cacheBody(file []byte) []byte {
	data := kept.Unseal(file)
	if len(data) <= 32 { // a header alone holds no pipeline, and SwiftShader would add another at each save
		return nil
	}
	header := binary.LittleEndian // size, version 1, vendor, device, 16 bytes of the driver's own
	own := unsafe.Slice((*byte)(unsafe.Pointer(&d.raw.properties.pipelineCacheUUID[0])), 16)
	if header.Uint32(data) < 32 || header.Uint32(data[4:]) != 1 || header.Uint32(data[8:]) != d.Info.VendorID ||
		header.Uint32(data[12:]) != d.Info.DeviceID || !bytes.Equal(data[16:32], own) {
		return nil
	}
	return data
}

func (c *pipelineCache) create(d *Device, data []byte) error {
	initial := vulkan.PipelineCacheCreateInfo{SType: vulkan.StructureTypePipelineCacheCreateInfo}
	defer initial.Free()
	if len(data) > 0 {
		var pin runtime.Pinner // vulkan-go stores the pointer in C memory
		pin.Pin(&data[0])
		defer pin.Unpin()
		initial.InitialDataSize, initial.PInitialData = uint(len(data)), unsafe.Pointer(&data[0])
	}
	var handle vulkan.PipelineCache
	if err := check(vulkan.CreatePipelineCache(d.handle, &initial, nil, &handle), "vkCreatePipelineCache", d.Info.Name); err != nil {
		return err
	}
	c.close(d)
	c.handle = bits(handle)
	return nil
}

func (c *pipelineCache) data(d *Device) ([]byte, error) {
	var size uint
	handle := as[vulkan.PipelineCache](c.handle)
	if err := check(vulkan.GetPipelineCacheData(d.handle, handle, &size, nil), "vkGetPipelineCacheData", d.Info.Name); err != nil {
		return nil, err
	}
	data := make([]byte, size)
	err := check(vulkan.GetPipelineCacheData(d.handle, handle, &size, unsafe.Pointer(unsafe.SliceData(data))), "vkGetPipelineCacheData", d.Info.Name)
	return data[:size], err
}

func (c *pipelineCache) close(d *Device) {
	vulkan.DestroyPipelineCache(d.handle, as[vulkan.PipelineCache](c.handle), nil)
}
