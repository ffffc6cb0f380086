// What the shim's own files share. The calls are in tables, one per instance and one per device, because drivers differ.
#ifndef VK_SHIM_INTERNAL_H
#define VK_SHIM_INTERNAL_H

#include "shim.h"
#include <pthread.h>
#include <string.h>

// Newer than the headers of Debian 12. Numbers and members: the Vulkan registry.
#ifndef VK_KHR_cooperative_matrix
#define VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME "VK_KHR_cooperative_matrix"
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR ((VkStructureType)1000506000)
#define VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR ((VkStructureType)1000506001)
enum { VK_COMPONENT_TYPE_FLOAT16_KHR = 0, VK_COMPONENT_TYPE_FLOAT32_KHR = 1, VK_SCOPE_SUBGROUP_KHR = 3 };
typedef struct {
	VkStructureType sType;
	void *pNext;
	VkBool32 cooperativeMatrix, cooperativeMatrixRobustBufferAccess;
} VkPhysicalDeviceCooperativeMatrixFeaturesKHR;
typedef struct {
	VkStructureType sType;
	void *pNext;
	uint32_t MSize, NSize, KSize;
	uint32_t AType, BType, CType, ResultType; // VkComponentTypeKHR
	VkBool32 saturatingAccumulation;
	uint32_t scope; // VkScopeKHR
} VkCooperativeMatrixPropertiesKHR;
typedef VkResult(VKAPI_PTR *PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)(VkPhysicalDevice, uint32_t *, VkCooperativeMatrixPropertiesKHR *);
#endif

#define INSTANCE_CALLS(X) \
	X(CreateDevice) X(CreateDebugUtilsMessengerEXT) X(DestroyDebugUtilsMessengerEXT) X(DestroyInstance) \
	X(EnumerateDeviceExtensionProperties) X(EnumeratePhysicalDevices) X(GetDeviceProcAddr) X(GetPhysicalDeviceFeatures2) \
	X(GetPhysicalDeviceMemoryProperties2) X(GetPhysicalDeviceProperties) X(GetPhysicalDeviceProperties2) \
	X(GetPhysicalDeviceQueueFamilyProperties) X(GetPhysicalDeviceCooperativeMatrixPropertiesKHR)

#define DEVICE_CALLS(X) \
	X(AllocateCommandBuffers) X(AllocateDescriptorSets) X(BeginCommandBuffer) X(CmdBindDescriptorSets) X(CmdBindPipeline) \
	X(CmdCopyBuffer) X(CmdDispatch) X(CmdDispatchBase) X(CmdFillBuffer) X(CmdPipelineBarrier) X(CmdPushConstants) X(CmdResetQueryPool) \
	X(CmdWriteTimestamp) X(CreateCommandPool) X(CreateComputePipelines) X(CreateDescriptorPool) X(CreateDescriptorSetLayout) \
	X(CreatePipelineLayout) X(CreateQueryPool) X(CreateShaderModule) X(DestroyCommandPool) X(DestroyDescriptorPool) \
	X(DestroyDescriptorSetLayout) X(DestroyDevice) X(DestroyPipeline) X(DestroyPipelineLayout) X(DestroyQueryPool) \
	X(DestroyShaderModule) X(EndCommandBuffer) X(GetDeviceQueue) X(GetQueryPoolResults) X(QueueSubmit) X(ResetFences) \
	X(SetDebugUtilsObjectNameEXT) X(UpdateDescriptorSets) X(WaitForFences)

#define MEMBER(name) PFN_vk##name name;

struct shim_instance {
	VkInstance handle;
	VkDebugUtilsMessengerEXT messenger;
	pthread_mutex_t lock; // guards text, size and capacity
	char *text;           // validation messages, each ended by a zero byte
	size_t size, capacity;
	INSTANCE_CALLS(MEMBER)
};

struct shim_device {
	VkDevice handle;
	VkQueue queue;
	uint32_t family;
	DEVICE_CALLS(MEMBER)
};

// The optional features, chained only as far as a device knows them. See features.c.
typedef struct {
	VkPhysicalDeviceFeatures2 core;
	VkPhysicalDevice16BitStorageFeatures storage16;
	VkPhysicalDevice8BitStorageFeatures storage8;
	VkPhysicalDeviceShaderFloat16Int8Features float16_int8;
	VkPhysicalDeviceShaderIntegerDotProductFeatures integer_dot;
	VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_size;
	VkPhysicalDeviceCooperativeMatrixFeaturesKHR cooperative;
	VkPhysicalDeviceVulkanMemoryModelFeatures memory_model;
} shim_features;

// Extensions we use, as bits. A device whose version has one in its core counts as having it.
enum { EXT_STORAGE8 = 1, EXT_FLOAT16 = 2, EXT_DRIVER = 4, EXT_DOT = 8, EXT_SUBGROUP_SIZE = 16, EXT_BUDGET = 32, EXT_COOPERATIVE = 64, EXT_MEMORY_MODEL = 128 };

uint32_t shim_extensions(shim_instance *in, VkPhysicalDevice physical, uint32_t version);
// shim_extension_names writes the names of those extensions that must be enabled by name, and returns how many.
uint32_t shim_extension_names(uint32_t extensions, uint32_t version, const char **names);
void shim_query_features(shim_instance *in, VkPhysicalDevice physical, uint32_t extensions, shim_features *out);

#define TRY(call, ...) \
	do { \
		VkResult result_ = __VA_ARGS__; \
		if (result_ != VK_SUCCESS) return (shim_status){result_, call}; \
	} while (0)
#define SUCCESS ((shim_status){VK_SUCCESS, ""})

#endif
