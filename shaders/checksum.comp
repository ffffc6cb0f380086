#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
// y = the exclusive or of all words that an invocation reads: DEPTH elements of its workgroup's run of x, in turns with the
// other lanes. It hardly writes and hardly computes, so that its time tells how fast the device reads. Grid: x over runs of
// DEPTH * lanes elements. Twin: ref/checksum.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DEPTH = 16; // elements per invocation, a multiple of 8
layout(push_constant) uniform Push {
    uint count; // elements of x
} push;
IN_UVEC4(0, X)
layout(binding = 1) writeonly buffer Y { uint y[]; }; // (invocations)

uvec4 element(uint i) { return i < push.count ? LOAD(X, min(i, push.count - 1)) : uvec4(0); }

void main() {
    uint lanes = gl_WorkGroupSize.x, i = gl_WorkGroupID.x * DEPTH * lanes + gl_LocalInvocationID.x;
    uvec4 all = uvec4(0);
    for (uint n = 0; n < DEPTH; n += 8) { // written out: not every driver unrolls
        all ^= (element(i) ^ element(i + lanes)) ^ (element(i + 2 * lanes) ^ element(i + 3 * lanes)) ^ (element(i + 4 * lanes) ^ element(i + 5 * lanes)) ^
               (element(i + 6 * lanes) ^ element(i + 7 * lanes));
        i += 8 * lanes;
    }
    y[gl_GlobalInvocationID.x] = all.x ^ all.y ^ all.z ^ all.w;
}
