#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#pragma forms(texel storage)
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
#include "reduce.glsl"
#include "include/exp.glsl"
#include "include/cached.glsl"
#include "include/scored.glsl"
// What attention of a prompt's rows makes of the scores, by the head's rule: as score.comp, of probabilities that are
// made once more and never written, by slots (include/columns.glsl).
// Grid: x over tiles of DEPTH * lanes slots, y over KV heads. All rows are of one sequence. Twin: ref/score.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DEPTH = 2;     // slots per lane
layout(constant_id = 2) const uint KV_HEADS = 2;
layout(constant_id = 3) const uint GROUP = 2;     // query heads per KV head
layout(constant_id = 4) const uint HEAD_PAD = 32; // dimensions of a head in q and the cache
layout(constant_id = 5) const uint ROPE_DIM = 0;  // leading dimensions of K to be rotated to their rank; 0: K is rotated
layout(constant_id = 6) const uint K_TYPE = 1;    // include/cached.glsl
layout(constant_id = 7) const uint MAY = 0;       // include/scored.glsl
layout(push_constant) uniform Push {
    uint head;    // first entry of the layer in Table
    uint number;  // of the layer's first KV head in the model: what hashes of other heads differ by
    uint row;     // first of the sequence's rows in the step
    uint count;   // rows, at most
    uint k_plane; // first uvec4 of scales in K
    uint ranks;   // first element of ranks in Slots; 0xffffffff: slots lie in order of position
} push;
IN_UVEC4(2, K)                                                 // (slots, HEAD_PAD) packed, scales
IN_UVEC2(3, Slots)                                             // (slots) position, score; ranks
IN_VEC4(4, Q)                                                  // (rows, heads, HEAD_PAD) f32, scaled
IN_VEC2(5, Norms)                                              // (rows, heads) m, sum of exp(q k - m)
IN_VEC2(6, Rope)                                               // (positions, ROPE_DIM / 2) cos, sin
layout(binding = 7) writeonly buffer SlotsOut { uvec2 slots_out[]; }; // the same slots, with their new scores

const uint QUADS = HEAD_PAD / 4, HEADS = KV_HEADS * GROUP;
#include "include/columns.glsl"

void main() {
    uint lanes = gl_WorkGroupSize.x, x = gl_WorkGroupID.x, kv = gl_WorkGroupID.y, row_end = min(push.row + push.count, step_rows());
    if (push.row >= row_end || step_done()) return;
    uint seq = step_row(push.row).y, entry = push.head + seq * KV_HEADS + kv;
    Head h = load_head(entry);
    uint live = h.live + row_end - push.row, tiles = (live + DEPTH * lanes - 1) / (DEPTH * lanes), rule = update(h.rule);
    if (x >= tiles || rule == UPDATE_NONE) return;
    bool whole = (MAY & MAY_LAYER) != 0 && has(h, RULE_LAYER), most = reduction(h.rule) == REDUCE_MAX;
    if (whole && kv > 0) return; // heads of the layer hold the same tokens in the same slots: the first one scores for all
    // First and last tiles in turns: fewer rows see later ones, and drivers give a thread the next so many workgroups.
    uint begin = (x % 2 == 0 ? x / 2 : tiles - 1 - x / 2) * DEPTH * lanes;
    uint first = min(push.row + max(int(begin) - int(h.live), 0), row_end - 1); // row that may see the tile
    float keep = 1; // of the old score
    for (uint row = push.row; row < row_end; row++) keep *= h.decay;
    if (rule != UPDATE_ADD) first = row_end - 1; // only the last row counts

    uvec2 old[DEPTH];
    float sum[DEPTH];
    [[unroll]] for (uint s = 0; s < DEPTH; s++) {
        old[s] = LOAD2(Slots, h.offset + min(own_slot(begin, s), live - 1));
        sum[s] = 0;
    }
    uint heads = whole ? KV_HEADS : 1, row_count = whole && most ? 1 : row_end; // a maximum over all heads goes row by row
    [[dont_unroll]] do { // tests stand at the end: before the body, lavapipe would run that once more, masked
        float of_rows[DEPTH];
        [[unroll]] for (uint s = 0; s < DEPTH; s++) of_rows[s] = 0;
        uint head = 0, end = min(first + row_count, row_end);
        [[dont_unroll]] do {
            take_keys(begin, live, load_head(entry + head));
            float of_head[DEPTH];
            [[unroll]] for (uint s = 0; s < DEPTH; s++) of_head[s] = 0;
            uint row = first;
            [[dont_unroll]] do {
                float p[DEPTH];
                [[unroll]] for (uint s = 0; s < DEPTH; s++) p[s] = 0;
                uint q = 0;
                [[dont_unroll]] do {
                    give(row * HEADS + (kv + head) * GROUP + q, begin, h.live + row - push.row + 1);
                    [[unroll]] for (uint s = 0; s < DEPTH; s++) p[s] = most ? max(p[s], given[s]) : p[s] + given[s];
                } while (++q < GROUP);
                uint unseen = has(h, RULE_SELFLESS) ? step_row(row).z : 0xFFFFFFFFu; // position of what the row gives nothing
                [[unroll]] for (uint s = 0; s < DEPTH; s++) of_head[s] = h.decay * of_head[s] + (old[s].x == unseen ? 0.0 : p[s]);
            } while (++row < end);
            [[unroll]] for (uint s = 0; s < DEPTH; s++) of_rows[s] = most ? max(of_rows[s], of_head[s]) : of_rows[s] + of_head[s];
        } while (++head < heads);
        [[unroll]] for (uint s = 0; s < DEPTH; s++) sum[s] = h.decay * sum[s] + of_rows[s];
        first = end;
    } while (first < row_end);

    uint from = step_row(push.row).z, now = step_row(row_end - 1).z + 1;
    [[unroll]] for (uint s = 0; s < DEPTH; s++) {
        uint slot = own_slot(begin, s);
        if (reduction(h.rule) == REDUCE_MEAN) sum[s] /= float(heads * GROUP);
        uint score = floatBitsToUint(scored(h, MAY, push.number + kv, old[s], sum[s], keep, from, now));
        if (slot >= live) continue;
        slots_out[h.offset + slot].y = score;
        if ((MAY & MAY_LAYER) != 0)
            for (uint k = 1; k < heads; k++) slots_out[load_head(entry + k).offset + slot].y = score;
    }
}
