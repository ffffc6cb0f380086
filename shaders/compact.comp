#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
// Moves survivors into the slots of evicted tokens, as evict.comp decided. No slot is both a source and a target.
// Grid: x over KV heads, y over sequences, z over runs of moves. Twin: ref/evict.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KV_HEADS = 2;
layout(constant_id = 2) const uint K_QUADS = 4;    // uvec4 of a slot in k
layout(constant_id = 3) const uint V_QUADS = 4;    // uvec4 of a slot in v
layout(constant_id = 4) const uint K_SCALES = 0;   // words of scales of a slot in k
layout(constant_id = 5) const uint V_SCALES = 0;   // words of scales of a slot in v
layout(constant_id = 6) const uint RANKED = 0;     // 1: slots have ranks
layout(push_constant) uniform Push {
    uint head;    // first entry of the layer in Table
    uint added;   // entries in Moves for each KV head
    uint k_plane; // first uvec4 of scales in k
    uint v_plane; // first uvec4 of scales in v
    uint ranks;   // first element of ranks in slots
} push;
IN_UVEC2(2, Moves)                                     // (sequences, KV_HEADS, added) from, to: slots of the head
layout(binding = 3) buffer K { uvec4 k[]; };           // (slots) packed, scales
layout(binding = 4) buffer V { uvec4 v[]; };           // (slots) packed, scales
layout(binding = 5) buffer Slots { uvec2 slots[]; };   // (slots) position, score; ranks

void main() {
    if (step_done()) return;
    uint kv = gl_WorkGroupID.x, seq = gl_WorkGroupID.y, lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
    Head h = load_head(push.head + seq * KV_HEADS + kv);
    uint evicted = LOAD(Table, (push.head + seq * KV_HEADS + kv) * ENTRY_QUADS + 3).x;
    for (uint first = gl_WorkGroupID.z * MOVE_RUN; first < evicted; first += gl_NumWorkGroups.z * MOVE_RUN) {
        for (uint n = first; n < min(first + MOVE_RUN, evicted); n++) {
            uvec2 move = LOAD2(Moves, (seq * KV_HEADS + kv) * push.added + n);
            if (move.x == 0xFFFFFFFFu) return; // the end of the list; a run behind it begins with it
            uint from = h.offset + move.x, to = h.offset + move.y;
            for (uint i = lane; i < K_QUADS; i += lanes) k[to * K_QUADS + i] = k[from * K_QUADS + i];
            for (uint i = lane; i < V_QUADS; i += lanes) v[to * V_QUADS + i] = v[from * V_QUADS + i];
            for (uint i = lane; i < K_SCALES; i += lanes) {
                uint a = from * K_SCALES + i, b = to * K_SCALES + i;
                k[push.k_plane + b / 4][b % 4] = k[push.k_plane + a / 4][a % 4];
            }
            for (uint i = lane; i < V_SCALES; i += lanes) {
                uint a = from * V_SCALES + i, b = to * V_SCALES + i;
                v[push.v_plane + b / 4][b % 4] = v[push.v_plane + a / 4][a % 4];
            }
            if (lane == 0) slots[to] = slots[from];
            if (RANKED == 1 && lane == 0) slots[push.ranks + to / 2][to % 2] = slots[push.ranks + from / 2][from % 2];
        }
    }
}
