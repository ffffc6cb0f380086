#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
#include "reduce.glsl"
#include "include/exp.glsl"
#include "include/scales.glsl"
#include "include/half.glsl"
#include "pack.glsl"
// First part of attention: e = exp(q k - m) for the slots of one split, with the split's own maximum m and sum of e.
// Grid: x over splits, y over KV heads and tiles of their query heads, z over tiles of rows. A lane takes every
// gl_WorkGroupSize.x-th slot, so that each K is read once for all queries of the tile. Rows of a tile are of one sequence.
// Splits have a fixed number of slots: results do not depend on the capacity. A split that no row of a tile may see is left
// as it is. Twin: ref/attend.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DEPTH = 8;      // slots per lane; a split has DEPTH * lanes
layout(constant_id = 2) const uint KV_HEADS = 2;
layout(constant_id = 3) const uint GROUP = 2;      // query heads per KV head
layout(constant_id = 4) const uint HEAD_TILE = 2;  // query heads per workgroup
layout(constant_id = 5) const uint ROW_TILE = 1;   // rows per workgroup
layout(constant_id = 6) const uint HEAD_PAD = 32;  // dimensions of a head in q and the cache
layout(constant_id = 7) const uint ROPE_DIM = 0;   // leading dimensions of K to be rotated to their rank; 0: K is rotated
layout(push_constant) uniform Push {
    uint head;   // first entry of the layer in Table
    uint row;    // first row of this slice of the step; e, m and sum start there
    uint rows;   // rows in the slice
    uint stride; // of e, in slots
    uint splits; // stride of m and sum, in splits
    uint plane;  // first uvec4 of scales in K
    uint ranks;  // first element of ranks in Slots; 0xffffffff: slots lie in order of position
} push;
IN_UVEC4(2, K)                                            // (slots, HEAD_PAD) packed, scales
IN_UVEC2(3, Slots)                                        // (slots) position, score; ranks
IN_VEC4(4, Q)                                             // (rows, heads, HEAD_PAD) f32, scaled
IN_VEC2(5, Rope)                                          // (positions, ROPE_DIM / 2) cos, sin
layout(binding = 6) writeonly buffer E { float e[]; };    // (slice rows, heads, slots) f32
layout(binding = 7) writeonly buffer Peaks { vec2 peaks[]; }; // (slice rows, heads, splits) m, sum

const uint PACKS = HEAD_PAD / PACK, TILES = (GROUP + HEAD_TILE - 1) / HEAD_TILE, HEADS = KV_HEADS * GROUP;
const uint QUERIES = HEAD_TILE * ROW_TILE, QUADS = HEAD_PAD / 4;
const uint SCALES = (HEAD_PAD + 2 * BLOCK - 1) / (2 * BLOCK); // words of scales per slot
const float NEVER = -1e30; // the logit of a masked slot

#include "include/ranks.glsl"

vec4 q[QUERIES * QUADS];
float logits[DEPTH * QUERIES];

void main() {
    uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x, split = gl_WorkGroupID.x;
    uint kv = gl_WorkGroupID.y / TILES, head0 = kv * GROUP + gl_WorkGroupID.y % TILES * HEAD_TILE;
    uint head_end = (kv + 1) * GROUP, row0 = push.row + gl_WorkGroupID.z * ROW_TILE;
    uint row_end = min(push.row + push.rows, step_rows());
    if (row0 >= row_end || step_done()) return;
    uint seq = step_row(row0).y;
    Head h = load_head(push.head + seq * KV_HEADS + kv);
    uint live = h.live + step_seq(seq).w, begin = split * DEPTH * lanes;
    if (begin >= seen_end(h, min(row0 + ROW_TILE, row_end) - 1)) return;

    uint pos[ROW_TILE];
    [[unroll]] for (uint r = 0; r < ROW_TILE; r++) {
        uint row = min(row0 + r, row_end - 1);
        pos[r] = step_row(row).z;
        [[unroll]] for (uint t = 0; t < HEAD_TILE; t++) {
            uint from = (row * HEADS + min(head0 + t, head_end - 1)) * QUADS;
            [[unroll]] for (uint i = 0; i < QUADS; i++) q[(r * HEAD_TILE + t) * QUADS + i] = LOAD(Q, from + i);
        }
    }
    float most[QUERIES], sum[QUERIES];
    [[unroll]] for (uint n = 0; n < QUERIES; n++) {
        most[n] = NEVER;
        sum[n] = 0;
    }
    [[dont_unroll]] for (uint s = 0; s < DEPTH; s++) {
        uint slot = begin + s * lanes + lane, held = min(slot, live - 1), at = h.offset + held;
        uint key_pos = LOAD2(Slots, at).x;
        vec2 scales[SCALES];
        if (SCALED) {
            [[unroll]] for (uint w = 0; w < SCALES; w++) scales[w] = unpackHalf2x16(LOAD(K, push.plane + (at * SCALES + w) / 4)[(at * SCALES + w) % 4]);
        }
        uint place = ROPE_DIM == 0 ? 0 : push.ranks == 0xFFFFFFFFu ? held : rank_of(push.ranks, h.offset, held, h.live);
        float dots[QUERIES];
        [[unroll]] for (uint n = 0; n < QUERIES; n++) dots[n] = 0;
        [[unroll]] for (uint p = 0; p < PACKS; p++) {
            float k[PACK] = unpack(LOAD(K, at * PACKS + p));
            if (ROPE_DIM > 0) {
                [[unroll]] for (uint i = 0; i < PACK; i += 2) {
                    if (p * PACK + i >= ROPE_DIM) continue;
                    vec2 turn = LOAD2(Rope, (place * ROPE_DIM + p * PACK + i) / 2);
                    float a = k[i], b = k[i + 1];
                    k[i] = a * turn.x - b * turn.y;
                    k[i + 1] = b * turn.x + a * turn.y;
                }
            }
            [[unroll]] for (uint n = 0; n < QUERIES; n++) {
                float sum = 0; // of a part: shorter sums round less
                [[unroll]] for (uint i = 0; i < PACK; i++) sum += k[i] * q[n * QUADS + (p * PACK + i) / 4][i % 4];
                dots[n] += SCALED ? scales[p * PACK / BLOCK / 2][p * PACK / BLOCK % 2] * sum : sum;
            }
        }
        [[unroll]] for (uint n = 0; n < QUERIES; n++) {
            float logit = slot < live && key_pos <= pos[n / HEAD_TILE] ? dots[n] : NEVER;
            logits[s * QUERIES + n] = logit;
            most[n] = max(most[n], logit);
        }
    }
    [[unroll]] for (uint n = 0; n < QUERIES; n++) most[n] = reduce_max(most[n]);
    uint first = row0 - push.row, rows = row_end - push.row;
    [[dont_unroll]] for (uint s = 0; s < DEPTH; s++) {
        uint slot = begin + s * lanes + lane;
        [[unroll]] for (uint n = 0; n < QUERIES; n++) {
            uint row = first + n / HEAD_TILE, head = head0 + n % HEAD_TILE;
            float logit = logits[s * QUERIES + n], v = logit == NEVER ? 0.0 : exp_of(logit - most[n]);
            sum[n] += v;
            if (row < rows && head < head_end) e[(row * HEADS + head) * push.stride + slot] = v;
        }
    }
    [[unroll]] for (uint n = 0; n < QUERIES; n++) {
        uint row = first + n / HEAD_TILE, head = head0 + n % HEAD_TILE;
        float total = reduce_add(sum[n]);
        if (lane == 0 && row < rows && head < head_end) peaks[(row * HEADS + head) * push.splits + split] = vec2(most[n], total);
    }
}
