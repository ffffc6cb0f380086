#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "input.glsl"
#include "include/step.glsl"
#include "reduce.glsl"
#include "include/planes.glsl"
#include "block.glsl"
#include "include/silu.glsl"
// y[c][row] = sum over k of w[row][k] x[c][k], then the epilogue; x may be normed on the way as rms_norm.comp does it. An
// invocation owns ROWS weight rows and COLS activation rows; RUN invocations share them, each taking every RUN-th block
// of 32 columns. Grid: x over groups of weight rows, y over tiles of COLS activation rows. Layout of the planes:
// include/planes.glsl. Twin: ref/matmul.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint RUN = 1;      // invocations that share a weight row, a power of two
layout(constant_id = 2) const uint ROWS = 4;     // weight rows per invocation, a multiple of 4
layout(constant_id = 3) const uint COLS = 1;     // activation rows per invocation
layout(constant_id = 4) const uint EPILOGUE = 0; // 0 y = p; 1 y = res + p; 2 y = silu(p[2i]) p[2i+1]; 3 y = silu(p) res
layout(constant_id = 5) const uint BIASED = 0;   // 1: p has Bias added
layout(constant_id = 6) const uint OUTS = 0;     // 1: the activation rows are those whose logits are wanted
layout(constant_id = 7) const uint NORMED = 0;   // elements of x that count for its norm, 0: x is taken as it is; with OUTS the rows of x are then the step's
layout(constant_id = 8) const uint RANGES = 0;   // of attend_token.comp, whose parts X is, brought together here; 0: X is x. Needs SPREAD and RUN 1
layout(constant_id = 9) const uint HEADS = 1;    // query heads in the parts
layout(constant_id = 10) const uint HEAD_QUADS = 1; // vec4 per head of x
layout(constant_id = 11) const uint PAD_QUADS = 1;  // the same in the parts
layout(push_constant) uniform Push {
    uint steps;    // blocks per invocation: blocks of 32 columns / RUN
    uint first;    // first row of this slice of the matrix
    uint count;    // rows of the whole matrix
    uint x_stride; // vec4 per row of x
    uint x_offset; // vec4 before this matrix's first input in a row of x
    uint y_stride; // f32 per row of y and res
    uint y_offset; // f32 before this matrix's first output in a row of y and res
    float eps;     // of the norm
} push;
IN_UVEC4(1, W)                                         // weight plane
IN_UVEC4(2, S)                                         // scale plane
IN_VEC4(3, X)                                          // (rows, x_stride) f32, zero past the columns; or parts, as attend_token.comp leaves them
IN_VEC4(4, Norm)                                       // (columns) f32, zero past them
IN_FLOAT(5, Bias)                                      // (count) f32
IN_FLOAT(6, Res)                                       // (rows, y_stride) f32
layout(binding = 7) writeonly buffer Y { float y[]; }; // (rows, y_stride) f32

#define PART(i) LOAD(X, i)
#include "include/parts.glsl"
#include "include/fours.glsl"
#include "include/product.glsl"
#include "include/epilogue.glsl"
#include "include/store.glsl"

uint from[COLS];  // first vec4 of the activation rows
float norm[COLS]; // what they are multiplied by

vec4 activation(uint c, uint k) {
    vec4 v = RANGES > 0 ? merged(from[c], k) : LOAD(X, from[c] + k);
    return NORMED > 0 ? v * norm[c] * LOAD(Norm, k) : v;
}

void main() {
    uint rows = OUTS == 1 ? step_outs() : step_rows(), col0 = gl_WorkGroupID.y * COLS;
    if (col0 >= rows || step_done()) return;
    uint lanes = gl_WorkGroupSize.x, lane = gl_LocalInvocationID.x, group = gl_WorkGroupID.x;
    [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) acc[i] = 0;
    [[unroll]] for (uint c = 0; c < COLS; c++) {
        uint col = min(col0 + c, rows - 1); // a tile's columns past the rows repeat the last one: nothing lies behind it
        from[c] = (NORMED > 0 && OUTS == 1 ? step_out(col) : col) * push.x_stride + push.x_offset;
        if (NORMED > 0) {
            float squares = 0;
            for (uint i = lane; i < push.steps * RUN * 8; i += lanes) {
                vec4 v = LOAD(X, from[c] + i);
                squares += dot(v, v);
            }
            norm[c] = inversesqrt(reduce_add(squares) / float(NORMED) + push.eps);
        }
    }
    add_blocks(group, push.steps, 0, 0);
    if (RUN > 1) {
        [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) acc[i] = reduce_run(acc[i], RUN);
        if (lane % RUN != 0) return;
    }
    store_all(col0, rows, group, lanes / RUN, lane / RUN);
}
