#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
// What the observed queries gave each slot: sum over the rows of the slice of e f, added to that of the slices before.
// One lane per slot. Grid: x over splits, y over query heads, z over sequences. Twin: ref/observe.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SPLIT = 64;    // slots per split
layout(constant_id = 2) const uint KV_HEADS = 2;
layout(constant_id = 3) const uint GROUP = 2;     // query heads per KV head
layout(push_constant) uniform Push {
    uint head;   // first entry of the layer in Table
    uint row;    // first row of this slice of the step; e and f start there
    uint rows;   // rows in the slice
    uint stride; // of e and sums, in slots
    uint splits; // stride of f, in splits
} push;
IN_FLOAT(2, E)                                         // (slice rows, heads, slots) f32
IN_FLOAT(3, Shares)                                    // (slice rows, heads, splits) f
layout(binding = 4) buffer Sums { float sums[]; };     // (sequences, heads, slots) f32

const uint HEADS = KV_HEADS * GROUP;

void main() {
    uint split = gl_WorkGroupID.x, head = gl_WorkGroupID.y, seq = gl_WorkGroupID.z;
    if (step_done()) return;
    uint first = max(step_seq(seq).x, push.row), end = min(step_seq(seq).x + step_seq(seq).y, push.row + push.rows);
    uint live = load_head(push.head + seq * KV_HEADS + head / GROUP).live;
    for (uint i = gl_LocalInvocationID.x; i < SPLIT; i += gl_WorkGroupSize.x) {
        uint slot = split * SPLIT + i, at = (seq * HEADS + head) * push.stride + slot;
        if (slot >= live) return;
        float sum = 0;
        for (uint row = first; row < end; row++) {
            uint query = (row - push.row) * HEADS + head;
            sum += LOAD1(Shares, query * push.splits + split) * LOAD1(E, query * push.stride + slot);
        }
        sums[at] = push.row == 0 ? sum : sums[at] + sum;
    }
}
