#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
#include "reduce.glsl"
#include "include/victims.glsl"
// Ends a stage of a prompt: chooses who of the work pool is above the budget and lists the survivors, in order of position,
// to be copied into the layer's own pool, where their positions and scores go. With the prompt's last rows scores become
// what the policy of decoding begins with. Grid: x over KV heads, y over sequences. Twin: ref/stage.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KV_HEADS = 2;
layout(constant_id = 2) const uint MEASURED = 1; // 1: scores tell of attention, decoding may go on with them
layout(push_constant) uniform Push {
    uint head;     // first entry of the layer in Table and PoolTable
    uint ranks;    // first element of ranks in PoolSlots
    uint capacity; // slots of a head in the work pool
    uint log_head; // entry that Log begins with
    uint log_size; // entries of Log for each KV head
} push;
layout(binding = 3) buffer PoolTable { uint pool_table[]; };            // live, evicted and evicted-last are written
layout(binding = 4) writeonly buffer PoolSlots { uvec2 pool_slots[]; }; // (slots) position, score; ranks
layout(binding = 5) writeonly buffer Map { uint map[]; };               // (sequences, KV_HEADS): count, first slot from, first slot to, -, then (capacity) slots from
layout(binding = 6) writeonly buffer Log { uvec2 victims_log[]; };      // (entries, log_size) position, score of the victims by ascending position

void main() {
    if (step_done()) return;
    uint kv = gl_WorkGroupID.x, seq = gl_WorkGroupID.y, lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
    uint head = seq * KV_HEADS + kv, entry = push.head + head, map0 = head * (4 + push.capacity), log0 = (entry - push.log_head) * push.log_size;
    uvec4 s = step_seq(seq);
    if (s.y == 0) { // not its prompt
        if (lane == 0) map[map0] = 0;
        return;
    }
    h = load_head(entry);
    uint live = h.live, excess = live > h.budget ? live - h.budget : 0, keep = live - excess, to = pool_table[entry * ENTRY_QUADS * 4];
    tokens_end = step_row(s.x + s.y - 1).z + 1;
    tokens_from = tokens_end; // nobody is just leaving the window
    tokens_new = 0;
    uint tie = 0, last = 0, need = excess;
    if (excess > 0) last_victim(need, entry, 1, tie, last);
    uint rule = pool_table[entry * ENTRY_QUADS * 4 + 6];
    bool ends = (s.z & STEP_ENDS) != 0;
    uint per_lane = (live + lanes - 1) / lanes, begin = min(lane * per_lane, live), end = min(begin + per_lane, live);
    uint victims = 0, kept = 0; // first counted, then the next index of this lane in each list
    [[dont_unroll]] for (uint pass = 0; pass < 2; pass++) {
        for (uint first = begin; first < end; first += 4) {
            [[unroll]] for (uint n = 0; n < 4; n++) {
                uint i = first + n;
                uvec2 c = LOAD2(Slots, h.offset + min(i, live - 1));
                bool victim = i < end && excess > 0 && goes(c, tie, last), stays = i < end && !victim;
                if (pass == 1 && victim) victims_log[log0 + victims] = c;
                if (pass == 1 && stays) {
                    float score = uintBitsToFloat(c.y);
                    if (ends && update(rule) == UPDATE_NONE) score = born(rule, c.x);
                    else if (ends && MEASURED == 0) score = 0;
                    pool_slots[to + kept] = uvec2(c.x, floatBitsToUint(score));
                    pool_slots[push.ranks + (to + kept) / 2][(to + kept) % 2] = kept;
                    map[map0 + 4 + kept] = i;
                }
                if (victim) victims++;
                if (stays) kept++;
            }
        }
        if (pass == 0) {
            victims = scan_add(victims);
            kept = scan_add(kept);
        }
    }
    if (lane > 0) return;
    map[map0] = keep;
    map[map0 + 1] = h.offset;
    map[map0 + 2] = to;
    pool_table[entry * ENTRY_QUADS * 4 + 3] = keep;
    pool_table[entry * ENTRY_QUADS * 4 + 7] = h.evicted + excess;
    pool_table[entry * ENTRY_QUADS * 4 + 12] = excess;
}
