// Reductions over the workgroup, which is exactly one subgroup: no barriers, which CPU drivers make dear.
// Every invocation must call them; every invocation gets the result.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

float reduce_add(float v) { return subgroupAdd(v); }
float reduce_max(float v) { return subgroupMax(v); }
uint reduce_add(uint v) { return subgroupAdd(v); }
uint reduce_min(uint v) { return subgroupMin(v); }
uint scan_add(uint v) { return subgroupExclusiveAdd(v); } // sum over the invocations before this one

// Sum over the invocations of the same class. Masked additions: lavapipe 22.3 returns a wrong subgroupShuffleXor here.
float reduce_class(float v, uint own, uint classes) {
    float sum = 0;
    for (uint i = 0; i < classes; i++) {
        float part = subgroupAdd(own == i ? v : 0.0);
        if (own == i) sum = part;
    }
    return sum;
}

// Sum over runs of `width` consecutive invocations.
float reduce_run(float v, uint width) {
    return reduce_class(v, gl_LocalInvocationID.x / width, gl_WorkGroupSize.x / width);
}

// Sum over the invocations whose index is equal modulo `stride`.
float reduce_stride(float v, uint stride) { return reduce_class(v, gl_LocalInvocationID.x % stride, stride); }

// Orders this workgroup's reads of memory before its later writes: nothing to do within one subgroup.
void reads_before_writes() {}
