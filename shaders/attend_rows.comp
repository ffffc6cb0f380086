#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#pragma forms(texel storage)
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
#include "reduce.glsl"
#include "include/exp.glsl"
#include "include/half.glsl"
#include "pack.glsl"
// Attention of a prompt's rows in one walk over the slots: y = sum of e v / sum of e, with e = exp(q k - m) and the maximum
// m so far; when that grows, what is summed shrinks. It leaves nothing for scores. For drivers that run a subgroup as one
// vector: a lane is a row, or ROWS of them, so that nothing is combined over lanes and nothing is written but y. A slot's K
// and V are the same for all rows, and one fetch brings as many parts of them as there are lanes.
// Grid: x over tiles of rows, y over KV heads and tiles of their query heads. All rows are of one sequence, and each sees
// the live slots and of the new tokens those up to its own. Twin: ref/attend.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KV_HEADS = 2;
layout(constant_id = 2) const uint GROUP = 2;     // query heads per KV head
layout(constant_id = 3) const uint HEAD_TILE = 2; // query heads per workgroup
layout(constant_id = 4) const uint ROWS = 1;      // rows per lane
layout(constant_id = 5) const uint HEAD_DIM = 32; // dimensions of a head in y, a multiple of 4
layout(constant_id = 6) const uint HEAD_PAD = 32; // the same in q and the cache
layout(constant_id = 7) const uint SLOTS = 4;     // that are looked at together
layout(push_constant) uniform Push {
    uint head;     // first entry of the layer in Table
    uint row;      // first of the sequence's rows in the step
    uint count;    // rows, at most
    uint y_stride; // vec4 per row of y
} push;
IN_UVEC4(2, K)                                         // (slots, HEAD_PAD) packed
IN_UVEC4(3, V)                                         // (slots, HEAD_PAD) packed
IN_VEC4(4, Q)                                          // (rows, heads, HEAD_PAD) f32, scaled
layout(binding = 5) writeonly buffer Y { vec4 y[]; };  // (rows, y_stride) f32

const uint PACKS = HEAD_PAD / PACK, PARTS = PACK / 4, QUADS = HEAD_PAD / 4, HEADS = KV_HEADS * GROUP;
const uint TILES = (GROUP + HEAD_TILE - 1) / HEAD_TILE, QUERIES = HEAD_TILE * ROWS;
const float NEVER = -1e30; // the logit of a slot that a row does not see

vec4 q[QUERIES * QUADS], o[QUERIES * QUADS];
vec4 parts[SLOTS * QUADS]; // of K or V of some slots: as they were fetched, or where SPREAD is false in order

void put(uint pack, uvec4 packed) {
    float v[PACK] = unpack(packed);
    [[unroll]] for (uint i = 0; i < PARTS; i++) parts[pack * PARTS + i] = vec4(v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]);
}

// Four dimensions of one of the slots.
vec4 part(uint slot, uint quad) {
    if (!SPREAD) return parts[slot * QUADS + quad];
    uint lanes = gl_WorkGroupSize.x, pack = slot * PACKS + quad / PARTS;
    hold(parts[pack / lanes * PARTS + quad % PARTS]);
    return held(pack % lanes);
}

void main() {
    uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x, x = gl_WorkGroupID.x;
    uint kv = gl_WorkGroupID.y / TILES, head0 = kv * GROUP + gl_WorkGroupID.y % TILES * HEAD_TILE, head_end = (kv + 1) * GROUP;
    uint row_end = min(push.row + push.count, step_rows()), row_tiles = (row_end - min(push.row, row_end) + ROWS * lanes - 1) / (ROWS * lanes);
    if (x >= row_tiles || step_done()) return;
    // First and last tiles in turns: later ones see more slots, and drivers give a thread the next so many workgroups.
    uint row0 = push.row + (x % 2 == 0 ? x / 2 : row_tiles - 1 - x / 2) * ROWS * lanes;
    Head h = load_head(push.head + step_row(row0).y * KV_HEADS + kv);
    uint end = seen_end(h, min(row0 + ROWS * lanes, row_end) - 1), last = (h.offset + end) * PACKS - 1;

    uint seen[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint row = min(row0 + r * lanes + lane, row_end - 1);
        seen[r] = seen_end(h, row);
        [[unroll]] for (uint t = 0; t < HEAD_TILE; t++) {
            uint from = (row * HEADS + min(head0 + t, head_end - 1)) * QUADS;
            [[unroll]] for (uint i = 0; i < QUADS; i++) {
                q[(r * HEAD_TILE + t) * QUADS + i] = LOAD(Q, from + i);
                o[(r * HEAD_TILE + t) * QUADS + i] = vec4(0);
            }
        }
    }
    float most[QUERIES], sum[QUERIES];
    [[unroll]] for (uint n = 0; n < QUERIES; n++) {
        most[n] = NEVER;
        sum[n] = 0;
    }
    uint base = 0;
    [[dont_unroll]] do {
        uint first = (h.offset + base) * PACKS; // what lies behind the last slot weighs nothing, and is read as it
        [[unroll]] for (uint i = 0; i < SLOTS * PACKS; i += SPREAD ? lanes : 1) put(SPREAD ? i / lanes : i, LOAD(K, min(first + i + (SPREAD ? lane : 0), last)));
        float e[SLOTS * QUERIES];
        [[unroll]] for (uint i = 0; i < SLOTS * QUERIES; i++) e[i] = 0;
        [[unroll]] for (uint d = 0; d < QUADS; d++)
            [[unroll]] for (uint s = 0; s < SLOTS; s++) {
                vec4 k = part(s, d);
                [[unroll]] for (uint n = 0; n < QUERIES; n++) e[s * QUERIES + n] += dot(k, q[n * QUADS + d]);
            }
        float shrink[QUERIES];
        [[unroll]] for (uint n = 0; n < QUERIES; n++) {
            float before = most[n];
            [[unroll]] for (uint s = 0; s < SLOTS; s++) {
                e[s * QUERIES + n] = base + s < seen[n / HEAD_TILE] ? e[s * QUERIES + n] : NEVER;
                most[n] = max(most[n], e[s * QUERIES + n]);
            }
            shrink[n] = exp_of(before - most[n]);
            sum[n] *= shrink[n];
            [[unroll]] for (uint s = 0; s < SLOTS; s++) {
                e[s * QUERIES + n] = exp_of(e[s * QUERIES + n] - most[n]);
                sum[n] += e[s * QUERIES + n];
            }
        }
        [[unroll]] for (uint i = 0; i < SLOTS * PACKS; i += SPREAD ? lanes : 1) put(SPREAD ? i / lanes : i, LOAD(V, min(first + i + (SPREAD ? lane : 0), last)));
        [[unroll]] for (uint d = 0; d < QUADS; d++) {
            [[unroll]] for (uint n = 0; n < QUERIES; n++) o[n * QUADS + d] *= shrink[n];
            [[unroll]] for (uint s = 0; s < SLOTS; s++) {
                vec4 v = part(s, d);
                [[unroll]] for (uint n = 0; n < QUERIES; n++) o[n * QUADS + d] += e[s * QUERIES + n] * v;
            }
        }
        base += SLOTS;
    } while (base < end);
    [[unroll]] for (uint n = 0; n < QUERIES; n++) {
        uint row = row0 + n / HEAD_TILE * lanes + lane, head = head0 + n % HEAD_TILE;
        if (row >= row_end || head >= head_end) continue;
        float scale = 1.0 / sum[n];
        [[unroll]] for (uint i = 0; i < HEAD_DIM / 4; i++) y[row * push.y_stride + head * (HEAD_DIM / 4) + i] = o[n * QUADS + i] * scale;
    }
}
