// What a physical device is and can do.
#include "shim_internal.h"

static const struct {
	uint32_t bit, core; // core: the version that includes it, 0 = none
	const char *name;
} known[] = {
	{EXT_STORAGE8, VK_API_VERSION_1_2, VK_KHR_8BIT_STORAGE_EXTENSION_NAME},
	{EXT_FLOAT16, VK_API_VERSION_1_2, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME},
	{EXT_DRIVER, VK_API_VERSION_1_2, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME},
	{EXT_DOT, VK_API_VERSION_1_3, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME},
	{EXT_SUBGROUP_SIZE, VK_API_VERSION_1_3, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME},
	{EXT_BUDGET, 0, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME},
	{EXT_COOPERATIVE, 0, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME},
	{EXT_MEMORY_MODEL, VK_API_VERSION_1_2, VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME},
};
enum { KNOWN = sizeof known / sizeof *known };

static int in_core(int i, uint32_t version) { return known[i].core != 0 && version >= known[i].core; }

uint32_t shim_extensions(shim_instance *in, VkPhysicalDevice physical, uint32_t version) {
	uint32_t found = 0, count = 0;
	for (int i = 0; i < KNOWN; i++) found |= in_core(i, version) ? known[i].bit : 0;
	if (in->EnumerateDeviceExtensionProperties(physical, NULL, &count, NULL) != VK_SUCCESS || count == 0) return found;
	VkExtensionProperties *list = calloc(count, sizeof *list);
	if (list && in->EnumerateDeviceExtensionProperties(physical, NULL, &count, list) >= 0) {
		for (uint32_t e = 0; e < count; e++) {
			for (int i = 0; i < KNOWN; i++) found |= strcmp(list[e].extensionName, known[i].name) ? 0 : known[i].bit;
		}
	}
	free(list);
	return found;
}

uint32_t shim_extension_names(uint32_t extensions, uint32_t version, const char **names) {
	uint32_t count = 0;
	for (int i = 0; i < KNOWN; i++) {
		if ((extensions & known[i].bit) && !in_core(i, version)) names[count++] = known[i].name;
	}
	return count;
}

// chain inserts a structure behind the first of a chain.
static void chain(void *head, void *structure, VkStructureType type) {
	VkBaseOutStructure *first = head, *s = structure;
	s->sType = type;
	s->pNext = first->pNext;
	first->pNext = s;
}

void shim_query_features(shim_instance *in, VkPhysicalDevice physical, uint32_t extensions, shim_features *f) {
	memset(f, 0, sizeof *f);
	f->core.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
	chain(&f->core, &f->storage16, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES);
	if (extensions & EXT_STORAGE8) chain(&f->core, &f->storage8, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES);
	if (extensions & EXT_FLOAT16) chain(&f->core, &f->float16_int8, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES);
	if (extensions & EXT_DOT) chain(&f->core, &f->integer_dot, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES);
	if (extensions & EXT_SUBGROUP_SIZE) {
		chain(&f->core, &f->subgroup_size, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES);
	}
	if (extensions & EXT_COOPERATIVE) chain(&f->core, &f->cooperative, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR);
	if (extensions & EXT_MEMORY_MODEL) chain(&f->core, &f->memory_model, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES);
	in->GetPhysicalDeviceFeatures2(physical, &f->core);
	f->cooperative.cooperativeMatrixRobustBufferAccess = VK_FALSE;
	// Of the core features only these: others, such as robust buffer access, cost speed.
	VkPhysicalDeviceFeatures wanted = {.shaderInt16 = f->core.features.shaderInt16, .shaderInt64 = f->core.features.shaderInt64};
	f->core.features = wanted;
}

// The largest matrices of f16 with sums of f32 that a subgroup multiplies, of those that divide 16 x 16, and 32 columns.
static void find_matrix(shim_instance *in, VkPhysicalDevice physical, shim_info *out) {
	VkCooperativeMatrixPropertiesKHR list[64];
	uint32_t count = 64;
	for (uint32_t i = 0; i < count; i++) list[i] = (VkCooperativeMatrixPropertiesKHR){.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR};
	if (!in->GetPhysicalDeviceCooperativeMatrixPropertiesKHR || in->GetPhysicalDeviceCooperativeMatrixPropertiesKHR(physical, &count, list) < 0) return;
	for (uint32_t i = 0; i < count; i++) {
		VkCooperativeMatrixPropertiesKHR *p = &list[i];
		int fits = p->MSize > 1 && p->NSize && p->KSize && 16 % p->MSize == 0 && 16 % p->NSize == 0 && 32 % p->KSize == 0;
		int halves = p->AType == VK_COMPONENT_TYPE_FLOAT16_KHR && p->BType == VK_COMPONENT_TYPE_FLOAT16_KHR;
		int sums = p->CType == VK_COMPONENT_TYPE_FLOAT32_KHR && p->ResultType == VK_COMPONENT_TYPE_FLOAT32_KHR;
		if (!fits || !halves || !sums || p->scope != VK_SCOPE_SUBGROUP_KHR) continue;
		if (p->MSize * p->NSize * p->KSize <= out->matrix[0] * out->matrix[1] * out->matrix[2]) continue;
		out->matrix[0] = p->MSize;
		out->matrix[1] = p->NSize;
		out->matrix[2] = p->KSize;
	}
}

static void find_queue(shim_instance *in, VkPhysicalDevice physical, shim_info *out) {
	VkQueueFamilyProperties families[32];
	uint32_t count = 32;
	in->GetPhysicalDeviceQueueFamilyProperties(physical, &count, families);
	out->queue_family = UINT32_MAX;
	for (uint32_t i = 0; i < count; i++) {
		if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT)) continue;
		// A family without graphics does not queue behind the desktop.
		int better = !(families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT) && families[i].timestampValidBits > 0;
		if (out->queue_family != UINT32_MAX && !better) continue;
		out->queue_family = i;
		out->timestamp_bits = families[i].timestampValidBits;
		if (better) break;
	}
}

void shim_describe(shim_instance *in, VkPhysicalDevice physical, shim_info *out) {
	memset(out, 0, sizeof *out);
	out->queue_family = UINT32_MAX;
	in->GetPhysicalDeviceProperties(physical, &out->properties);
	if (out->properties.apiVersion < VK_API_VERSION_1_1) return;
	uint32_t extensions = shim_extensions(in, physical, out->properties.apiVersion);

	VkPhysicalDeviceSubgroupProperties subgroup = {0};
	VkPhysicalDeviceIDProperties id = {0};
	VkPhysicalDeviceMaintenance3Properties maintenance3 = {0};
	VkPhysicalDeviceDriverProperties driver = {0};
	VkPhysicalDeviceShaderIntegerDotProductProperties dot = {0};
	VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
	chain(&properties, &subgroup, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES);
	chain(&properties, &id, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES);
	chain(&properties, &maintenance3, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
	if (extensions & EXT_DRIVER) chain(&properties, &driver, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
	if (extensions & EXT_DOT) chain(&properties, &dot, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES);
	in->GetPhysicalDeviceProperties2(physical, &properties);
	out->max_allocation = maintenance3.maxMemoryAllocationSize;
	out->subgroup_size = subgroup.subgroupSize;
	out->subgroup_operations = subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT ? subgroup.supportedOperations : 0;
	out->integer_dot = dot.integerDotProduct4x8BitPackedSignedAccelerated;
	memcpy(out->uuid, id.deviceUUID, sizeof out->uuid);
	memcpy(out->driver_name, driver.driverName, sizeof out->driver_name);
	memcpy(out->driver_info, driver.driverInfo, sizeof out->driver_info);

	shim_features f;
	shim_query_features(in, physical, extensions, &f);
	out->storage16 = f.storage16.storageBuffer16BitAccess;
	out->storage8 = f.storage8.storageBuffer8BitAccess;
	out->float16 = f.float16_int8.shaderFloat16;
	out->int8 = f.float16_int8.shaderInt8;
	out->int16 = f.core.features.shaderInt16;
	out->int64 = f.core.features.shaderInt64;
	out->integer_dot &= f.integer_dot.shaderIntegerDotProduct;
	out->subgroup_size_control = f.subgroup_size.subgroupSizeControl;
	out->memory_budget = extensions & EXT_BUDGET ? 1 : 0;
	if (f.cooperative.cooperativeMatrix && f.memory_model.vulkanMemoryModel && out->float16) find_matrix(in, physical, out);

	VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
	VkPhysicalDeviceMemoryProperties2 memory = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
		.pNext = out->memory_budget ? &budget : NULL,
	};
	in->GetPhysicalDeviceMemoryProperties2(physical, &memory);
	out->memory = memory.memoryProperties;
	memcpy(out->budget, budget.heapBudget, sizeof out->budget);
	memcpy(out->usage, budget.heapUsage, sizeof out->usage);
	find_queue(in, physical, out);
}
