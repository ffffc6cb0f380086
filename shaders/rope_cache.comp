#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
#include "include/scales.glsl"
#include "include/half.glsl"
#include "pack.glsl"
// Splits the fused projection of each row: q is rotated and scaled, k is rotated and goes with v into the cache slot that
// follows the live ones; the slot learns its position and its score at birth. One invocation per UNIT dimensions of a head.
// Where K and V have two types, q and k heads are one dispatch, v heads another.
// Rotation of pair (a, b): (a cos - b sin, b cos + a sin). Twin: ref/rope_cache.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint Q_HEADS = 4;   // query heads
layout(constant_id = 2) const uint KV_HEADS = 2;
layout(constant_id = 3) const uint HEAD_DIM = 32; // dimensions of a head
layout(constant_id = 4) const uint HEAD_PAD = 32; // the same, padded: what q and the cache hold
layout(constant_id = 5) const uint ROPE_DIM = 32; // leading dimensions that are rotated
layout(constant_id = 6) const uint HALVES = 0;    // 0: pairs are neighbours; 1: pairs lie ROPE_DIM / 2 apart
layout(constant_id = 7) const uint RENUMBER = 0;  // 1: q is rotated to its place in the cache, k where it is read
layout(push_constant) uniform Push {
    uint head;     // first entry of the layer in Table
    uint x_stride; // f32 per row of x
    float scale;   // of q: 1 / sqrt(HEAD_DIM)
    uint begin;    // first head of this dispatch, of q, k and v heads
    uint count;    // heads of this dispatch
    uint k_plane;  // first uvec4 of scales in k
    uint v_plane;  // first uvec4 of scales in v
} push;
IN_FLOAT(2, X)                                                // (rows, x_stride) f32: q heads, k heads, v heads
IN_VEC2(3, Rope)                                              // (positions, ROPE_DIM / 2) cos, sin
layout(binding = 4) writeonly buffer Q { vec4 q[]; };         // (rows, Q_HEADS, HEAD_PAD) f32
layout(binding = 5) writeonly buffer K { uvec4 k[]; };        // (slots, HEAD_PAD) packed, scales
layout(binding = 6) writeonly buffer V { uvec4 v[]; };        // (slots, HEAD_PAD) packed, scales
layout(binding = 7) writeonly buffer Slots { uvec2 slots[]; }; // (slots) position, score as f32 bits

const uint PACKS = HEAD_PAD / PACK;                           // uvec4 per head and slot
const uint UNITS = (HEAD_PAD + UNIT - 1) / UNIT;              // invocations per head
const uint SCALES = (HEAD_PAD + 2 * BLOCK - 1) / (2 * BLOCK); // words of scales per slot

// Element d of a head, rotated to a position, or left as it is. Keys that are rotated where they are read keep their pairs
// side by side, and so do their queries.
float turned(uint head, uint d, uint pos, bool still) {
    if (d >= ROPE_DIM) return LOAD1(X, head + d);
    const uint half_dim = ROPE_DIM / 2;
    const bool sorted = HALVES == 1 && RENUMBER == 0; // first elements of all pairs, then second ones
    bool second = sorted ? d >= half_dim : d % 2 == 1;
    uint pair = sorted ? d % half_dim : d / 2;
    uint one = HALVES == 1 ? pair : pair * 2, other = one + (HALVES == 1 ? half_dim : 1);
    float a = LOAD1(X, head + (second ? other : one));
    if (still) return a;
    vec2 turn = LOAD2(Rope, pos * half_dim + pair);
    float b = LOAD1(X, head + (second ? one : other)) * turn.y;
    return a * turn.x + (second ? b : -b);
}

void main() {
    uint i = gl_GlobalInvocationID.x, row = gl_GlobalInvocationID.y;
    if (i >= push.count * UNITS || row >= step_rows() || step_done()) return;
    uvec4 r = step_row(row);
    uint head = push.begin + i / UNITS, unit = i % UNITS, pos = r.z;
    bool is_q = head < Q_HEADS, is_v = head >= Q_HEADS + KV_HEADS;
    uint from = row * push.x_stride + head * HEAD_DIM, first_row = step_seq(r.y).x;
    uint kv = is_q ? head / (Q_HEADS / KV_HEADS) : (head - Q_HEADS) % KV_HEADS;
    Head h = load_head(push.head + r.y * KV_HEADS + kv);
    uint place = h.live + row - first_row; // in the head's cache
    float x[UNIT];
    for (uint e = 0; e < UNIT; e++) {
        uint d = unit * UNIT + e;
        x[e] = d >= HEAD_DIM ? 0.0 : is_v ? LOAD1(X, from + d) : turned(from, d, RENUMBER == 1 ? place : pos, RENUMBER == 1 && !is_q);
    }
    if (is_q) {
        for (uint e = 0; e < min(UNIT, HEAD_PAD - unit * UNIT); e += 4)
            q[((row * Q_HEADS + head) * HEAD_PAD + unit * UNIT + e) / 4] = push.scale * vec4(x[e], x[e + 1], x[e + 2], x[e + 3]);
        return;
    }
    uint slot = h.offset + place;
    uint first = unit * (UNIT / PACK), packs = min(UNIT / PACK, PACKS - first), word = slot * SCALES + unit;
    Packed p = pack(x);
    if (is_v) {
        for (uint n = 0; n < packs; n++) v[slot * PACKS + first + n] = p.data[n];
        if (SCALED) v[push.v_plane + word / 4][word % 4] = p.scales;
        return;
    }
    for (uint n = 0; n < packs; n++) k[slot * PACKS + first + n] = p.data[n];
    if (SCALED) k[push.k_plane + word / 4][word % 4] = p.scales;
    if (unit == 0) slots[slot] = uvec2(pos, floatBitsToUint(born(h.rule, pos)));
}
