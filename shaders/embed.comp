#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "input.glsl"
#include "include/step.glsl"
#include "include/planes.glsl"
#include "block.glsl"
// x = table[token]: gathers one row of the embedding for each row of the step. One invocation per block of 32 columns.
// A table larger than one binding comes in slices of rows, each its own dispatch. Twin: ref/embed.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint PLANE_LANES = 8; // invocations of the matrix product that the planes are made for
layout(constant_id = 2) const uint RUN = 1;    // of them, how many share a row
layout(constant_id = 3) const uint ROWS = 16;  // rows per invocation
layout(constant_id = 4) const uint BLOCKS = 2; // blocks of 32 columns per row, a multiple of RUN
layout(push_constant) uniform Push {
    uint first;  // token of the slice's first row
    uint count;  // rows in the slice
    uint stride; // blocks of 32 per row of x, at least BLOCKS
} push;
IN_UVEC4(1, W)                                         // the table's weight plane
IN_UVEC4(2, S)                                         // the table's scale plane
layout(binding = 3) writeonly buffer X { vec4 x[]; };  // (rows, 32 stride) f32

#include "include/weights.glsl"

void main() {
    uint block = gl_GlobalInvocationID.x, row = gl_GlobalInvocationID.y;
    if (block >= BLOCKS || row >= step_rows() || step_done()) return;
    uint token = step_row(row).x - push.first;
    if (token >= push.count) return; // unsigned: also below the slice
    Place p = place(token, block, BLOCKS, PLANE_LANES, RUN, ROWS, WORDS, SCALES);
    for (uint n = 0; n < 8; n += 2) {
        float v[EIGHT] = weights_of(p, block, n * 4, PLANE_LANES, RUN);
        x[(row * push.stride + block) * 8 + n] = vec4(v[0], v[1], v[2], v[3]);
        x[(row * push.stride + block) * 8 + n + 1] = vec4(v[4], v[5], v[6], v[7]);
    }
}
