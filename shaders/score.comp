#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
#include "include/mixed.glsl"
// What attention makes of the scores, by the head's rule; p[row, j] is the probability that a row's queries give slot j:
// the sum, mean or maximum over the query heads of the group (or of the layer) of e f.
//   add:  S = decay S + p, row by row (H2O, arXiv 2306.14048); with RULE_LIFETIME S is that over the queries so far
//   last: S = p of the step's last row (TOVA, arXiv 2401.06104)
//   hash: S = a fresh pseudo-random number in [0, 1)
// One lane per four e. Grid: x over SPAN splits each, y over KV heads, of one layer or of several whose slots lie
// together, z over sequences. Twin: ref/score.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SPLIT = 64;      // slots per split
layout(constant_id = 2) const uint SPAN = 1;        // splits per workgroup
layout(constant_id = 3) const uint KV_HEADS = 2;    // of the grid
layout(constant_id = 4) const uint GROUP = 2;       // query heads per KV head
layout(constant_id = 5) const uint LAYER_HEADS = 2; // KV heads of one layer
layout(constant_id = 6) const uint DEPTH = 1;       // e of a split comes in runs of so many, of slots SPLIT / DEPTH apart: as attend_token.comp leaves it; 1: by slot
layout(constant_id = 7) const uint MAY = 0;         // what rules may ask for: MAY_LAYER, MAY_HASH, MAY_LIFETIME; lavapipe runs all code that is there
layout(push_constant) uniform Push {
    uint head;   // first entry of the layer in Table
    uint number; // of the first KV head in the model: what hashes of other heads differ by
    uint row;    // first row of this slice of the step; e and f start there
    uint rows;   // rows in the slice
    uint stride; // of e, in slots
    uint splits; // stride of f, in splits
} push;
IN_VEC4(2, E)                                                  // (slice rows, heads, stride) f32
IN_FLOAT(3, Shares)                                            // (slice rows, heads, splits) f
IN_UVEC2(4, Slots)                                             // (slots) position, score
layout(binding = 5) writeonly buffer SlotsOut { uvec2 slots_out[]; }; // the same slots, with their new scores

const uint HEADS = KV_HEADS * GROUP;
const uint MAY_LAYER = 1, MAY_HASH = 2, MAY_LIFETIME = 4;

void main() {
    uint begin = gl_WorkGroupID.x * SPAN * SPLIT, kv = gl_WorkGroupID.y, seq = gl_WorkGroupID.z;
    if (step_done()) return;
    uint seq_end = step_seq(seq).x + step_seq(seq).y;
    uint first = max(step_seq(seq).x, push.row), end = min(seq_end, push.row + push.rows);
    uint entry = push.head + seq * KV_HEADS;
    Head h = load_head(entry + kv);
    uint live = h.live + step_seq(seq).w, rule = update(h.rule);
    if (begin >= live || first >= end || rule == UPDATE_NONE) return;
    bool whole = (MAY & MAY_LAYER) != 0 && has(h, RULE_LAYER), add = rule == UPDATE_ADD;
    if (whole && kv % LAYER_HEADS > 0) return; // heads of the layer hold the same tokens in the same slots: the first one scores for all
    if (!add) { // only the sequence's last row counts
        if (end < seq_end) return;
        first = end - 1;
    }
    uint head0 = kv * GROUP, heads = whole ? LAYER_HEADS * GROUP : GROUP, now = step_row(end - 1).z + 1;
    uint places = (live + SPLIT - 1) / SPLIT * SPLIT, places_end = min(begin + SPAN * SPLIT, places), place = begin + gl_LocalInvocationID.x * 4; // of e
    [[dont_unroll]] do { // tests stand at the end: before the body, lavapipe would run that once more, masked
        uvec4 slot;
        uvec2 old[4];
        [[unroll]] for (uint s = 0; s < 4; s++) {
            uint p = place + s;
            slot[s] = p / SPLIT * SPLIT + p % DEPTH * (SPLIT / DEPTH) + p % SPLIT / DEPTH;
            old[s] = LOAD2(Slots, h.offset + min(slot[s], live - 1));
        }
        uvec4 pos = uvec4(old[0].x, old[1].x, old[2].x, old[3].x);
        vec4 sum = vec4(0);
        float keep = 1; // decay of the old score
        uint row = first, split = place / SPLIT;
        if (DEPTH == 1) { // rows before the first that may see the split
            uint from = min(step_seq(seq).x + max(int(split * SPLIT - h.live), 0), end);
            for (; row < from; row++) keep *= h.decay;
        }
        if (DEPTH > 1 || row < end) [[dont_unroll]] do {
            vec4 p = vec4(0);
            for (uint q = 0; q < heads; q++) {
                uint at = (row - push.row) * HEADS + head0 + q;
                vec4 part = LOAD1(Shares, at * push.splits + split) * LOAD(E, (at * push.stride + place) / 4);
                p = reduction(h.rule) == REDUCE_MAX ? max(p, part) : p + part;
            }
            if (has(h, RULE_SELFLESS)) p = mix(p, vec4(0), equal(pos, uvec4(step_row(row).z)));
            sum = h.decay * sum + p;
            keep *= h.decay;
        } while (++row < end);
        if (reduction(h.rule) == REDUCE_MEAN) sum /= float(heads);
        [[unroll]] for (uint s = 0; s < 4; s++) {
            float score = sum[s];
            if ((MAY & MAY_HASH) != 0 && rule == UPDATE_HASH) score = float(mixed(pos[s] ^ mixed(now ^ mixed(push.number + kv ^ mixed(h.seed)))) >> 8) * exp2(-24.0);
            if (add) {
                float before = uintBitsToFloat(old[s].y) * keep;
                if ((MAY & MAY_LIFETIME) != 0 && has(h, RULE_LIFETIME)) {
                    float seen = float(max(now - pos[s], 1u)), earlier = float(max(int(step_row(first).z) - int(pos[s]), 0));
                    score = (before * earlier + score) / seen;
                } else score += before;
            }
            if (place >= places_end || slot[s] >= live) continue;
            slots_out[h.offset + slot[s]].y = floatBitsToUint(score);
            if ((MAY & MAY_LAYER) != 0) {
                for (uint k = 1; k < (whole ? LAYER_HEADS : 1); k++) slots_out[load_head(entry + kv + k).offset + slot[s]].y = floatBitsToUint(score);
            }
        }
        place += gl_WorkGroupSize.x * 4;
    } while (place < places_end);
}
