#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
// rank -= the victims of lower position, after evict.comp has chosen them and before compact.comp moves anything.
// One lane per slot. Grid: x over groups of slots, y over KV heads, z over sequences. Twin: ref/rank.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KV_HEADS = 2;
layout(constant_id = 2) const uint DEPTH = 8;      // slots per lane
layout(push_constant) uniform Push {
    uint head;  // first entry of the layer in Table
    uint added;  // entries in Log for each KV head
    uint ranks; // first element of ranks in Slots
} push;
IN_UVEC2(2, Slots)                                             // (slots) position, score; ranks
IN_UVEC2(3, Log)                                               // (entries of Table, added) position, score of the victims
layout(binding = 4) writeonly buffer SlotsOut { uvec2 slots_out[]; }; // the same slots, with their new ranks

#include "include/ranks.glsl"

void main() {
    uint kv = gl_WorkGroupID.y, seq = gl_WorkGroupID.z, lanes = gl_WorkGroupSize.x;
    if (step_done()) return;
    uint entry = push.head + seq * KV_HEADS + kv, victims = LOAD(Table, entry * ENTRY_QUADS + 3).x;
    Head h = load_head(entry);
    uint live = h.live + victims, ranked = live - step_seq(seq).w; // before the step
    for (uint n = 0; n < DEPTH; n++) {
        uint slot = (gl_WorkGroupID.x * DEPTH + n) * lanes + gl_LocalInvocationID.x;
        if (slot >= live) return;
        uint pos = LOAD2(Slots, h.offset + slot).x, rank = rank_of(push.ranks, h.offset, slot, ranked);
        // Many victims an iteration: lavapipe ends an invocation's loops after 65,535 iterations.
        uint lower = 0;
        for (uint first = 0; first < victims; first += 16) {
            [[unroll]] for (uint v = 0; v < 16; v++)
                if (first + v < victims && LOAD2(Log, entry * push.added + min(first + v, victims - 1)).x < pos) lower++;
        }
        slots_out[push.ranks + (h.offset + slot) / 2][(h.offset + slot) % 2] = rank - lower;
    }
}
