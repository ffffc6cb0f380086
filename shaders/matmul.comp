#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "input.glsl"
#include "include/step.glsl"
#include "reduce.glsl"
#include "block.glsl"
// y[c][row] = sum over k of w[row][k] x[c][k], then the epilogue. An invocation owns ROWS weight rows and COLS activation
// rows; RUN invocations share them, each taking every RUN-th block of 32 columns. Grid: x over groups of weight rows,
// y over tiles of COLS activation rows. Layout of the planes: include/planes.glsl. Twin: ref/matmul.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint RUN = 1;      // invocations that share a weight row, a power of two
layout(constant_id = 2) const uint ROWS = 4;     // weight rows per invocation, a multiple of 4
layout(constant_id = 3) const uint COLS = 1;     // activation rows per invocation
layout(constant_id = 4) const uint EPILOGUE = 0; // 0 y = p; 1 y = res + p; 2 y = silu(p[2i]) p[2i+1]; 3 y = silu(p) res
layout(constant_id = 5) const uint BIASED = 0;   // 1: p has Bias added
layout(constant_id = 6) const uint OUTS = 0;     // 1: the activation rows are those whose logits are wanted
layout(push_constant) uniform Push {
    uint steps;    // blocks per invocation: blocks of 32 columns / RUN
    uint first;    // first row of this slice of the matrix
    uint count;    // rows of the whole matrix
    uint x_stride; // vec4 per row of x
    uint y_stride; // f32 per row of y and res
    uint y_offset; // f32 before this matrix's first output in a row of y and res
} push;
IN_UVEC4(1, W)                                         // weight plane
IN_UVEC4(2, S)                                         // scale plane
IN_VEC4(3, X)                                          // (rows, x_stride) f32, zero past the columns
IN_FLOAT(4, Bias)                                      // (count) f32
IN_FLOAT(5, Res)                                       // (rows, y_stride) f32
layout(binding = 6) writeonly buffer Y { float y[]; }; // (rows, y_stride) f32

const uint SPAN = 4 * PER_WORD; // weights per uvec4
float acc[ROWS * COLS];

float silu(float v) { return v / (1.0 + exp(-v)); }

void main() {
    uint rows = OUTS == 1 ? step_outs() : step_rows(), col0 = gl_WorkGroupID.y * COLS;
    if (col0 >= rows || step_done()) return;
    uint lanes = gl_WorkGroupSize.x, lane = gl_LocalInvocationID.x, group = gl_WorkGroupID.x;
    [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) acc[i] = 0;
    uint quad = group * push.steps * ROWS * QUADS * lanes + lane;
    uint scale = group * push.steps * (ROWS / 4) * lanes + lane;
    uint from[COLS], at = lane % RUN * 8; // a tile's columns past the rows repeat the last one: nothing lies behind it
    [[unroll]] for (uint c = 0; c < COLS; c++) from[c] = min(col0 + c, rows - 1) * push.x_stride;
    for (uint step = 0; step < push.steps; step++) {
        float x[32 * COLS], sum[COLS];
        [[unroll]] for (uint c = 0; c < COLS; c++) {
            sum[c] = 0;
            [[unroll]] for (uint i = 0; i < 8; i++) {
                vec4 v = LOAD(X, from[c] + at + i);
                [[unroll]] for (uint e = 0; e < 4; e++) {
                    uint j = (i * 4 + e) % PER_WORD;
                    if (SCALED) sum[c] += presum(j) * v[e];
                    x[c * 32 + i * 4 + e] = v[e] * prescale(j);
                }
            }
        }
        [[unroll]] for (uint r = 0; r < ROWS; r += 4) {
            uvec4 scales = SCALED ? LOAD(S, scale + r / 4 * lanes) : uvec4(0);
            [[unroll]] for (uint p = 0; p < 4; p++) {
                float dots[COLS];
                [[unroll]] for (uint c = 0; c < COLS; c++) dots[c] = 0;
                [[unroll]] for (uint w = 0; w < QUADS; w++) {
                    uvec4 q = LOAD(W, quad + ((r + p) * QUADS + w) * lanes);
                    [[unroll]] for (uint i = 0; i < 4; i++) {
                        float f[PER_WORD];
                        [[unroll]] for (uint j = 0; j < PER_WORD; j++) f[j] = weight(q[i], j);
                        [[unroll]] for (uint c = 0; c < COLS; c++) {
                            uint o = c * 32 + w * SPAN + i * PER_WORD;
                            float part = f[0] * x[o];
                            [[unroll]] for (uint j = 1; j < PER_WORD; j++) part += f[j] * x[o + j];
                            dots[c] += part;
                        }
                    }
                }
                [[unroll]] for (uint c = 0; c < COLS; c++) acc[c * ROWS + r + p] += combine(scales[p], dots[c], sum[c]);
            }
        }
        quad += ROWS * QUADS * lanes;
        scale += ROWS / 4 * lanes;
        at += RUN * 8;
    }
    if (RUN > 1) {
        [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) acc[i] = reduce_run(acc[i], RUN);
        if (lane % RUN != 0) return;
    }
    uint row_lanes = lanes / RUN, row0 = push.first + group * ROWS * row_lanes + lane / RUN;
    [[unroll]] for (uint c = 0; c < COLS; c++) {
        if (col0 + c >= rows) return;
        uint base = (col0 + c) * push.y_stride + push.y_offset;
        if (EPILOGUE == 2) { // an invocation's rows 2i and 2i + 1 are gate and up of one output
            [[unroll]] for (uint r = 0; r < ROWS; r += 2) {
                uint o = push.first / 2 + (group * ROWS + r) / 2 * row_lanes + lane / RUN;
                if (o >= push.count / 2) continue;
                float gate = acc[c * ROWS + r], up = acc[c * ROWS + r + 1];
                if (BIASED == 1) {
                    gate += LOAD1(Bias, o);
                    up += LOAD1(Bias, push.count / 2 + o);
                }
                y[base + o] = silu(gate) * up;
            }
        } else {
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                uint row = row0 + r * row_lanes;
                if (row >= push.count) continue;
                float p = acc[c * ROWS + r];
                if (BIASED == 1) p += LOAD1(Bias, row);
                if (EPILOGUE == 1) p += LOAD1(Res, base + row);
                if (EPILOGUE == 3) p = silu(p) * LOAD1(Res, base + row);
                y[base + row] = p;
            }
        }
    }
}
