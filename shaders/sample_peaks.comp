#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "input.glsl"
#include "include/step.glsl"
#include "reduce.glsl"
#include "include/wide.glsl"
#include "include/sampling.glsl"
#include "include/keys.glsl"
// First part of sampling: the largest key of every block of 32 tokens, after penalties and biases, and of all blocks of a
// workgroup. A key that is no finite number's is larger than all others. Grid: x over shares of the blocks, y over wanted
// rows. Twin: ref/sample.go
layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push {
    uint stride; // vec4 per row of logits
    uint vocab;
} push;
layout(binding = 4) writeonly buffer Peaks { uint peaks[]; }; // (wanted rows, blocks + workgroups of a row) keys

uint to, top; // the row's first element of Peaks; the largest key so far

void take(uint block, bool sees) {
    uvec4 most = uvec4(0);
    [[dont_unroll]] for (uint q = 0; q < BLOCK; q++) // unrolled, SwiftShader takes minutes to compile it
        most = max(most, keys_of(block * BLOCK + q, push.stride, sees));
    uint peak = max(max(most.x, most.y), max(most.z, most.w));
    peaks[to + block] = peak;
    top = max(top, peak);
}

void main() {
    if (gl_WorkGroupID.y >= step_outs() || step_done()) return;
    begin_row(gl_WorkGroupID.y, push.vocab);
    to = row * (blocks() + gl_NumWorkGroups.x);
    top = 0;
    uint first = gl_GlobalInvocationID.x, crew = gl_WorkGroupSize.x * gl_NumWorkGroups.x;
    for (uint b = sees() ? blocks() : first; b < blocks(); b += crew) take(b, false);
    for (uint b = sees() ? first : blocks(); b < blocks(); b += crew) take(b, true);
    top = ~reduce_min(~top);
    if (gl_LocalInvocationID.x == 0) peaks[to + blocks() + gl_WorkGroupID.x] = top;
}
