#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "input.glsl"
// y = the exclusive or of all words that an invocation reads: DEPTH elements of its workgroup's run of x, in turns with the
// other lanes. It hardly writes and hardly computes, so that its time tells how fast the device reads. Grid: x over runs of
// DEPTH * lanes elements. Twin: ref/checksum.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DEPTH = 16; // elements per invocation
layout(push_constant) uniform Push {
    uint count; // elements of x
} push;
IN_UVEC4(0, X)
layout(binding = 1) writeonly buffer Y { uint y[]; }; // (invocations)

void main() {
    uint lanes = gl_WorkGroupSize.x, at = gl_WorkGroupID.x * DEPTH * lanes + gl_LocalInvocationID.x;
    uvec4 all = uvec4(0);
    [[unroll]] for (uint n = 0; n < DEPTH; n++) {
        uint i = at + n * lanes;
        uvec4 v = LOAD(X, min(i, push.count - 1));
        all ^= i < push.count ? v : uvec4(0);
    }
    y[gl_GlobalInvocationID.x] = all.x ^ all.y ^ all.z ^ all.w;
}
