// The loader, the instance and its validation messages.
#include "shim_internal.h"
#include <dlfcn.h>
#include <stdio.h>

enum { MESSAGE_BYTES = 1 << 20 }; // beyond it messages are dropped: a loop that fails repeats itself

void *shim_load(const char *library, char *error, size_t size) {
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	void *get_proc = handle ? dlsym(handle, "vkGetInstanceProcAddr") : NULL;
	if (!get_proc) {
		const char *text = dlerror();
		snprintf(error, size, "%s", text ? text : "no vkGetInstanceProcAddr");
	}
	return get_proc;
}

static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity, VkDebugUtilsMessageTypeFlagsEXT types,
	const VkDebugUtilsMessengerCallbackDataEXT *data, void *user) {
	(void)severity;
	(void)types;
	shim_instance *in = user;
	size_t bytes = strlen(data->pMessage) + 1;
	pthread_mutex_lock(&in->lock);
	if (in->size + bytes > in->capacity && in->size + bytes <= MESSAGE_BYTES) {
		size_t capacity = 2 * (in->size + bytes);
		char *text = realloc(in->text, capacity);
		if (text) {
			in->text = text;
			in->capacity = capacity;
		}
	}
	if (in->size + bytes <= in->capacity) {
		memcpy(in->text + in->size, data->pMessage, bytes);
		in->size += bytes;
	}
	pthread_mutex_unlock(&in->lock);
	return VK_FALSE;
}

size_t shim_messages(shim_instance *in, char *text, size_t size) {
	pthread_mutex_lock(&in->lock);
	size_t bytes = in->size;
	if (size > 0) {
		// Messages that came since the caller asked for the size wait for the next call.
		bytes = size < in->size ? size : in->size;
		memcpy(text, in->text, bytes);
		memmove(in->text, in->text + bytes, in->size - bytes);
		in->size -= bytes;
	}
	pthread_mutex_unlock(&in->lock);
	return bytes;
}

static int has_layer(PFN_vkEnumerateInstanceLayerProperties enumerate, const char *name) {
	uint32_t count = 0;
	if (enumerate(&count, NULL) != VK_SUCCESS || count == 0) return 0;
	VkLayerProperties *layers = calloc(count, sizeof *layers);
	int found = 0;
	if (layers && enumerate(&count, layers) >= 0) {
		for (uint32_t i = 0; i < count; i++) found |= strcmp(layers[i].layerName, name) == 0;
	}
	free(layers);
	return found;
}

static shim_status create(PFN_vkGetInstanceProcAddr get_proc, int validation, shim_instance *in) {
	PFN_vkCreateInstance create_instance = (PFN_vkCreateInstance)get_proc(NULL, "vkCreateInstance");
	PFN_vkEnumerateInstanceLayerProperties layers =
		(PFN_vkEnumerateInstanceLayerProperties)get_proc(NULL, "vkEnumerateInstanceLayerProperties");
	if (!create_instance || !layers || !get_proc(NULL, "vkEnumerateInstanceVersion")) {
		return (shim_status){VK_ERROR_INCOMPATIBLE_DRIVER, "vkEnumerateInstanceVersion"};
	}
	const char *layer = "VK_LAYER_KHRONOS_validation", *extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
	if (validation && !has_layer(layers, layer)) return (shim_status){VK_ERROR_LAYER_NOT_PRESENT, "vkCreateInstance"};

	VkValidationFeatureEnableEXT synchronization = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
	VkValidationFeaturesEXT features = {
		.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
		.enabledValidationFeatureCount = 1,
		.pEnabledValidationFeatures = &synchronization,
	};
	// Chained to the instance too, so that its creation and destruction are watched.
	VkDebugUtilsMessengerCreateInfoEXT messenger = {
		.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
		.pNext = &features,
		.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
		.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
		.pfnUserCallback = on_message,
		.pUserData = in,
	};
	VkApplicationInfo application = {
		.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
		.pApplicationName = "vkdecode",
		.apiVersion = VK_API_VERSION_1_3, // the newest we know; devices may offer less
	};
	VkInstanceCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
		.pNext = validation ? &messenger : NULL,
		.pApplicationInfo = &application,
		.enabledLayerCount = validation ? 1 : 0,
		.ppEnabledLayerNames = &layer,
		.enabledExtensionCount = validation ? 1 : 0,
		.ppEnabledExtensionNames = &extension,
	};
	TRY("vkCreateInstance", create_instance(&info, NULL, &in->handle));
#define LOAD(name) in->name = (PFN_vk##name)get_proc(in->handle, "vk" #name);
	INSTANCE_CALLS(LOAD)
#undef LOAD
	if (validation) {
		messenger.pNext = NULL;
		TRY("vkCreateDebugUtilsMessengerEXT", in->CreateDebugUtilsMessengerEXT(in->handle, &messenger, NULL, &in->messenger));
	}
	return SUCCESS;
}

shim_status shim_instance_create(void *get_proc, int validation, shim_instance **out) {
	shim_instance *in = calloc(1, sizeof *in);
	if (!in) return (shim_status){VK_ERROR_OUT_OF_HOST_MEMORY, "vkCreateInstance"};
	pthread_mutex_init(&in->lock, NULL);
	shim_status status = create((PFN_vkGetInstanceProcAddr)get_proc, validation, in);
	if (status.result != VK_SUCCESS) {
		shim_instance_destroy(in);
		return status;
	}
	*out = in;
	return SUCCESS;
}

void shim_instance_destroy(shim_instance *in) {
	if (in->messenger) in->DestroyDebugUtilsMessengerEXT(in->handle, in->messenger, NULL);
	if (in->handle) in->DestroyInstance(in->handle, NULL);
	pthread_mutex_destroy(&in->lock);
	free(in->text);
	free(in);
}

VkInstance shim_instance_handle(shim_instance *in) { return in->handle; }

shim_status shim_physical(shim_instance *in, uint32_t *count, VkPhysicalDevice *devices) {
	VkResult result = in->EnumeratePhysicalDevices(in->handle, count, devices);
	return (shim_status){result == VK_INCOMPLETE ? VK_SUCCESS : result, "vkEnumeratePhysicalDevices"};
}
