// Reductions over the workgroup, which is exactly one subgroup: no barriers, which CPU drivers make dear.
// Every invocation must call them; every invocation gets the result.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
layout(local_size_x_id = 0) in; // before gl_WorkGroupSize is named, which otherwise is the constant 1

float reduce_add(float v) { return subgroupAdd(v); }
float reduce_max(float v) { return subgroupMax(v); }
uint reduce_add(uint v) { return subgroupAdd(v); }
uint reduce_min(uint v) { return subgroupMin(v); }
uint scan_add(uint v) { return subgroupExclusiveAdd(v); } // sum over the invocations before this one

// Sum over runs of `width` consecutive invocations (a power of two).
float reduce_run(float v, uint width) {
    for (uint o = width / 2; o > 0; o >>= 1) v += subgroupShuffleXor(v, o);
    return v;
}

// Sum over the invocations whose index is equal modulo `stride` (a power of two).
float reduce_stride(float v, uint stride) {
    for (uint o = stride; o < gl_WorkGroupSize.x; o <<= 1) v += subgroupShuffleXor(v, o);
    return v;
}

// v of one lane, the same one for all callers; cheap where it is a constant.
vec4 from_lane(vec4 v, uint lane) {
    return vec4(subgroupShuffle(v.x, lane), subgroupShuffle(v.y, lane), subgroupShuffle(v.z, lane), subgroupShuffle(v.w, lane));
}

// Orders this workgroup's reads of memory before its later writes: nothing to do within one subgroup.
void reads_before_writes() {}

// Orders this workgroup's writes to memory before its later reads: its invocations run together.
void writes_before_reads() { subgroupMemoryBarrierBuffer(); }
