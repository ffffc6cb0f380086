#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
#include "include/step.glsl"
// Brings together what attend_token.comp left: y = sum of f o over the parts of a head, with f = exp(m - max m) / sum of
// exp(m - max m) sum. One invocation per four dimensions of a head. Twin: ref/attend.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint COUNT = 4;      // parts per head
layout(constant_id = 2) const uint HEADS = 4;      // query heads
layout(constant_id = 3) const uint HEAD_QUADS = 8; // vec4 per head of y
layout(constant_id = 4) const uint PAD_QUADS = 8;  // the same in the parts
layout(push_constant) uniform Push {
    uint first;    // query head of Parts that is the first of y
    uint all;      // query heads in a row of Parts
    uint y_stride; // vec4 per row of y
} push;
IN_VEC4(1, Parts)                                     // (rows, all, COUNT) o of 4 PAD_QUADS f32; m, sum of e, -, -
layout(binding = 2) writeonly buffer Y { vec4 y[]; }; // (rows, y_stride) f32

void main() {
    uint i = gl_GlobalInvocationID.x, row = gl_GlobalInvocationID.y;
    if (i >= HEADS * HEAD_QUADS || row >= step_rows() || step_done()) return;
    uint base = (row * push.all + push.first + i / HEAD_QUADS) * COUNT * (PAD_QUADS + 1);
    float most = -1e30, sum = 0;
    vec4 v = vec4(0);
    for (uint p = 0; p < COUNT; p++) most = max(most, LOAD(Parts, base + p * (PAD_QUADS + 1) + PAD_QUADS).x);
    for (uint p = 0; p < COUNT; p++) {
        vec4 peak = LOAD(Parts, base + p * (PAD_QUADS + 1) + PAD_QUADS);
        float f = exp(peak.x - most);
        sum += f * peak.y;
        v += f * LOAD(Parts, base + p * (PAD_QUADS + 1) + i % HEAD_QUADS);
    }
    y[row * push.y_stride + i] = v / sum;
}
