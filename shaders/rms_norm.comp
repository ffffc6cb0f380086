#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
#include "include/step.glsl"
#include "reduce.glsl"
// y = x / sqrt(mean(x^2) + eps) * w. One workgroup per row, or per wanted row where GATHER is set. The padding of x and
// w up to QUADS is zero. Twin: ref/rms_norm.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint WIDTH = 64;  // elements that count
layout(constant_id = 2) const uint QUADS = 16;  // vec4 per row of x
layout(constant_id = 3) const uint GATHER = 0;  // 1: row i of y is row step_out(i) of x
layout(push_constant) uniform Push { float eps; } push;
IN_VEC4(1, X)                                          // (rows, 4 QUADS) f32
IN_VEC4(2, W)                                          // (4 QUADS) f32
layout(binding = 3) writeonly buffer Y { vec4 y[]; };  // (rows, 4 QUADS) f32

void main() {
    uint lane = gl_LocalInvocationID.x, row = gl_WorkGroupID.y, lanes = gl_WorkGroupSize.x;
    if (row >= (GATHER == 1 ? step_outs() : step_rows()) || step_done()) return;
    uint from = (GATHER == 1 ? step_out(row) : row) * QUADS;
    float sum = 0;
    for (uint i = lane; i < QUADS; i += lanes) {
        vec4 v = LOAD(X, from + i);
        sum += dot(v, v);
    }
    float scale = inversesqrt(reduce_add(sum) / float(WIDTH) + push.eps);
    for (uint i = lane; i < QUADS; i += lanes) y[row * QUADS + i] = LOAD(X, from + i) * scale * LOAD(W, i);
}
