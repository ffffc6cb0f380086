#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#pragma forms(texel)
#include "input.glsl"
#include "include/step.glsl"
#include "reduce.glsl"
#include "include/planes.glsl"
#include "block.glsl"
// Products of one activation row, one after the other in one dispatch: each is what matmul.comp would make of it, bit for
// bit, and reads what the ones before wrote. On CPU drivers a dispatch costs as much as a small product.
//
// Every workgroup goes through all products. Of each it takes groups of rows while there are any, by a counter, and then
// waits for those that others took. Nothing is assumed about when workgroups run: what another has taken and not finished
// after PATIENCE looks, because its thread stands still, is done once more. So no output may be an input of an earlier
// product, and two that write the same place write the same.
// Grid: as many workgroups as threads. Layout of the planes: include/planes.glsl. Twin: ref/matmul.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 4;        // weight rows per invocation, a multiple of 4
layout(constant_id = 2) const uint RANGES = 0;      // parts per head that are brought together first, for the first product to read; 0: none are
layout(constant_id = 3) const uint HEADS = 1;       // query heads in the parts
layout(constant_id = 4) const uint HEAD_QUADS = 1;  // vec4 per head of x
layout(constant_id = 5) const uint PAD_QUADS = 1;   // the same in the parts
layout(constant_id = 6) const uint RUN = 1;         // always, as is COLS: of include/product.glsl
layout(constant_id = 7) const uint COLS = 1;
layout(push_constant) uniform Push {
    uint first;    // product of this chain in Products
    uint count;    // products
    uint parts_at; // first vec4 of the parts
    uint own;      // first f32 of a row of each workgroup's own
    uint own_each; // f32 from one to the next
    uint patience; // looks
    float eps;     // of the norms
} push;
IN_UVEC4(1, W)                                // weight planes, scale planes and the norms' weights
IN_UVEC4(2, S)                                // the same
IN_UVEC4(3, Products)                         // (products, RECORDS): size, from, to
IN_VEC4(4, X)                                 // all activations
IN_FLOAT(5, Res)                              // the same
IN_VEC4(6, Parts)                             // as attend_token.comp leaves them
layout(binding = 7) coherent buffer Y { float y[]; };        // all activations
layout(binding = 8) coherent buffer State { uint state[]; }; // zero before: of each product the groups taken, those done, and for every group whether it is done

#define PART(i) LOAD(Parts, i)
#include "include/parts.glsl"
#include "include/product.glsl"

const uint RECORDS = 3;
uvec4 size; // blocks per row, groups of rows, rows, epilogue: as matmul.comp's
uvec4 from; // first vec4 of x, first uvec4 of the weights and of the scales, first word in State
uvec4 to;   // first f32 of y and of res, first uvec4 of the norm's weights, elements of x that count for the norm, 0: none
uint x;     // first vec4 of what is multiplied

void load(uint product) {
    size = LOAD(Products, product * RECORDS);
    from = LOAD(Products, product * RECORDS + 1);
    to = LOAD(Products, product * RECORDS + 2);
}

vec4 activation(uint c, uint k) { return LOAD(X, x + k); }

void own(uint k, vec4 v) {
    uint at = push.own + gl_WorkGroupID.x * push.own_each + 4 * k;
    [[unroll]] for (uint e = 0; e < 4; e++) y[at + e] = v[e];
}

// What the product multiplies: x as it is, or the workgroup's own row, which it fills with the parts brought together or
// with the normed x.
void prepare(uint product) {
    uint lanes = gl_WorkGroupSize.x, lane = gl_LocalInvocationID.x, quads = size.x * 8;
    bool parts = RANGES > 0 && product == 0;
    x = parts || to.w > 0 ? (push.own + gl_WorkGroupID.x * push.own_each) / 4 : from.x;
    if (parts)
        for (uint k = lane; k < quads; k += lanes) own(k, merged(push.parts_at, k));
    if (to.w > 0) {
        float squares = 0;
        for (uint k = lane; k < quads; k += lanes) {
            vec4 v = LOAD(X, from.x + k);
            squares += dot(v, v);
        }
        float norm = inversesqrt(reduce_add(squares) / float(to.w) + push.eps);
        for (uint k = lane; k < quads; k += lanes) own(k, LOAD(X, from.x + k) * norm * uintBitsToFloat(LOAD(W, to.z + k)));
    }
    memoryBarrierBuffer();
}

// A word of State, after something was added to it.
uint state_add(uint at, uint n) {
    uint before = 0;
    if (gl_LocalInvocationID.x == 0) before = atomicAdd(state[at], n);
    return reduce_add(before);
}

uint looks, seen; // since the product began: how often its state was looked at, and groups known to be done from the first on

// The next group to be done, `size.y` when all are.
uint next() {
    uint group = state_add(from.w, 1);
    if (group < size.y) return group;
    [[dont_unroll]] do {
        if (state_add(from.w + 1, 0) == size.y) return size.y;
    } while (++looks < push.patience);
    [[dont_unroll]] do {
        if (state_add(from.w + 2 + seen, 0) == 0) return seen;
    } while (++seen < size.y);
    return size.y;
}

void finish(uint group) {
    memoryBarrierBuffer();
    if (gl_LocalInvocationID.x == 0 && atomicExchange(state[from.w + 2 + group], 1) == 0) atomicAdd(state[from.w + 1], 1);
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

void main() {
    if (step_rows() == 0 || step_done()) return;
    uint product = 0;
    [[dont_unroll]] do {
        load(push.first + product);
        prepare(product);
        looks = seen = 0;
        uint group = next();
        if (group < size.y) [[dont_unroll]] do { // lavapipe would run what follows a test inside of the loop once more
            [[unroll]] for (uint i = 0; i < ROWS; i++) acc[i] = 0;
            add_blocks(group, size.x, from.y, from.z);
            store(group);
            finish(group);
            group = next();
        } while (group < size.y);
        memoryBarrierBuffer();
    } while (++product < push.count);
}
