#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
#include "reduce.glsl"
#include "include/victims.glsl"
// Gives each KV head of a layer a budget of its own (Ada-KV, arXiv 2407.11550). Of the tokens that may go, the H base with
// the highest scores of all heads are c_i in head i; base are the budget's slots that nothing protected takes. Head i keeps
// (1 - alpha) c_i + alpha base, rounded so that the sum is H base: the rest goes to the largest remainders, of equal ones to
// the lower head. No head keeps more than it has: what is left over goes round the other heads evenly, lower ones first.
// Where all tokens fit, every head has room for the same number of new ones. One workgroup per sequence. Twin: ref/share.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KV_HEADS = 2;
layout(push_constant) uniform Push {
    uint head;   // first entry of the layer in the tables
    uint slot;   // first slot of the layer in its pool
    uint budget; // slots of a head, in the mean
    uint added;  // slots of a head above its budget
    uint alpha;  // thousandths
} push;
layout(binding = 3) writeonly buffer PromptTable { uint prompt_table[]; }; // Table: budgets are written
layout(binding = 4) writeonly buffer PoolTable { uint pool_table[]; };     // offset, capacity and budget are written

void main() {
    if (step_done() || step_seq(gl_WorkGroupID.x).y == 0) return;
    uint seq = gl_WorkGroupID.x, entry = push.head + seq * KV_HEADS, lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
    uvec4 s = step_seq(seq);
    tokens_end = step_row(s.x + s.y - 1).z + 1;
    tokens_from = tokens_end;
    tokens_new = 0;
    uint have[KV_HEADS], all = 0, fixed_slots = 0; // tokens that may go, of each head and together; protected ones, the same in each
    for (uint kv = 0; kv < KV_HEADS; kv++) {
        h = load_head(entry + kv);
        uint count = 0;
        for (uint first = lane; first < h.live; first += STRIDE * lanes) {
            [[unroll]] for (uint n = 0; n < STRIDE; n++) {
                uint i = first + n * lanes;
                if (i < h.live && eligible(LOAD2(Slots, h.offset + min(i, h.live - 1)).x)) count++;
            }
        }
        have[kv] = reduce_add(count);
        all += have[kv];
        fixed_slots = h.live - have[kv];
    }
    uint base = push.budget - min(fixed_slots, push.budget), wanted = KV_HEADS * base;
    uint keep[KV_HEADS];
    for (uint kv = 0; all <= wanted && kv < KV_HEADS; kv++) keep[kv] = have[kv] + (wanted - all) / KV_HEADS + (kv < (wanted - all) % KV_HEADS ? 1 : 0);
    if (all > wanted) {
        uint need = all - wanted, tie, last;
        last_victim(need, entry, KV_HEADS, tie, last);
        uint rest[KV_HEADS], left = wanted; // remainders, in thousandths
        for (uint kv = 0; kv < KV_HEADS; kv++) {
            h = load_head(entry + kv);
            uint gone = 0, equal = 0;
            for (uint first = lane; first < h.live; first += STRIDE * lanes) {
                [[unroll]] for (uint n = 0; n < STRIDE; n++) {
                    uint i = first + n * lanes;
                    uvec2 slot = LOAD2(Slots, h.offset + min(i, h.live - 1));
                    bool goes_too = i < h.live && goes(slot, tie, last);
                    if (goes_too && key(slot) == tie && slot.x == last) equal++; // the last one: of several heads the lower ones lose theirs
                    else if (goes_too) gone++;
                }
            }
            gone = reduce_add(gone);
            equal = min(reduce_add(equal), need);
            need -= equal;
            uint share = (1000 - push.alpha) * (have[kv] - gone - equal) + push.alpha * base;
            keep[kv] = share / 1000;
            rest[kv] = share % 1000;
            left -= keep[kv];
        }
        while (left > 0) {
            uint most = 0;
            for (uint kv = 1; kv < KV_HEADS; kv++)
                if (rest[kv] != NONE && (rest[most] == NONE || rest[kv] > rest[most])) most = kv;
            if (rest[most] == NONE) break;
            if (keep[most] < have[most]) {
                keep[most]++;
                left--;
            }
            rest[most] = NONE;
        }
        // More than there are: handed round, a slot each time, to those that have tokens left.
        for (uint kv = 0; kv < KV_HEADS; kv++)
            if (keep[kv] > have[kv]) {
                left += keep[kv] - have[kv];
                keep[kv] = have[kv];
            }
        while (left > 0) {
            uint open_heads = 0;
            for (uint kv = 0; kv < KV_HEADS; kv++)
                if (keep[kv] < have[kv]) open_heads++;
            if (open_heads == 0) break;
            uint each = max(left / open_heads, 1);
            for (uint kv = 0; kv < KV_HEADS && left > 0; kv++) {
                uint more = min(min(each, have[kv] - keep[kv]), left);
                keep[kv] += more;
                left -= more;
            }
        }
    }
    if (lane > 0) return;
    uint offset = push.slot + seq * KV_HEADS * (push.budget + push.added);
    for (uint kv = 0; kv < KV_HEADS; kv++) {
        uint at = (entry + kv) * ENTRY_QUADS * 4, budget = keep[kv] + push.budget - base;
        prompt_table[at + 2] = budget;
        pool_table[at] = offset;
        pool_table[at + 1] = budget + push.added;
        pool_table[at + 2] = budget;
        offset += budget + push.added;
    }
}
