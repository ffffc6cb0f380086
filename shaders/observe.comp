#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
#include "include/step.glsl"
// Keeps the queries of a prompt's last tokens in a ring: that at place p of the prompt lies at p mod window.
// One invocation per vec4. Grid: x over a row's queries, y over rows. Twin: ref/observe.go
layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push {
    uint window; // rows of a ring
    uint quads;  // vec4 per row: heads * HEAD_PAD / 4
} push;
IN_VEC4(1, Q)                                          // (rows, quads) f32
layout(binding = 2) writeonly buffer Ring { vec4 ring[]; }; // (sequences, window, quads) f32

void main() {
    uint i = gl_GlobalInvocationID.x, row = gl_WorkGroupID.y;
    if (i >= push.quads || row >= step_rows() || step_done()) return;
    uvec4 r = step_row(row), s = step_seq(r.y);
    if (row + push.window < s.x + s.y) return;
    ring[(r.y * push.window + r.w % push.window) * push.quads + i] = LOAD(Q, row * push.quads + i);
}
