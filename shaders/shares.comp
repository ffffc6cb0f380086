#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
#include "reduce.glsl"
#include "include/exp.glsl"
// The shares of include/shares.glsl for rows that are single tokens, after attend_token.comp. Grid: x over query heads, y over
// rows. Twin: ref/attend.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SPLIT = 32;     // slots per split
layout(constant_id = 2) const uint KV_HEADS = 2;
layout(constant_id = 3) const uint GROUP = 2;      // query heads per KV head
layout(constant_id = 4) const uint RANGES = 4;     // parts per head
layout(constant_id = 5) const uint PAD_QUADS = 8;  // vec4 per head in the parts
layout(push_constant) uniform Push {
    uint head;   // first entry of the layer in Table
    uint splits; // stride of m and f, in splits
} push;
IN_VEC4(2, Parts)                                              // (rows, heads, RANGES) o of 4 PAD_QUADS f32; m, sum of e, -, -
IN_FLOAT(3, Peaks)                                             // (rows, heads, splits) m
layout(binding = 4) writeonly buffer Shares { float shares[]; }; // (rows, heads, splits) f

#include "include/shares.glsl"

void main() {
    uint head = gl_WorkGroupID.x, row = gl_WorkGroupID.y;
    if (row >= step_rows() || step_done()) return;
    uint at = row * KV_HEADS * GROUP + head, live = load_head(push.head + step_row(row).y * KV_HEADS + head / GROUP).live;
    share_out(at * RANGES * (PAD_QUADS + 1), at * push.splits, live / SPLIT + 1);
}
