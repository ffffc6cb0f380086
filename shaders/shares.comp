#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
#include "reduce.glsl"
#include "include/exp.glsl"
// What turns the e that attend_token.comp left into probabilities: f = exp(m - max m) / sum of exp(m - max m) sum, with the m
// of the split that e is of; maximum and sum go over the parts of the head. Grid: x over query heads, y over rows.
// Twin: ref/attend.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SPLIT = 32;     // slots per split
layout(constant_id = 2) const uint KV_HEADS = 2;
layout(constant_id = 3) const uint GROUP = 2;      // query heads per KV head
layout(constant_id = 4) const uint COUNT = 4;      // parts per head
layout(constant_id = 5) const uint PAD_QUADS = 8;  // vec4 per head in the parts
layout(push_constant) uniform Push {
    uint head;   // first entry of the layer in Table
    uint splits; // stride of m and f, in splits
} push;
IN_VEC4(2, Parts)                                              // (rows, heads, COUNT) o of 4 PAD_QUADS f32; m, sum of e, -, -
IN_FLOAT(3, Peaks)                                             // (rows, heads, splits) m
layout(binding = 4) writeonly buffer Shares { float shares[]; }; // (rows, heads, splits) f

const uint HEADS = KV_HEADS * GROUP;

void main() {
    uint head = gl_WorkGroupID.x, row = gl_WorkGroupID.y;
    if (row >= step_rows() || step_done()) return;
    Head h = load_head(push.head + step_row(row).y * KV_HEADS + head / GROUP);
    uint base = (row * HEADS + head) * COUNT * (PAD_QUADS + 1) + PAD_QUADS;
    float most = -1e30, sum = 0;
    for (uint p = 0; p < COUNT; p++) most = max(most, LOAD(Parts, base + p * (PAD_QUADS + 1)).x);
    for (uint p = 0; p < COUNT; p++) {
        vec4 peak = LOAD(Parts, base + p * (PAD_QUADS + 1));
        sum += exp_of(peak.x - most) * peak.y;
    }
    for (uint split = gl_LocalInvocationID.x; split <= h.live / SPLIT; split += gl_WorkGroupSize.x) {
        uint at = (row * HEADS + head) * push.splits + split;
        shares[at] = exp_of(LOAD1(Peaks, at) - most) / sum;
    }
}
