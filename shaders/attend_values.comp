#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
#include "reduce.glsl"
#include "include/scales.glsl"
#include "include/half.glsl"
#include "pack.glsl"
// Second part of attention: o = sum over the split's slots of e v, for all queries of the tile. WIDE lanes share the
// dimensions of a head, the others take further slots, four at a time. Grid as in attend_logits. Twin: ref/attend.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SPLIT = 64;     // slots per split, a multiple of 4 lanes / WIDE
layout(constant_id = 2) const uint KV_HEADS = 2;
layout(constant_id = 3) const uint GROUP = 2;      // query heads per KV head
layout(constant_id = 4) const uint HEAD_TILE = 2;  // query heads per workgroup
layout(constant_id = 5) const uint ROW_TILE = 1;   // rows per workgroup
layout(constant_id = 6) const uint HEAD_PAD = 32;  // dimensions of a head in the cache
layout(constant_id = 7) const uint WIDE = 8;       // lanes along the dimensions, a power of two
layout(push_constant) uniform Push {
    uint head;   // first entry of the layer in Table
    uint row;    // first row of this slice of the step; e and o start there
    uint rows;   // rows in the slice
    uint stride; // of e, in slots
    uint splits; // stride of o, in splits
    uint plane;  // first uvec4 of scales in V
} push;
IN_UVEC4(2, V)                                         // (slots, HEAD_PAD) packed, scales
IN_VEC4(3, E)                                          // (slice rows, heads, slots) f32
layout(binding = 4) writeonly buffer O { vec4 o[]; };  // (slice rows, heads, splits, HEAD_PAD) f32

const uint PACKS = HEAD_PAD / PACK, SHARES = HEAD_PAD / SHARE, TILES = (GROUP + HEAD_TILE - 1) / HEAD_TILE, HEADS = KV_HEADS * GROUP;
const uint QUERIES = HEAD_TILE * ROW_TILE, OWN = (SHARES + WIDE - 1) / WIDE; // shares per lane
const uint SCALES = (HEAD_PAD + 2 * BLOCK - 1) / (2 * BLOCK); // words of scales per slot

float acc[QUERIES * OWN * SHARE];

void main() {
    uint lane = gl_LocalInvocationID.x, split = gl_WorkGroupID.x, walkers = gl_WorkGroupSize.x / WIDE;
    uint kv = gl_WorkGroupID.y / TILES, head0 = kv * GROUP + gl_WorkGroupID.y % TILES * HEAD_TILE;
    uint head_end = (kv + 1) * GROUP, row0 = push.row + gl_WorkGroupID.z * ROW_TILE;
    uint row_end = min(push.row + push.rows, step_rows());
    if (row0 >= row_end || step_done()) return;
    uint seq = step_row(row0).y;
    Head h = load_head(push.head + seq * KV_HEADS + kv);
    uint live = h.live + step_seq(seq).w, begin = split * SPLIT, first = row0 - push.row, rows = row_end - push.row;
    uint end = min(begin + SPLIT, seen_end(h, min(row0 + ROW_TILE, row_end) - 1));
    if (begin >= end) return;

    [[unroll]] for (uint i = 0; i < QUERIES * OWN * SHARE; i++) acc[i] = 0;
    for (uint base = begin; base < end; base += walkers * 4) {
        uint slot = base + lane / WIDE * 4;
        vec4 p[QUERIES];
        [[unroll]] for (uint n = 0; n < QUERIES; n++) {
            uint row = min(first + n / HEAD_TILE, rows - 1), head = min(head0 + n % HEAD_TILE, head_end - 1);
            p[n] = LOAD(E, ((row * HEADS + head) * push.stride + slot) / 4);
        }
        [[unroll]] for (uint s = 0; s < 4; s++) {
            uint at = h.offset + min(slot + s, live - 1); // a slot past the live ones weighs nothing
            [[unroll]] for (uint w = 0; w < OWN; w++) {
                uint share = min(w * WIDE + lane % WIDE, SHARES - 1), block = share * SHARE / BLOCK, word = at * SCALES + block / 2;
                float v[SHARE] = unpack_share(LOAD(V, at * PACKS + share / (PACK / SHARE)), share % (PACK / SHARE));
                float scale = SCALED ? unpackHalf2x16(LOAD(V, push.plane + word / 4)[word % 4])[block % 2] : 1.0;
                [[unroll]] for (uint n = 0; n < QUERIES; n++) {
                    float weight = SCALED ? p[n][s] * scale : p[n][s];
                    [[unroll]] for (uint i = 0; i < SHARE; i++) acc[(n * OWN + w) * SHARE + i] += weight * v[i];
                }
            }
        }
    }
    // A loop that stays one, over a copy: unrolled, the shuffles take a CPU driver's compiler minutes, and an array that
    // is indexed by a variable is no longer held in registers.
    float sums[QUERIES * OWN * SHARE];
    [[unroll]] for (uint i = 0; i < QUERIES * OWN * SHARE; i++) sums[i] = acc[i];
    if (walkers > 1) {
        [[dont_unroll]] for (uint i = 0; i < QUERIES * OWN * SHARE; i++) sums[i] = reduce_stride(sums[i], WIDE);
    }
    if (lane >= WIDE) return;
    [[unroll]] for (uint n = 0; n < QUERIES; n++) {
        uint row = first + n / HEAD_TILE, head = head0 + n % HEAD_TILE;
        if (row >= rows || head >= head_end) continue;
        uint base = ((row * HEADS + head) * push.splits + split) * HEAD_PAD / 4;
        [[unroll]] for (uint w = 0; w < OWN; w++) {
            uint part = w * WIDE + lane;
            if (part >= SHARES) continue;
            [[unroll]] for (uint i = 0; i < SHARE; i += 4) {
                uint a = (n * OWN + w) * SHARE + i;
                o[base + (part * SHARE + i) / 4] = vec4(sums[a], sums[a + 1], sums[a + 2], sums[a + 3]);
            }
        }
    }
}
