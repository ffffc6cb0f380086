// Recording a list of operations in one call, and running it.
#include "shim_internal.h"

// What recording needs for a moment.
typedef struct {
	VkDescriptorSetLayout *layouts;  // one per dispatch with bindings
	VkDescriptorSet *sets;           // likewise
	VkWriteDescriptorSet *writes;    // one per binding
	VkDescriptorBufferInfo *buffers; // likewise
	VkBufferView *views;             // likewise
	uint32_t set_count;
} scratch;

static shim_status create_sets(shim_device *d, const shim_op *ops, uint32_t op_count, const shim_binding *bindings, uint32_t binding_count,
	scratch *s, shim_commands *out) {
	for (uint32_t i = 0; i < op_count; i++) {
		if (ops[i].binding_count > 0) s->layouts[s->set_count++] = (VkDescriptorSetLayout)ops[i].pipeline.set_layout;
	}
	if (s->set_count == 0) return SUCCESS;

	VkDescriptorPoolSize sizes[2] = {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 0}, {VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, 0}};
	for (uint32_t i = 0; i < binding_count; i++) sizes[bindings[i].type == sizes[1].type].descriptorCount++;
	int first = sizes[0].descriptorCount == 0, last = sizes[1].descriptorCount > 0; // sizes of 0 are not allowed
	VkDescriptorPoolCreateInfo pool_info = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
		.maxSets = s->set_count,
		.poolSizeCount = last - first + 1,
		.pPoolSizes = sizes + first,
	};
	VkDescriptorPool pool = VK_NULL_HANDLE;
	TRY("vkCreateDescriptorPool", d->CreateDescriptorPool(d->handle, &pool_info, NULL, &pool));
	out->descriptor_pool = (uint64_t)pool;
	VkDescriptorSetAllocateInfo allocate = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
		.descriptorPool = pool,
		.descriptorSetCount = s->set_count,
		.pSetLayouts = s->layouts,
	};
	TRY("vkAllocateDescriptorSets", d->AllocateDescriptorSets(d->handle, &allocate, s->sets));

	uint32_t b = 0, set = 0;
	for (uint32_t i = 0; i < op_count; i++) {
		if (ops[i].binding_count == 0) continue;
		for (uint32_t n = 0; n < ops[i].binding_count; n++, b++) {
			s->buffers[b] = (VkDescriptorBufferInfo){(VkBuffer)bindings[b].buffer, bindings[b].offset, bindings[b].size};
			s->views[b] = (VkBufferView)bindings[b].view;
			s->writes[b] = (VkWriteDescriptorSet){
				.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
				.dstSet = s->sets[set],
				.dstBinding = n,
				.descriptorCount = 1,
				.descriptorType = bindings[b].type,
				.pBufferInfo = &s->buffers[b],
				.pTexelBufferView = &s->views[b],
			};
		}
		set++;
	}
	d->UpdateDescriptorSets(d->handle, binding_count, s->writes, 0, NULL);
	return SUCCESS;
}

static void barrier(shim_device *d, VkCommandBuffer c) {
	const VkPipelineStageFlags stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT;
	const VkAccessFlags writes = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_HOST_WRITE_BIT;
	const VkAccessFlags reads = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_HOST_READ_BIT;
	VkMemoryBarrier memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = writes, .dstAccessMask = reads | writes};
	d->CmdPipelineBarrier(c, stages, stages, 0, 1, &memory, 0, NULL, 0, NULL);
}

static void dispatch(shim_device *d, VkCommandBuffer c, const shim_op *op, const VkDescriptorSet *set, const void *push, uint64_t *bound) {
	VkPipelineLayout layout = (VkPipelineLayout)op->pipeline.layout;
	if (*bound != op->pipeline.pipeline) d->CmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, (VkPipeline)op->pipeline.pipeline);
	*bound = op->pipeline.pipeline;
	if (op->binding_count > 0) d->CmdBindDescriptorSets(c, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, set, 0, NULL);
	if (op->push_bytes > 0) d->CmdPushConstants(c, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, op->push_bytes, push);
	const uint32_t *first = op->first;
	if (first[0] || first[1] || first[2]) d->CmdDispatchBase(c, first[0], first[1], first[2], op->x, op->y, op->z);
	else d->CmdDispatch(c, op->x, op->y, op->z);
}

static shim_status record(shim_device *d, const shim_op *ops, uint32_t op_count, const VkDescriptorSet *sets, const uint8_t *push,
	uint32_t queries, shim_commands *out) {
	VkCommandPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = d->family};
	VkCommandPool pool = VK_NULL_HANDLE;
	TRY("vkCreateCommandPool", d->CreateCommandPool(d->handle, &pool_info, NULL, &pool));
	out->command_pool = (uint64_t)pool;
	VkCommandBufferAllocateInfo allocate = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
		.commandPool = pool,
		.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
		.commandBufferCount = 1,
	};
	TRY("vkAllocateCommandBuffers", d->AllocateCommandBuffers(d->handle, &allocate, &out->buffer));
	VkQueryPool query_pool = VK_NULL_HANDLE;
	if (queries > 0) {
		VkQueryPoolCreateInfo info = {
			.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = queries};
		TRY("vkCreateQueryPool", d->CreateQueryPool(d->handle, &info, NULL, &query_pool));
		out->query_pool = (uint64_t)query_pool;
	}

	VkCommandBuffer c = out->buffer;
	VkCommandBufferBeginInfo begin = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
	TRY("vkBeginCommandBuffer", d->BeginCommandBuffer(c, &begin));
	if (queries > 0) d->CmdResetQueryPool(c, query_pool, 0, queries);
	uint64_t bound = 0;
	for (const shim_op *op = ops; op < ops + op_count; op++) {
		switch (op->kind) {
		case SHIM_DISPATCH:
			dispatch(d, c, op, sets, push, &bound);
			sets += op->binding_count > 0;
			push += op->push_bytes;
			break;
		case SHIM_BARRIER:
			barrier(d, c);
			break;
		case SHIM_FILL:
			d->CmdFillBuffer(c, (VkBuffer)op->dst, op->dst_offset, op->size, op->value);
			break;
		case SHIM_COPY: {
			VkBufferCopy region = {.srcOffset = op->src_offset, .dstOffset = op->dst_offset, .size = op->size};
			d->CmdCopyBuffer(c, (VkBuffer)op->src, (VkBuffer)op->dst, 1, &region);
			break;
		}
		case SHIM_TIMESTAMP:
			d->CmdWriteTimestamp(c, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, query_pool, op->query);
			break;
		}
	}
	TRY("vkEndCommandBuffer", d->EndCommandBuffer(c));
	return SUCCESS;
}

shim_status shim_record(shim_device *d, const shim_op *ops, uint32_t op_count, const shim_binding *bindings, uint32_t binding_count,
	const void *push, uint32_t queries, shim_commands *out) {
	memset(out, 0, sizeof *out);
	scratch s = {
		.layouts = calloc(op_count + 1, sizeof *s.layouts),
		.sets = calloc(op_count + 1, sizeof *s.sets),
		.writes = calloc(binding_count + 1, sizeof *s.writes),
		.buffers = calloc(binding_count + 1, sizeof *s.buffers),
		.views = calloc(binding_count + 1, sizeof *s.views),
	};
	shim_status status = {VK_ERROR_OUT_OF_HOST_MEMORY, "vkBeginCommandBuffer"};
	if (s.layouts && s.sets && s.writes && s.buffers && s.views) {
		status = create_sets(d, ops, op_count, bindings, binding_count, &s, out);
		if (status.result == VK_SUCCESS) status = record(d, ops, op_count, s.sets, push, queries, out);
	}
	free(s.layouts);
	free(s.sets);
	free(s.writes);
	free(s.buffers);
	free(s.views);
	if (status.result != VK_SUCCESS) shim_commands_free(d, *out);
	return status;
}

void shim_commands_free(shim_device *d, shim_commands c) {
	d->DestroyCommandPool(d->handle, (VkCommandPool)c.command_pool, NULL);
	d->DestroyDescriptorPool(d->handle, (VkDescriptorPool)c.descriptor_pool, NULL);
	d->DestroyQueryPool(d->handle, (VkQueryPool)c.query_pool, NULL);
}

shim_status shim_times(shim_device *d, uint64_t query_pool, uint32_t queries, uint64_t *ticks) {
	TRY("vkGetQueryPoolResults", d->GetQueryPoolResults(d->handle, (VkQueryPool)query_pool, 0, queries, 8 * queries, ticks, 8,
		VK_QUERY_RESULT_64_BIT));
	return SUCCESS;
}

shim_status shim_submit(shim_device *d, const VkCommandBuffer *buffers, uint32_t count, uint64_t fence) {
	VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = count, .pCommandBuffers = buffers};
	TRY("vkQueueSubmit", d->QueueSubmit(d->queue, 1, &info, (VkFence)fence));
	return SUCCESS;
}

shim_status shim_wait(shim_device *d, uint64_t fence, uint64_t nanoseconds) {
	VkFence f = (VkFence)fence;
	TRY("vkWaitForFences", d->WaitForFences(d->handle, 1, &f, VK_TRUE, nanoseconds));
	TRY("vkResetFences", d->ResetFences(d->handle, 1, &f));
	return SUCCESS;
}
