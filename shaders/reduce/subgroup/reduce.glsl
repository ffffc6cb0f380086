// Reductions over the workgroup, which is exactly one subgroup: no barriers, which CPU drivers make dear.
// Every invocation must call them; every invocation gets the result.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x_id = 0) in; // before gl_WorkGroupSize is named, which otherwise is the constant 1

uint reduce_add(uint v) { return subgroupAdd(v); }
uint reduce_min(uint v) { return subgroupMin(v); }
uint scan_add(uint v) { return subgroupExclusiveAdd(v); } // sum over the invocations before this one

// Distances of 1, 2, 4 .. 64 invocations are bits counted up from 0: lavapipe does not unroll a loop that doubles, nor one
// around it, and only constant distances are cheap. It goes through the lanes one by one where it is asked for a whole sum.
const uint BITS = 7;

// Sum over runs of `width` consecutive invocations (a power of two).
float reduce_run(float v, uint width) {
    [[unroll]] for (uint b = 0; b < BITS; b++)
        if (1u << b < width) v += subgroupShuffleXor(v, 1u << b);
    return v;
}

// Sum over the invocations whose index is equal modulo `stride` (a power of two).
float reduce_stride(float v, uint stride) {
    [[unroll]] for (uint b = 0; b < BITS; b++)
        if (1u << b >= stride && 1u << b < gl_WorkGroupSize.x) v += subgroupShuffleXor(v, 1u << b);
    return v;
}

float reduce_add(float v) { return reduce_run(v, gl_WorkGroupSize.x); }

float reduce_max(float v) {
    [[unroll]] for (uint b = 0; b < BITS; b++)
        if (1u << b < gl_WorkGroupSize.x) v = max(v, subgroupShuffleXor(v, 1u << b));
    return v;
}

// hold() keeps a value of every lane for the others, held() is that of one of them, and release() ends that. Cheapest
// where the lane is a constant.
vec4 kept;

void hold(vec4 v) { kept = v; }

vec4 held(uint lane) {
    return vec4(subgroupShuffle(kept.x, lane), subgroupShuffle(kept.y, lane), subgroupShuffle(kept.z, lane), subgroupShuffle(kept.w, lane));
}

void release() {}

// Orders this workgroup's reads of memory before its later writes: nothing to do within one subgroup.
void reads_before_writes() {}

// Orders this workgroup's writes to memory before its later reads: its invocations run together.
void writes_before_reads() { subgroupMemoryBarrierBuffer(); }
