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
// Attention of a prompt's rows in one walk over the slots: y = sum of e v / sum of e, with e = exp(q k - m) and the maximum
// m so far; when that grows, what is summed shrinks. The last m and the sum are left for scores: score_rows.comp.
// For drivers that run a subgroup as one vector: a lane is a row, or ROWS of them, so that nothing is combined over lanes.
// A slot's K and V are the same for all rows, and one fetch brings as many parts of them as there are lanes.
// Grid: x over tiles of rows, y over KV heads and tiles of their query heads. The rows are of one sequence, and
// tokens of the last slots, which lie in order of position: each sees the slots up to its own. Twin: ref/attend.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KV_HEADS = 2;
layout(constant_id = 2) const uint GROUP = 2;     // query heads per KV head
layout(constant_id = 3) const uint HEAD_TILE = 2; // query heads per workgroup
layout(constant_id = 4) const uint ROWS = 1;      // rows per lane
layout(constant_id = 5) const uint HEAD_DIM = 32; // dimensions of a head in y
layout(constant_id = 6) const uint HEAD_PAD = 32; // the same in q and the cache
layout(constant_id = 7) const uint ROPE_DIM = 0;  // leading dimensions of K to be rotated to their rank; 0: K is rotated
layout(constant_id = 8) const uint K_TYPE = 1;    // include/cached.glsl
layout(constant_id = 9) const uint V_TYPE = 1;
layout(constant_id = 10) const uint TOGETHER = 4; // slots that are looked at at once
layout(constant_id = 11) const uint VALUES = 1;   // 0: only m and sum are wanted
layout(push_constant) uniform Push {
    uint head;     // first entry of the layer in Table
    uint row;      // first of the sequence's rows in the step
    uint count;    // rows, at most
    uint y_stride; // f32 per row of y
    uint k_plane;  // first uvec4 of scales in K
    uint v_plane;  // first uvec4 of scales in V
    uint ranks;    // first element of ranks in Slots; 0xffffffff: slots lie in order of position
} push;
IN_UVEC4(2, K)                                           // (slots, HEAD_PAD) packed, scales
IN_UVEC4(3, V)                                           // (slots, HEAD_PAD) packed, scales
IN_UVEC2(4, Slots)                                       // (slots) position, score; ranks
IN_VEC4(5, Q)                                            // (rows, heads, HEAD_PAD) f32, scaled
IN_VEC2(6, Rope)                                         // (positions, ROPE_DIM / 2) cos, sin
layout(binding = 7) writeonly buffer Y { vec4 y[]; };    // (rows, y_stride) f32
layout(binding = 8) writeonly buffer Norms { vec2 norms[]; }; // (rows, heads) m, sum of e

const uint QUADS = HEAD_PAD / 4, HEADS = KV_HEADS * GROUP;
const uint K_PACKS = QUADS >> K_TYPE, V_PACKS = QUADS >> V_TYPE; // uvec4 of a slot
const uint TILES = (GROUP + HEAD_TILE - 1) / HEAD_TILE, QUERIES = HEAD_TILE * ROWS;
const float NEVER = -1e30; // the logit of a slot that a row does not see

#include "include/placed.glsl"

vec4 q[QUERIES * QUADS], o[QUERIES * QUADS];
vec4 parts[TOGETHER * QUADS]; // of K or V of some slots: as they were fetched, or where SPREAD is false in order

// Part i of what this lane fetched, from uvec4 number `at` of K or V.
void put_key(uint i, uint at, uint offset, uint ranked) {
    uvec4 packed = LOAD(K, at);
    uint slot = at / K_PACKS, quad = at % K_PACKS << K_TYPE, word = scale_word(slot, QUADS, quad / 8), place = 0;
    float scale = 1;
    if (has_scales(K_TYPE)) scale = scale_of(LOAD(K, push.k_plane + word / 4), word, quad / 8);
    if (ROPE_DIM > 0) place = place_of(slot - offset, offset, ranked);
    [[unroll]] for (uint n = 0; n < 1 << K_TYPE; n++) {
        vec4 k = quad_of(K_TYPE, packed, n);
        if (has_scales(K_TYPE)) k *= scale;
        if (ROPE_DIM > 0) k = turned(k, place, quad + n);
        parts[(i << K_TYPE) + n] = k;
    }
}

void put_value(uint i, uint at) {
    uvec4 packed = LOAD(V, at);
    uint slot = at / V_PACKS, quad = at % V_PACKS << V_TYPE, word = scale_word(slot, QUADS, quad / 8);
    float scale = 1;
    if (has_scales(V_TYPE)) scale = scale_of(LOAD(V, push.v_plane + word / 4), word, quad / 8);
    [[unroll]] for (uint n = 0; n < 1 << V_TYPE; n++) {
        vec4 v = quad_of(V_TYPE, packed, n);
        if (has_scales(V_TYPE)) v *= scale;
        parts[(i << V_TYPE) + n] = v;
    }
}

// A quad of one of the slots.
vec4 part(uint type, uint slot, uint quad) {
    if (!SPREAD) return parts[slot * QUADS + quad];
    uint lanes = gl_WorkGroupSize.x, pack = slot * (QUADS >> type) + (quad >> type);
    hold(parts[(pack / lanes << type) + quad % (1 << type)]);
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
    uint added = step_seq(step_row(row0).y).w, live = h.live + added, last = LOAD2(Slots, h.offset + live - 1).x;
    uint end = added == 0 ? live : live - (last - step_row(min(row0 + ROWS * lanes, row_end) - 1).z);

    uint seen[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint row = min(row0 + r * lanes + lane, row_end - 1);
        seen[r] = live - (last - step_row(row).z);
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
    const uint step = SPREAD ? lanes : 1; // uvec4 that one load brings
    uint own = SPREAD ? lane : 0, base = 0;
    [[dont_unroll]] do { // what lies behind the last slot weighs nothing, and is read as it
        [[unroll]] for (uint i = 0; i < TOGETHER * K_PACKS; i += step) put_key(i / step, min((h.offset + base) * K_PACKS + i + own, (h.offset + end) * K_PACKS - 1), h.offset, h.live);
        float e[TOGETHER * QUERIES];
        [[unroll]] for (uint i = 0; i < TOGETHER * QUERIES; i++) e[i] = 0;
        [[unroll]] for (uint d = 0; d < QUADS; d++)
            [[unroll]] for (uint s = 0; s < TOGETHER; s++) {
                vec4 k = part(K_TYPE, s, d);
                [[unroll]] for (uint n = 0; n < QUERIES; n++) e[s * QUERIES + n] += dot(k, q[n * QUADS + d]);
            }
        float shrink[QUERIES];
        [[unroll]] for (uint n = 0; n < QUERIES; n++) {
            float before = most[n];
            [[unroll]] for (uint s = 0; s < TOGETHER; s++) {
                e[s * QUERIES + n] = base + s < seen[n / HEAD_TILE] ? e[s * QUERIES + n] : NEVER;
                most[n] = max(most[n], e[s * QUERIES + n]);
            }
            shrink[n] = exp_of(before - most[n]);
            sum[n] *= shrink[n];
            [[unroll]] for (uint s = 0; s < TOGETHER; s++) {
                e[s * QUERIES + n] = exp_of(e[s * QUERIES + n] - most[n]);
                sum[n] += e[s * QUERIES + n];
            }
        }
        if (VALUES == 1) {
            [[unroll]] for (uint i = 0; i < TOGETHER * V_PACKS; i += step) put_value(i / step, min((h.offset + base) * V_PACKS + i + own, (h.offset + end) * V_PACKS - 1));
            [[unroll]] for (uint d = 0; d < QUADS; d++) {
                [[unroll]] for (uint n = 0; n < QUERIES; n++) o[n * QUADS + d] *= shrink[n];
                [[unroll]] for (uint s = 0; s < TOGETHER; s++) {
                    vec4 v = part(V_TYPE, s, d);
                    [[unroll]] for (uint n = 0; n < QUERIES; n++) o[n * QUADS + d] += e[s * QUERIES + n] * v;
                }
            }
        }
        base += TOGETHER;
    } while (base < end);
    [[unroll]] for (uint n = 0; n < QUERIES; n++) {
        uint row = row0 + n / HEAD_TILE * lanes + lane, head = head0 + n % HEAD_TILE, first = row * push.y_stride + head * HEAD_DIM;
        if (row >= row_end || head >= head_end) continue;
        norms[row * HEADS + head] = vec2(most[n], sum[n]);
        if (VALUES == 0) continue;
        float scale = 1.0 / sum[n];
        if (HEAD_DIM % 4 == 0) {
            [[unroll]] for (uint i = 0; i < HEAD_DIM / 4; i++) y[first / 4 + i] = o[n * QUADS + i] * scale;
        } else {
            [[unroll]] for (uint d = 0; d < HEAD_DIM; d++) y[(first + d) / 4][(first + d) % 4] = o[n * QUADS + d / 4][d % 4] * scale;
        }
    }
}
