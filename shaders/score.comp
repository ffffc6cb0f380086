#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
// score += the probability that this step's queries gave the slot: sum over rows and the query heads of the group of e f
// (H2O, arXiv 2306.14048). One lane per four slots. Grid: x over splits, y over KV heads, z over sequences.
// Twin: ref/score.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SPLIT = 64;     // slots per split
layout(constant_id = 2) const uint KV_HEADS = 2;
layout(constant_id = 3) const uint GROUP = 2;      // query heads per KV head
layout(push_constant) uniform Push {
    uint head;   // first entry of the layer in Table
    uint row;    // first row of this slice of the step; e and f start there
    uint rows;   // rows in the slice
    uint stride; // of e, in slots
    uint splits; // stride of f, in splits
} push;
IN_VEC4(2, E)                                                  // (slice rows, heads, slots) f32
IN_FLOAT(3, Shares)                                            // (slice rows, heads, splits) f
IN_UVEC2(4, Slots)                                             // (slots) position, score
layout(binding = 5) writeonly buffer SlotsOut { uvec2 slots_out[]; }; // the same slots, with their new scores

const uint HEADS = KV_HEADS * GROUP;

void main() {
    uint split = gl_WorkGroupID.x, kv = gl_WorkGroupID.y, seq = gl_WorkGroupID.z;
    if (step_done()) return;
    uint first = max(step_seq(seq).x, push.row), end = min(step_seq(seq).x + step_seq(seq).y, push.row + push.rows);
    Head h = load_head(push.head + seq * KV_HEADS + kv);
    uint live = h.live + step_seq(seq).y;
    if (split * SPLIT >= live || first >= end || h.update != UPDATE_ADD) return;
    for (uint i = gl_LocalInvocationID.x * 4; i < SPLIT; i += gl_WorkGroupSize.x * 4) {
        uint slot = split * SPLIT + i;
        if (slot >= live) return;
        vec4 sum = vec4(0);
        for (uint row = first - push.row; row < end - push.row; row++)
            for (uint g = 0; g < GROUP; g++) {
                uint at = row * HEADS + kv * GROUP + g;
                sum += LOAD1(Shares, at * push.splits + split) * LOAD(E, (at * push.stride + slot) / 4);
            }
        for (uint s = 0; s < 4 && slot + s < live; s++) {
            uvec2 old = LOAD2(Slots, h.offset + slot + s);
            slots_out[h.offset + slot + s] = uvec2(old.x, floatBitsToUint(uintBitsToFloat(old.y) + sum[s]));
        }
    }
}
