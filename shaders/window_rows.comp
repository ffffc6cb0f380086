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
// What the observed queries gave each slot: the sum of their probabilities, which are made by slots out of what attention
// left (include/columns.glsl). The rows are of one sequence, the last of whose live tokens they are, in any order.
// Grid: x over tiles of DEPTH * lanes slots, y over query heads. Twin: ref/observe.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DEPTH = 2;     // slots per lane
layout(constant_id = 2) const uint KV_HEADS = 2;
layout(constant_id = 3) const uint GROUP = 2;     // query heads per KV head
layout(constant_id = 4) const uint HEAD_PAD = 32; // dimensions of a head in q and the cache
layout(constant_id = 5) const uint ROPE_DIM = 0;  // leading dimensions of K to be rotated to their rank; 0: K is rotated
layout(constant_id = 6) const uint K_TYPE = 1;    // include/cached.glsl
layout(push_constant) uniform Push {
    uint head;    // first entry of the layer in Table
    uint row;     // first of the sequence's rows in the step
    uint count;   // rows, at most
    uint stride;  // of sums, in slots
    uint k_plane; // first uvec4 of scales in K
    uint ranks;   // first element of ranks in Slots; 0xffffffff: slots lie in order of position
} push;
IN_UVEC4(2, K)                                     // (slots, HEAD_PAD) packed, scales
IN_UVEC2(3, Slots)                                 // (slots) position, score; ranks
IN_VEC4(4, Q)                                      // (rows, heads, HEAD_PAD) f32, scaled
IN_VEC2(5, Norms)                                  // (rows, heads) m, sum of exp(q k - m)
IN_VEC2(6, Rope)                                   // (positions, ROPE_DIM / 2) cos, sin
layout(binding = 7) writeonly buffer Sums { float sums[]; }; // (sequences, heads, slots) f32

const uint QUADS = HEAD_PAD / 4, HEADS = KV_HEADS * GROUP;
#include "include/columns.glsl"

void main() {
    uint begin = gl_WorkGroupID.x * DEPTH * gl_WorkGroupSize.x, head = gl_WorkGroupID.y, row = push.row;
    uint row_end = min(push.row + push.count, step_rows());
    if (row >= row_end || step_done()) return;
    uint seq = step_row(row).y;
    Head h = load_head(push.head + seq * KV_HEADS + head / GROUP);
    if (begin >= h.live) return;
    take_keys(begin, h.live, h);
    uint last = LOAD2(Slots, h.offset + h.live - 1).x;
    float sum[DEPTH];
    [[unroll]] for (uint s = 0; s < DEPTH; s++) sum[s] = 0;
    [[dont_unroll]] do { // the test stands at the end: before the body, lavapipe would run that once more, masked
        give(row * HEADS + head, begin, h.live - (last - step_row(row).z));
        [[unroll]] for (uint s = 0; s < DEPTH; s++) sum[s] += given[s];
    } while (++row < row_end);
    [[unroll]] for (uint s = 0; s < DEPTH; s++)
        if (own_slot(begin, s) < h.live) sums[(seq * HEADS + head) * push.stride + own_slot(begin, s)] = sum[s];
}
