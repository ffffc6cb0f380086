#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
#include "reduce.glsl"
#include "include/exp.glsl"
#include "include/half.glsl"
#include "pack.glsl"
// All of a layer's attention where every row is the one new token of its sequence, in one walk over the cache: q and k are
// rotated, k and v enter the slot behind the live ones, and of each range of slots o = sum of e v is left with the range's
// maximum m of q k and the sum of e = exp(q k - m). Who reads the parts brings them together: see matmul.comp.
// The slots of a head are RANGES ranges of as many splits; a split has DEPTH * lanes slots, a lane every lanes-th of them.
// In the walk over a range m is the maximum so far. Where scores are kept, e of every split is left with the m it is for.
// Types with scales are not for it: their code is long, and CPU drivers compile this one slowly as it is.
// For V, WIDE lanes share the dimensions of a head, the others take further slots.
// Grid: x over ranges, y over KV heads and tiles of their query heads, z over rows. Twin: ref/attend.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DEPTH = 2;      // slots per lane in a split
layout(constant_id = 2) const uint KV_HEADS = 2;
layout(constant_id = 3) const uint GROUP = 2;      // query heads per KV head
layout(constant_id = 4) const uint HEAD_TILE = 2;  // query heads per workgroup, at most 4
layout(constant_id = 5) const uint HEAD_DIM = 32;  // dimensions of a head in x, a multiple of 4
layout(constant_id = 6) const uint HEAD_PAD = 32;  // the same, padded: what the cache holds
layout(constant_id = 7) const uint ROPE_DIM = 32;  // leading dimensions that are rotated, a multiple of 4; pairs are neighbours
layout(constant_id = 8) const uint WIDE = 8;       // lanes along the dimensions, a power of two
layout(constant_id = 9) const uint RANGES = 4;     // per head
layout(constant_id = 10) const uint SCORED = 0;    // 1: E and Peaks are written
layout(push_constant) uniform Push {
    uint head;     // first entry of the layer in Table
    uint x_stride; // vec4 per row of x
    uint stride;   // of e, in slots
    uint splits;   // stride of peaks, in splits
    uint first;    // first query head of the layer in a row of Parts, E and Peaks
    uint heads;    // query heads in such a row
    float scale;   // of q: 1 / sqrt(HEAD_DIM)
} push;
IN_UVEC4(2, K)                                                   // (slots, HEAD_PAD) packed
IN_UVEC4(3, V)                                                   // (slots, HEAD_PAD) packed
IN_VEC4(4, X)                                                    // (rows, x_stride) f32: q heads, k heads, v heads
IN_VEC4(5, Rope)                                                 // (positions, ROPE_DIM / 2) cos, sin: two pairs to an element
layout(binding = 6) writeonly buffer KOut { uvec4 k_out[]; };    // the same as K
layout(binding = 7) writeonly buffer VOut { uvec4 v_out[]; };    // the same as V
layout(binding = 8) writeonly buffer SlotsOut { uvec2 slots[]; }; // (slots) position, score as f32 bits
layout(binding = 9) writeonly buffer Parts { vec4 parts[]; };    // (rows, heads, RANGES) o of HEAD_PAD f32; m, sum of e, -, -
layout(binding = 10) writeonly buffer E { vec4 e_out[]; };       // (rows, heads, stride) f32: of a split those of the first lane, then those of the next one
layout(binding = 11) writeonly buffer Peaks { float peaks[]; };  // (rows, heads, splits) m of the splits

const uint HEADS = KV_HEADS * GROUP;
#include "include/token.glsl"

void main() {
    uint row = gl_WorkGroupID.z;
    if (row >= step_rows() || step_done()) return;
    attend(row, gl_WorkGroupID.x, gl_WorkGroupID.y, row * push.x_stride, row * push.heads + push.first, push.head);
}
