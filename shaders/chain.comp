#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#pragma forms(texel)
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
#include "reduce.glsl"
#include "include/planes.glsl"
#include "block.glsl"
#include "include/silu.glsl"
#include "include/half.glsl"
#include "pack.glsl"
#include "include/exp.glsl"
// Layers of a step of one row in one dispatch. Of each layer the attention, which is attend_token.comp's, then products one
// after the other, which are matmul.comp's, all bit for bit; each reads what the ones before wrote. Without ATTENDS it is
// the products alone. On CPU drivers a dispatch costs as much as a small product.
//
// Every workgroup goes through all of it. Of each product it takes groups of rows, and of an attention ranges of slots,
// while there are any, by a counter, and then waits for those that others took. Nothing is assumed about when workgroups
// run: what another has taken and not finished after so many looks, because its thread stands still, is done once more.
// So nothing that is written may have been read before in the dispatch, and two that write the same place write the same.
// Grid: as many workgroups as threads. Layout of the planes: include/planes.glsl. Twins: ref/matmul.go, ref/attend.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 4;       // weight rows per invocation, a multiple of 4
layout(constant_id = 2) const uint RUN = 1;        // always, as is COLS: of include/product.glsl
layout(constant_id = 3) const uint COLS = 1;
layout(constant_id = 4) const uint ATTENDS = 0;    // 1: layers begin with their attention
layout(constant_id = 5) const uint RANGES = 0;     // parts per head that are brought together first, for the first product of a layer to read; 0: none are
layout(constant_id = 6) const uint KV_HEADS = 2;   // from here on: attend_token.comp's
layout(constant_id = 7) const uint GROUP = 2;
layout(constant_id = 8) const uint HEAD_DIM = 32;
layout(constant_id = 9) const uint HEAD_PAD = 32;
layout(constant_id = 10) const uint DEPTH = 2;
layout(constant_id = 11) const uint HEAD_TILE = 2;
layout(constant_id = 12) const uint ROPE_DIM = 32;
layout(constant_id = 13) const uint WIDE = 8;
layout(constant_id = 14) const uint SCORED = 0;
layout(push_constant) uniform Push {
    uint first;    // layer in Layers
    uint count;    // layers
    uint entry;    // of the first layer's heads in Table
    uint head;     // of the first layer in a row of Parts, E and Peaks
    uint stride;   // of e, in slots
    uint splits;   // stride of peaks, in splits
    uint own;      // first f32 of a row of each workgroup's own
    uint own_each; // f32 from one to the next
    uint patience; // looks at most until others have finished what the next step needs
    uint looks;    // in all; then nobody is waited for
    float scale;   // of q: 1 / sqrt(HEAD_DIM)
    float eps;     // of the norms
} push;
IN_UVEC4(2, Layers)                           // layer: products, their first record, first vec4 of x for the attention, first word in State. Product of RECORDS: size, from, to
IN_UVEC4(3, W)                                // weight planes, scale planes and the norms' weights
IN_UVEC4(4, S)                                // the same
IN_VEC4(5, X)                                 // all activations
IN_FLOAT(6, Res)                              // the same
IN_VEC4(7, Parts)                             // as attend_token.comp leaves them
IN_UVEC4(8, K)                                // from here on: attend_token.comp's
IN_UVEC4(9, V)
IN_VEC4(10, Rope)
IN_FLOAT(19, Peaks)
layout(binding = 11) coherent buffer Y { float y[]; };        // all activations
layout(binding = 12) coherent buffer State { uint state[]; }; // zero before: of each attention and product the groups taken, those done, and for every group whether it is done
layout(binding = 13) writeonly buffer PartsOut { vec4 parts[]; };
layout(binding = 14) writeonly buffer KOut { uvec4 k_out[]; };
layout(binding = 15) writeonly buffer VOut { uvec4 v_out[]; };
layout(binding = 16) writeonly buffer SlotsOut { uvec2 slots[]; };
layout(binding = 17) writeonly buffer E { vec4 e_out[]; };
layout(binding = 18) writeonly buffer PeaksOut { float peaks[]; };
layout(binding = 20) writeonly buffer Shares { float shares[]; }; // as shares.comp leaves them

const uint HEADS = KV_HEADS * GROUP, HEAD_QUADS = HEAD_DIM / 4, PAD_QUADS = HEAD_PAD / 4;
#define PART(i) LOAD(Parts, i)
#include "include/parts.glsl"
#include "include/fours.glsl"
#include "include/product.glsl"
#include "include/token.glsl"
#include "include/shares.glsl"

const uint RECORDS = 3;
uvec4 size;    // blocks per row, groups of rows, rows, epilogue: as matmul.comp's
uvec4 from;    // first vec4 of x, first uvec4 of the weights and of the scales, first word in State
uvec4 to;      // first f32 of y and of res, first uvec4 of the norm's weights, elements of x that count for the norm, 0: none
uint at;       // first vec4 of what is multiplied
uint looks;    // at what others have done

void load(uint record) {
    size = LOAD(Layers, record);
    from = LOAD(Layers, record + 1);
    to = LOAD(Layers, record + 2);
}

vec4 activation(uint c, uint k) { return LOAD(X, at + k); }

void keep(uint k, vec4 v) {
    uint own = push.own + gl_WorkGroupID.x * push.own_each + 4 * k;
    [[unroll]] for (uint e = 0; e < 4; e++) y[own + e] = v[e];
}

// What the product multiplies: x as it is, or the workgroup's own row, which it fills with the given parts brought together
// or with the normed x.
void prepare(bool merges, uint first_part) {
    uint lanes = gl_WorkGroupSize.x, lane = gl_LocalInvocationID.x, quads = size.x * 8;
    at = merges || to.w > 0 ? (push.own + gl_WorkGroupID.x * push.own_each) / 4 : from.x;
    if (merges)
        for (uint k = lane; k < quads; k += lanes) keep(k, merged(first_part, k));
    if (to.w > 0) {
        float squares = 0;
        for (uint k = lane; k < quads; k += lanes) {
            vec4 v = LOAD(X, from.x + k);
            squares += dot(v, v);
        }
        float norm = inversesqrt(reduce_add(squares) / float(to.w) + push.eps);
        for (uint k = lane; k < quads; k += lanes) keep(k, LOAD(X, from.x + k) * norm * uintBitsToFloat(LOAD(W, to.z + k)));
    }
    memoryBarrierBuffer();
}

// A word of State, after something was added to it.
uint state_add(uint word, uint n) {
    uint before = 0;
    if (gl_LocalInvocationID.x == 0) before = atomicAdd(state[word], n);
    return reduce_add(before);
}

// Groups of an attention or a product, whose words in State these are.
struct Groups {
    uint words, count;
    uint seen;  // known to be done, from the first one on
    uint until; // looks
};

Groups groups_of(uint words, uint count) { return Groups(words, count, 0, min(looks + push.patience, push.looks)); }

// The next group to be done, `count` when all are.
uint next(inout Groups g) {
    uint group = state_add(g.words, 1);
    if (group < g.count) return group;
    [[dont_unroll]] do {
        if (state_add(g.words + 1, 0) == g.count) return g.count;
    } while (++looks < g.until);
    [[dont_unroll]] do {
        if (state_add(g.words + 2 + g.seen, 0) == 0) return g.seen;
    } while (++g.seen < g.count);
    return g.count;
}

// Says that a group is done, and tells whether it was the last one.
bool finish(Groups g, uint group) {
    memoryBarrierBuffer();
    uint last = 0;
    if (gl_LocalInvocationID.x == 0 && atomicExchange(state[g.words + 2 + group], 1) == 0) last = atomicAdd(state[g.words + 1], 1) + 1 == g.count ? 1 : 0;
    return reduce_add(last) == 1;
}

void store(uint group) {
    uint lanes = gl_WorkGroupSize.x, lane = gl_LocalInvocationID.x, row0 = group * ROWS * lanes + lane;
    bool pairs = size.w == 2; // an invocation's rows 2i and 2i + 1 are gate and up of one output
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint row = pairs ? (r % 2 == 0 ? (row0 - lane + r * lanes) / 2 + lane : size.z) : row0 + r * lanes;
        float v = size.w == 1 ? LOAD1(Res, to.y + row) + acc[r] : acc[r];
        if (pairs && r % 2 == 0) v = silu(acc[r]) * acc[r + 1];
        if (row < (pairs ? size.z / 2 : size.z)) y[to.x + row] = v;
    }
}

// Loops have their test at the end: lavapipe would run what follows a test inside of the loop once more.
void main() {
    if (step_rows() == 0 || step_done()) return;
    uint layer = 0;
    looks = 0;
    [[dont_unroll]] do {
        uvec4 l = LOAD(Layers, push.first + layer);
        uint head = push.head + layer * HEADS, entry = push.entry + layer * KV_HEADS;
        if (ATTENDS == 1) {
            Groups g = groups_of(l.w, RANGES * KV_HEADS * TILES);
            uint group = next(g);
            if (group < g.count) [[dont_unroll]] do {
                attend(0, group % RANGES, group / RANGES, l.z, head, entry);
                bool all = finish(g, group);
                if (SCORED == 1 && all) // nobody in this dispatch waits for it
                    for (uint q = 0; q < HEADS; q++)
                        share_out((head + q) * RANGES * (PAD_QUADS + 1), (head + q) * push.splits, load_head(entry + q / GROUP).live / (DEPTH * gl_WorkGroupSize.x) + 1);
                group = next(g);
            } while (group < g.count);
            memoryBarrierBuffer();
        }
        uint product = 0;
        [[dont_unroll]] do {
            load(l.y + product * RECORDS);
            prepare(RANGES > 0 && product == 0, head * RANGES * (PAD_QUADS + 1));
            Groups g = groups_of(from.w, size.y);
            uint group = next(g);
            if (group < g.count) [[dont_unroll]] do {
                [[unroll]] for (uint i = 0; i < ROWS; i++) acc[i] = 0;
                add_blocks(group, size.x, from.y, from.z);
                store(group);
                finish(g, group);
                group = next(g);
            } while (group < g.count);
            memoryBarrierBuffer();
        } while (++product < l.x);
    } while (++layer < push.count);
}
