#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
// Lists a sequence's live slots in order of position, to be copied into the work pool in which a prompt is processed, and
// copies their positions and scores there. Where a prompt begins, scores become what its policy begins with.
// Grid: x over KV heads, y over sequences. Twin: ref/stage.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KV_HEADS = 2;
layout(constant_id = 2) const uint MEASURED = 1; // 1: scores tell of attention, a prompt may go on with them
layout(constant_id = 3) const uint BEGINS = 0;   // 1: the prompt begins here; 0: if its first row is in the step
layout(push_constant) uniform Push {
    uint head;     // first entry of the layer in Table and PromptTable
    uint ranks;    // first element of ranks in Slots
    uint capacity; // slots of a head in the work pool
} push;
IN_UVEC2(2, Slots)                                                   // (slots) position, score; ranks
layout(binding = 3) buffer PromptTable { uint table[]; };            // live and evicted are written
layout(binding = 4) writeonly buffer WorkSlots { uvec2 work[]; };    // (slots) position, score
layout(binding = 5) writeonly buffer Map { uint map[]; };            // (sequences, KV_HEADS): count, first slot from, first slot to, -, then (capacity) slots from

#include "include/ranks.glsl"

void main() {
    if (step_done()) return;
    uint kv = gl_WorkGroupID.x, seq = gl_WorkGroupID.y, lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
    uint entry = push.head + seq * KV_HEADS + kv, head = seq * KV_HEADS + kv, map0 = head * (4 + push.capacity), to = head * push.capacity;
    if (step_seq(seq).y == 0) { // not its prompt
        if (lane == 0) map[map0] = 0;
        return;
    }
    Head h = load_head(entry);
    uint rule = table[entry * ENTRY_QUADS * 4 + 6];
    bool begins = BEGINS == 1 || step_row(step_seq(seq).x).w == 0;
    for (uint slot = lane; slot < h.live; slot += lanes) {
        uint rank = rank_of(push.ranks, h.offset, slot, h.live);
        uvec2 s = LOAD2(Slots, h.offset + slot);
        if (begins && update(rule) == UPDATE_NONE) s.y = floatBitsToUint(born(rule, s.x));
        else if (begins && MEASURED == 0) s.y = 0;
        work[to + rank] = s;
        map[map0 + 4 + rank] = slot;
    }
    if (lane > 0) return;
    map[map0] = h.live;
    map[map0 + 1] = h.offset;
    map[map0 + 2] = to;
    table[entry * ENTRY_QUADS * 4 + 3] = h.live;
    table[entry * ENTRY_QUADS * 4 + 7] = h.evicted;
}
