#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "input.glsl"
#include "include/step.glsl"
#include "block.glsl"
#include "include/planes.glsl"
// x = table[token]: gathers one row of the embedding for each row of the step. One invocation per block of 32 columns.
// A table larger than one binding comes in slices of rows, each its own dispatch. Twin: ref/embed.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint PLANE_LANES = 8; // invocations of the matrix product that the planes are made for
layout(constant_id = 2) const uint RUN = 1;    // of them, how many share a row
layout(constant_id = 3) const uint ROWS = 16;  // rows per invocation
layout(constant_id = 4) const uint BLOCKS = 2; // blocks of 32 columns per row, a multiple of RUN
layout(push_constant) uniform Push {
    uint first; // token of the slice's first row
    uint count; // rows in the slice
} push;
IN_UVEC4(1, W)                                         // the table's weight plane
IN_UVEC4(2, S)                                         // the table's scale plane
layout(binding = 3) writeonly buffer X { vec4 x[]; };  // (rows, 32 BLOCKS) f32

void main() {
    uint block = gl_GlobalInvocationID.x, row = gl_GlobalInvocationID.y;
    if (block >= BLOCKS || row >= step_rows() || step_done()) return;
    uint token = step_row(row).x - push.first;
    if (token >= push.count) return; // unsigned: also below the slice
    Place p = place(token, block, BLOCKS / RUN, PLANE_LANES, RUN, ROWS, QUADS);
    uint scale = SCALED ? LOAD(S, p.scale)[p.part] : 0;
    for (uint w = 0; w < QUADS; w++) {
        uvec4 q = LOAD(W, p.quads + w * PLANE_LANES);
        float v[4 * PER_WORD];
        for (uint i = 0; i < 4; i++)
            for (uint j = 0; j < PER_WORD; j++)
                v[i * PER_WORD + j] = combine(scale, weight(q[i], j) * prescale(j), presum(j));
        for (uint i = 0; i < PER_WORD; i++)
            x[(row * BLOCKS + block) * 8 + w * PER_WORD + i] = vec4(v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]);
    }
}
