#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
#include "reduce.glsl"
#include "include/victims.glsl"
// Counts this step's tokens as live and, above the budget, chooses the victims: the eligible slots of lowest score, of
// equal scores the older position. One victim (decode) is a parallel argmin; several (a chunk) are found by fixing the
// n-th lowest (score, position) digit by digit, which needs no sorting and no atomics. Survivors behind the budget are to
// move into the victims' slots, in order, so that the live slots stay the first ones; compact.comp carries that out.
// Grid: x over KV heads, y over sequences. Twin: ref/evict.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KV_HEADS = 2;
layout(push_constant) uniform Push {
    uint head; // first entry of the layer in Table
    uint added; // most tokens added between two evictions: entries in Moves and Log
} push;
layout(binding = 3) writeonly buffer TableOut { uint table[]; }; // Table: live, evicted and evicted-last are written
layout(binding = 4) writeonly buffer Moves { uint moves[]; };    // (sequences, KV_HEADS, added, 2) from, to: slots of the head; from 0xffffffff ends the list
layout(binding = 5) writeonly buffer Log { uvec2 victims_log[]; };      // (entries of Table, added) position, score of the victims by ascending slot

void main() {
    if (step_done()) return;
    uint kv = gl_WorkGroupID.x, seq = gl_WorkGroupID.y, lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
    uint entry = push.head + seq * KV_HEADS + kv, moves0 = (seq * KV_HEADS + kv) * push.added * 2, log0 = entry * push.added;
    uvec4 s = step_seq(seq);
    h = load_head(entry);
    uint live = h.live + s.y, excess = excess_of(live, (s.z & STEP_SETTLES) != 0), keep = live - excess;
    tokens_end = step_row(s.x + s.y - 1).z + 1;
    tokens_from = tokens_end - s.y;
    tokens_new = s.y;
    uint need = excess, tie = 0, last = 0;
    if (excess > 1) last_victim(need, entry, 1, tie, last);
    reads_before_writes();
    if (lane == 0) {
        table[entry * ENTRY_QUADS * 4 + 3] = keep;
        table[entry * ENTRY_QUADS * 4 + 7] = h.evicted + excess;
        table[entry * ENTRY_QUADS * 4 + 12] = excess;
        if (excess < push.added) moves[moves0 + excess * 2] = NONE;
    }
    if (excess == 0) return;

    if (excess == 1) { // argmin
        uint low = NONE, pos = NONE, slot = NONE;
        for (uint i = lane; i < live; i += lanes) {
            uvec2 c = LOAD2(Slots, h.offset + i);
            uint k = key(c);
            if (eligible(c.x) && (k < low || (k == low && c.x < pos))) {
                low = k;
                pos = c.x;
                slot = i;
            }
        }
        uint best = reduce_min(low), oldest = reduce_min(low == best ? pos : NONE);
        if (low == best && pos == oldest && slot != NONE) {
            moves[moves0] = slot == keep ? NONE : keep;
            moves[moves0 + 1] = slot;
            victims_log[log0] = LOAD2(Slots, h.offset + slot);
        }
        return;
    }

    uint per_lane = (live + lanes - 1) / lanes, begin = min(lane * per_lane, live), end = min(begin + per_lane, live);
    uint victims = 0, holes = 0, movers = 0; // first counted, then the next index of this lane in each list
    [[dont_unroll]] for (uint pass = 0; pass < 2; pass++) {
        for (uint first = begin; first < end; first += 4) {
            [[unroll]] for (uint n = 0; n < 4; n++) {
                uint i = first + n;
                uvec2 c = LOAD2(Slots, h.offset + min(i, live - 1));
                bool victim = i < end && goes(c, tie, last), hole = victim && i < keep, mover = i < end && !victim && i >= keep;
                if (pass == 1) {
                    if (victim) victims_log[log0 + victims] = c;
                    if (hole) moves[moves0 + holes * 2 + 1] = i;
                    if (mover) moves[moves0 + movers * 2] = i;
                }
                if (victim) victims++;
                if (hole) holes++;
                if (mover) movers++;
            }
        }
        if (pass == 0) {
            uint all = reduce_add(holes);
            victims = scan_add(victims);
            holes = scan_add(holes);
            movers = scan_add(movers);
            // Ends the list: at its end, and once more where each of compact.comp's runs of moves begins behind it.
            for (uint n = all / MOVE_RUN * MOVE_RUN + lane * MOVE_RUN; all < excess && n < excess; n += lanes * MOVE_RUN) moves[moves0 + max(n, all) * 2] = NONE;
        }
    }
}
