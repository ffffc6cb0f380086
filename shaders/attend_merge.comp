#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
#include "reduce.glsl"
#include "include/exp.glsl"
// Last part of attention: y = sum over splits of f o, with f = exp(m - max m) / sum over splits of exp(m - max m) sum.
// f also turns the e of a split into probabilities. Splits that a row may not see are left out. Grid: x over query heads, y over rows. Twin: ref/attend.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SPLIT = 64;     // slots per split
layout(constant_id = 2) const uint KV_HEADS = 2;
layout(constant_id = 3) const uint GROUP = 2;      // query heads per KV head
layout(constant_id = 4) const uint HEAD_DIM = 32;  // dimensions of a head in y
layout(constant_id = 5) const uint HEAD_PAD = 32;  // the same in o
layout(constant_id = 6) const uint VALUES = 1;     // 0: only f is wanted
layout(push_constant) uniform Push {
    uint head;     // first entry of the layer in Table
    uint row;      // first row of this slice of the step; m, sum, o and f start there
    uint rows;     // rows in the slice
    uint splits;   // stride of m, sum, o and f, in splits
    uint y_stride; // f32 per row of y
} push;
IN_VEC2(2, Peaks)                                              // (slice rows, heads, splits) m, sum
IN_VEC4(3, O)                                                  // (slice rows, heads, splits, HEAD_PAD) f32
layout(binding = 4) writeonly buffer Y { float y[]; };         // (rows, y_stride) f32
layout(binding = 5) writeonly buffer Shares { float shares[]; }; // (slice rows, heads, splits) f

const uint HEADS = KV_HEADS * GROUP, QUADS = HEAD_PAD / 4;

void main() {
    uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x, head = gl_WorkGroupID.x, slice_row = gl_WorkGroupID.y;
    uint row = push.row + slice_row;
    if (slice_row >= push.rows || row >= step_rows() || step_done()) return;
    uint seq = step_row(row).y;
    Head h = load_head(push.head + seq * KV_HEADS + head / GROUP);
    uint splits = (seen_end(h, row) + SPLIT - 1) / SPLIT, base = (slice_row * HEADS + head) * push.splits;
    float most = -1e30, sum = 0;
    for (uint s = lane; s < splits; s += lanes) most = max(most, LOAD2(Peaks, base + s).x);
    most = reduce_max(most);
    for (uint s = lane; s < splits; s += lanes) {
        vec2 peak = LOAD2(Peaks, base + s);
        sum += exp_of(peak.x - most) * peak.y;
    }
    float scale = 1.0 / reduce_add(sum);
    for (uint s = lane; s < splits; s += lanes) shares[base + s] = exp_of(LOAD2(Peaks, base + s).x - most) * scale;
    if (VALUES == 0) return;
    for (uint i = lane; i < QUADS; i += lanes) {
        vec4 v = vec4(0);
        for (uint s = 0; s < splits; s++) v += exp_of(LOAD2(Peaks, base + s).x - most) * LOAD(O, (base + s) * QUADS + i);
        for (uint d = 0; d < 4; d++)
            if (i * 4 + d < HEAD_DIM) y[row * push.y_stride + head * HEAD_DIM + i * 4 + d] = v[d] * scale;
    }
}
