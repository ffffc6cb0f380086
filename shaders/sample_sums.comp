#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "input.glsl"
#include "include/step.glsl"
#include "reduce.glsl"
#include "include/wide.glsl"
#include "include/sampling.glsl"
#include "include/keys.glsl"
// Second part of sampling: the weight of every block of 32 tokens, where the weight of all tokens must be known: exp(x - max)
// for top-p, exp((x - max) / temperature) where nothing is cut. Grid: that of sample_peaks. Twin: ref/sample.go
layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push {
    uint stride; // vec4 per row of logits
    uint vocab;
} push;
IN_UINT(4, Peaks)                                           // (wanted rows, blocks + workgroups of a row) keys
layout(binding = 5) writeonly buffer Sums { uvec2 sums[]; }; // (wanted rows, blocks) whole numbers of 64 bits

float peak, by;

uvec2 sum_of(uint block, bool sees) {
    uvec2 sum = uvec2(0);
    [[dont_unroll]] for (uint q = 0; q < BLOCK; q++) { // as in sample_peaks.comp
        uvec4 key = keys_of(block * BLOCK + q, push.stride, sees);
        [[unroll]] for (uint e = 0; e < 4; e++) sum = wide_add(sum, weight(key[e], peak, by));
    }
    return sum;
}

void main() {
    if (gl_WorkGroupID.y >= step_outs() || step_done()) return;
    begin_row(gl_WorkGroupID.y, push.vocab);
    if (!weighs_all()) return;
    uint from = row * (blocks() + gl_NumWorkGroups.x) + blocks(), top = 0;
    for (uint i = gl_LocalInvocationID.x; i < gl_NumWorkGroups.x; i += gl_WorkGroupSize.x) top = max(top, LOAD1(Peaks, from + i));
    top = ~reduce_min(~top);
    if (top < LEAST || top >= BROKEN) return;
    peak = of_key(top);
    by = top_p != 0 ? LOG2E : scale;
    uint first = gl_GlobalInvocationID.x, crew = gl_WorkGroupSize.x * gl_NumWorkGroups.x;
    for (uint b = sees() ? blocks() : first; b < blocks(); b += crew) sums[row * blocks() + b] = sum_of(b, false);
    for (uint b = sees() ? first : blocks(); b < blocks(); b += crew) sums[row * blocks() + b] = sum_of(b, true);
}
