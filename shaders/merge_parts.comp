#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "input.glsl"
#include "include/step.glsl"
// Brings together what attend_token.comp left: y = sum of f o over the parts of a head, with f = exp(m - max m) / sum of
// exp(m - max m) sum. One invocation per four dimensions of a head. Twin: ref/attend.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint RANGES = 4;     // parts per head
layout(constant_id = 2) const uint HEADS = 4;      // query heads
layout(constant_id = 3) const uint HEAD_QUADS = 8; // vec4 per head of y
layout(constant_id = 4) const uint PAD_QUADS = 8;  // the same in the parts
layout(push_constant) uniform Push {
    uint first;    // query head of Parts that is the first of y
    uint all;      // query heads in a row of Parts
    uint y_stride; // vec4 per row of y
} push;
IN_VEC4(1, Parts)                                     // (rows, all, RANGES) o of 4 PAD_QUADS f32; m, sum of e, -, -
layout(binding = 2) writeonly buffer Y { vec4 y[]; }; // (rows, y_stride) f32

#define PART(i) LOAD(Parts, i)
#include "include/parts.glsl"

void main() {
    uint i = gl_GlobalInvocationID.x, row = gl_GlobalInvocationID.y;
    if (i >= HEADS * HEAD_QUADS || row >= step_rows() || step_done()) return;
    y[row * push.y_stride + i] = merged((row * push.all + push.first) * RANGES * (PAD_QUADS + 1), i);
}
