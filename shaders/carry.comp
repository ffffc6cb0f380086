#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
#include "include/step.glsl"
// Copies rows of activations between those of the step and those of a whole prompt, where each row has its place.
// One invocation per vec4. Grid: x over a row, y over rows. Twin: ref/carry.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BACK = 0; // 0: from the step's rows to the prompt's; 1: back
layout(push_constant) uniform Push {
    uint quads; // vec4 per row
} push;
IN_VEC4(1, X)                                    // (rows, quads) f32
layout(binding = 2) writeonly buffer Y { vec4 y[]; }; // (rows, quads) f32

void main() {
    uint i = gl_GlobalInvocationID.x, row = gl_WorkGroupID.y;
    if (i >= push.quads || row >= step_rows() || step_done()) return;
    uint place = step_row(row).w;
    y[(BACK == 1 ? row : place) * push.quads + i] = LOAD(X, (BACK == 1 ? place : row) * push.quads + i);
}
