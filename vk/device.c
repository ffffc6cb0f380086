// The device with its one queue, and pipelines.
#include "shim_internal.h"

static shim_status open_device(shim_instance *in, VkPhysicalDevice physical, const shim_info *info, shim_device *d) {
	uint32_t version = info->properties.apiVersion;
	uint32_t extensions = shim_extensions(in, physical, version);
	const char *names[32];
	shim_features features;
	shim_query_features(in, physical, extensions, &features);
	float priority = 1;
	VkDeviceQueueCreateInfo queue = {
		.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
		.queueFamilyIndex = info->queue_family,
		.queueCount = 1,
		.pQueuePriorities = &priority,
	};
	VkDeviceCreateInfo create = {
		.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
		.pNext = &features.core,
		.queueCreateInfoCount = 1,
		.pQueueCreateInfos = &queue,
		.enabledExtensionCount = shim_extension_names(extensions, version, names),
		.ppEnabledExtensionNames = names,
	};
	TRY("vkCreateDevice", in->CreateDevice(physical, &create, NULL, &d->handle));
#define LOAD(name) d->name = (PFN_vk##name)in->GetDeviceProcAddr(d->handle, "vk" #name);
	DEVICE_CALLS(LOAD)
#undef LOAD
	if (!in->messenger) d->SetDebugUtilsObjectNameEXT = NULL;
	d->family = info->queue_family;
	d->GetDeviceQueue(d->handle, d->family, 0, &d->queue);
	return SUCCESS;
}

shim_status shim_open(shim_instance *in, VkPhysicalDevice physical, const shim_info *info, shim_device **out) {
	shim_device *d = calloc(1, sizeof *d);
	if (!d) return (shim_status){VK_ERROR_OUT_OF_HOST_MEMORY, "vkCreateDevice"};
	shim_status status = open_device(in, physical, info, d);
	if (status.result == VK_SUCCESS) *out = d;
	else free(d);
	return status;
}

void shim_close(shim_device *d) {
	d->DestroyDevice(d->handle, NULL);
	free(d);
}

VkDevice shim_device_handle(shim_device *d) { return d->handle; }

void shim_name(shim_device *d, VkObjectType type, uint64_t handle, const char *name) {
	if (!d->SetDebugUtilsObjectNameEXT) return;
	VkDebugUtilsObjectNameInfoEXT info = {
		.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
		.objectType = type,
		.objectHandle = handle,
		.pObjectName = name,
	};
	d->SetDebugUtilsObjectNameEXT(d->handle, &info);
}

static shim_status create_layouts(shim_device *d, const uint32_t *types, uint32_t bindings, uint32_t push_bytes, shim_pipeline *out) {
	VkDescriptorSetLayoutBinding *list = calloc(bindings + 1, sizeof *list);
	if (!list) return (shim_status){VK_ERROR_OUT_OF_HOST_MEMORY, "vkCreateDescriptorSetLayout"};
	for (uint32_t i = 0; i < bindings; i++) {
		list[i] = (VkDescriptorSetLayoutBinding){
			.binding = i, .descriptorType = types[i], .descriptorCount = 1, .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
	}
	VkDescriptorSetLayoutCreateInfo set = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = bindings, .pBindings = list};
	VkDescriptorSetLayout set_layout = VK_NULL_HANDLE;
	VkResult result = d->CreateDescriptorSetLayout(d->handle, &set, NULL, &set_layout);
	free(list);
	TRY("vkCreateDescriptorSetLayout", result);
	out->set_layout = (uint64_t)set_layout;

	VkPushConstantRange push = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = push_bytes};
	VkPipelineLayoutCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
		.setLayoutCount = 1,
		.pSetLayouts = &set_layout,
		.pushConstantRangeCount = push_bytes > 0 ? 1 : 0,
		.pPushConstantRanges = &push,
	};
	VkPipelineLayout layout = VK_NULL_HANDLE;
	TRY("vkCreatePipelineLayout", d->CreatePipelineLayout(d->handle, &info, NULL, &layout));
	out->layout = (uint64_t)layout;
	return SUCCESS;
}

static shim_status create_module(shim_device *d, const void *code, size_t bytes, VkShaderModule *out) {
	uint32_t *words = malloc(bytes); // embedded files have no alignment
	if (!words) return (shim_status){VK_ERROR_OUT_OF_HOST_MEMORY, "vkCreateShaderModule"};
	memcpy(words, code, bytes);
	VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = bytes, .pCode = words};
	VkResult result = d->CreateShaderModule(d->handle, &info, NULL, out);
	free(words);
	TRY("vkCreateShaderModule", result);
	return SUCCESS;
}

static shim_status create_pipeline(shim_device *d, VkShaderModule module, uint32_t flags, const uint32_t *constants, uint32_t count, uint64_t cache,
	shim_pipeline *out) {
	VkSpecializationMapEntry *map = calloc(count + 1, sizeof *map);
	if (!map) return (shim_status){VK_ERROR_OUT_OF_HOST_MEMORY, "vkCreateComputePipelines"};
	for (uint32_t i = 0; i < count; i++) map[i] = (VkSpecializationMapEntry){.constantID = i, .offset = 4 * i, .size = 4};
	VkSpecializationInfo specialization = {.mapEntryCount = count, .pMapEntries = map, .dataSize = 4 * count, .pData = constants};
	VkComputePipelineCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
		.flags = flags,
		.stage = {
			.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
			.stage = VK_SHADER_STAGE_COMPUTE_BIT,
			.module = module,
			.pName = "main",
			.pSpecializationInfo = count > 0 ? &specialization : NULL,
		},
		.layout = (VkPipelineLayout)out->layout,
	};
	VkPipeline pipeline = VK_NULL_HANDLE;
	VkResult result = d->CreateComputePipelines(d->handle, (VkPipelineCache)cache, 1, &info, NULL, &pipeline);
	free(map);
	TRY("vkCreateComputePipelines", result);
	out->pipeline = (uint64_t)pipeline;
	return SUCCESS;
}

shim_status shim_pipeline_create(shim_device *d, const void *code, size_t bytes, uint32_t flags, const uint32_t *types, uint32_t bindings,
	uint32_t push_bytes, const uint32_t *constants, uint32_t constant_count, uint64_t cache, shim_pipeline *out) {
	memset(out, 0, sizeof *out);
	VkShaderModule module = VK_NULL_HANDLE;
	shim_status status = create_module(d, code, bytes, &module);
	if (status.result == VK_SUCCESS) status = create_layouts(d, types, bindings, push_bytes, out);
	if (status.result == VK_SUCCESS) status = create_pipeline(d, module, flags, constants, constant_count, cache, out);
	d->DestroyShaderModule(d->handle, module, NULL);
	if (status.result != VK_SUCCESS) shim_pipeline_destroy(d, *out);
	return status;
}

void shim_pipeline_destroy(shim_device *d, shim_pipeline p) {
	d->DestroyPipeline(d->handle, (VkPipeline)p.pipeline, NULL);
	d->DestroyPipelineLayout(d->handle, (VkPipelineLayout)p.layout, NULL);
	d->DestroyDescriptorSetLayout(d->handle, (VkDescriptorSetLayout)p.set_layout, NULL);
}
