#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
#include "pack.glsl"
// Moves survivors into the slots of evicted tokens, as evict.comp decided. No slot is both a source and a target.
// Grid: x over KV heads, y over sequences. Twin: ref/evict.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KV_HEADS = 2;
layout(constant_id = 2) const uint ADDED = 1;      // entries in Moves for each KV head
layout(constant_id = 3) const uint HEAD_PAD = 32;  // dimensions of a head in the cache
layout(push_constant) uniform Push {
    uint head; // first entry of the layer in Table
} push;
IN_UVEC2(2, Moves)                                     // (sequences, KV_HEADS, ADDED) from, to: slots of the head
layout(binding = 3) buffer K { uvec4 k[]; };           // (slots, HEAD_PAD) packed
layout(binding = 4) buffer V { uvec4 v[]; };           // (slots, HEAD_PAD) packed
layout(binding = 5) buffer Slots { uvec2 slots[]; };   // (slots) position, score

const uint PACKS = HEAD_PAD / PACK;

void main() {
    if (step_done()) return;
    uint kv = gl_WorkGroupID.x, seq = gl_WorkGroupID.y, lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
    Head h = load_head(push.head + seq * KV_HEADS + kv);
    uint evicted = LOAD(Table, (push.head + seq * KV_HEADS + kv) * HEAD_QUADS + 3).x;
    for (uint n = 0; n < evicted; n++) {
        uvec2 move = LOAD2(Moves, (seq * KV_HEADS + kv) * ADDED + n);
        if (move.x == 0xFFFFFFFFu) return;
        uint from = h.offset + move.x, to = h.offset + move.y;
        for (uint i = lane; i < PACKS; i += lanes) {
            k[to * PACKS + i] = k[from * PACKS + i];
            v[to * PACKS + i] = v[from * PACKS + i];
        }
        if (lane == 0) slots[to] = slots[from];
    }
}
