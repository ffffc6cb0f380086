// The Vulkan calls that vulkan-go makes unsafely (it frees slices of structs too early) and those newer than it (1.1 and later).
// Nothing is linked: the loader is opened at run time. Handles that are not dispatchable cross to Go as uint64_t.
// Memory passed in is read or written during the call only.
#ifndef VK_SHIM_H
#define VK_SHIM_H

#define VK_NO_PROTOTYPES 1
#include <stdint.h>
#include <stdlib.h>
#include <vulkan/vulkan.h>

// A result and the Vulkan call that gave it.
typedef struct {
	VkResult result;
	const char *call;
} shim_status;

// ---- instance.c

typedef struct shim_instance shim_instance;

// shim_load opens the loader library and returns its vkGetInstanceProcAddr, or NULL and dlerror's text.
void *shim_load(const char *library, char *error, size_t size);

// shim_instance_create makes an instance; with validation the Khronos layer, synchronization validation and a messenger.
// A missing layer gives VK_ERROR_LAYER_NOT_PRESENT, a loader older than 1.1 VK_ERROR_INCOMPATIBLE_DRIVER from "vkEnumerateInstanceVersion".
shim_status shim_instance_create(void *get_proc, int validation, shim_instance **out);
void shim_instance_destroy(shim_instance *in);
VkInstance shim_instance_handle(shim_instance *in);

// shim_messages moves validation messages, each ended by a zero byte, into text and returns their bytes.
// Called with size 0 it only returns the bytes that wait.
size_t shim_messages(shim_instance *in, char *text, size_t size);

// shim_physical writes the handles of at most *count physical devices; with devices NULL it only counts.
shim_status shim_physical(shim_instance *in, uint32_t *count, VkPhysicalDevice *devices);

// What Go wants to know of a physical device. Below Vulkan 1.1 only properties is filled.
typedef struct {
	VkPhysicalDeviceProperties properties;
	VkPhysicalDeviceMemoryProperties memory;
	uint8_t uuid[VK_UUID_SIZE];
	char driver_name[VK_MAX_DRIVER_NAME_SIZE], driver_info[VK_MAX_DRIVER_INFO_SIZE];
	uint64_t max_allocation;                // bytes
	uint64_t budget[VK_MAX_MEMORY_HEAPS];   // bytes this process may use, and
	uint64_t usage[VK_MAX_MEMORY_HEAPS];    // those it uses; both valid if memory_budget
	uint32_t subgroup_size, subgroup_operations; // operations in compute, else 0
	uint32_t matrix[3];                     // M, N, K of cooperative matrices of f16 with sums of f32; 0 = none
	uint32_t queue_family, timestamp_bits;  // queue_family is UINT32_MAX when none computes
	uint32_t storage16, storage8, float16, int8, int16, int64, integer_dot, subgroup_size_control, memory_budget;
} shim_info;

void shim_describe(shim_instance *in, VkPhysicalDevice physical, shim_info *out);

// ---- device.c

typedef struct shim_device shim_device;

// shim_open makes a device with one queue of info's family and every optional feature in info that it has.
shim_status shim_open(shim_instance *in, VkPhysicalDevice physical, const shim_info *info, shim_device **out);
void shim_close(shim_device *d);
VkDevice shim_device_handle(shim_device *d);

// shim_name gives a handle a name for validation messages; without validation it does nothing.
void shim_name(shim_device *d, VkObjectType type, uint64_t handle, const char *name);

typedef struct {
	uint64_t set_layout, layout, pipeline;
} shim_pipeline;

// shim_pipeline_create compiles SPIR-V. flags are VkPipelineCreateFlags. types holds the descriptor type of bindings 0 to bindings-1 of set 0.
shim_status shim_pipeline_create(shim_device *d, const void *code, size_t bytes, uint32_t flags, const uint32_t *types, uint32_t bindings,
	uint32_t push_bytes, const uint32_t *constants, uint32_t constant_count, uint64_t cache, shim_pipeline *out);
void shim_pipeline_destroy(shim_device *d, shim_pipeline p);

// ---- commands.c

enum { SHIM_DISPATCH, SHIM_BARRIER, SHIM_FILL, SHIM_COPY, SHIM_TIMESTAMP };

typedef struct {
	uint32_t kind;
	uint32_t x, y, z, first[3]; // dispatch: groups, and the first one
	shim_pipeline pipeline;     // dispatch
	uint32_t binding_count;     // dispatch: how many of the bindings are its own, in order
	uint32_t push_bytes;        // dispatch: how many of the push bytes are its own, in order
	uint32_t value, query;      // fill; timestamp
	uint64_t dst, dst_offset, src, src_offset, size; // fill, copy: buffers and bytes
} shim_op;

typedef struct {
	uint32_t type;              // VkDescriptorType
	uint64_t buffer, offset, size; // storage buffer: handle and bytes
	uint64_t view;              // texel buffer: handle
} shim_binding;

typedef struct {
	uint64_t command_pool, descriptor_pool, query_pool;
	VkCommandBuffer buffer;
} shim_commands;

// shim_record records ops once, for replay. queries is the number of timestamps.
shim_status shim_record(shim_device *d, const shim_op *ops, uint32_t op_count, const shim_binding *bindings, uint32_t binding_count,
	const void *push, uint32_t queries, shim_commands *out);
void shim_commands_free(shim_device *d, shim_commands c);

// shim_times reads timestamps, in ticks of the device; VK_NOT_READY when one is not written yet.
shim_status shim_times(shim_device *d, uint64_t query_pool, uint32_t queries, uint64_t *ticks);

shim_status shim_submit(shim_device *d, const VkCommandBuffer *buffers, uint32_t count, uint64_t fence);

// shim_wait waits for the fence and resets it; VK_TIMEOUT leaves it as it is.
shim_status shim_wait(shim_device *d, uint64_t fence, uint64_t nanoseconds);

#endif
