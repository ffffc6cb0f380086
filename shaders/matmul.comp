#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "input.glsl"
#include "include/step.glsl"
#include "reduce.glsl"
#include "include/planes.glsl"
#include "block.glsl"
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

const bool ACROSS = WORDS % 4 != 0;   // a uvec4 of weights has a word of each of four rows, not four words of one
const uint FIELDS = WORDS * PER_WORD; // weights that lie in one word each; the others are spread over the words' top bits
const uint TOGETHER = COLS == 1 ? AT_ONCE : 1; // weight rows
float acc[ROWS * COLS];

// Element k of a row of attention: sum of f o over the parts of its head, with f = exp(m - max m) / sum of exp(m - max m) sum.
vec4 merged(uint from, uint k) {
    uint base = from + min(k / HEAD_QUADS, HEADS - 1) * RANGES * (PAD_QUADS + 1);
    vec2 peaks[RANGES + 1];
    float most = -1e30, sum = 0;
    vec4 v = vec4(0);
    [[unroll]] for (uint p = 0; p < RANGES; p++) {
        peaks[p] = LOAD(X, base + p * (PAD_QUADS + 1) + PAD_QUADS).xy;
        most = max(most, peaks[p].x);
    }
    [[unroll]] for (uint p = 0; p < RANGES; p++) {
        float f = exp(peaks[p].x - most);
        sum += f * peaks[p].y;
        v += f * LOAD(X, base + p * (PAD_QUADS + 1) + k % HEAD_QUADS);
    }
    return k < HEADS * HEAD_QUADS ? v / sum : vec4(0);
}

float silu(float v) { return v / (1.0 + exp(-v)); }

void main() {
    uint rows = OUTS == 1 ? step_outs() : step_rows(), col0 = gl_WorkGroupID.y * COLS;
    if (col0 >= rows || step_done()) return;
    uint lanes = gl_WorkGroupSize.x, lane = gl_LocalInvocationID.x, group = gl_WorkGroupID.x;
    [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) acc[i] = 0;
    uint row_lanes = lanes / RUN, records = (push.steps * RUN + SUPER - 1) / SUPER;
    uint quad = group * push.steps * (ROWS / 4) * WORDS * lanes + lane;
    uint scale = SCALES == PER_SUPER ? group * records * (ROWS / 4) * RECORD * row_lanes + lane / RUN : group * push.steps * (ROWS / 4) * lanes + lane;
    uint from[COLS], at = lane % RUN * 8;
    float norm[COLS];
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
    uint step = 0;
    [[dont_unroll]] do { // the test stands at the end: before the body, lavapipe would run that once more, masked
        float x[32 * COLS], sum[PARTS * COLS];
        [[unroll]] for (uint c = 0; c < COLS; c++) {
            [[unroll]] for (uint p = 0; p < PARTS; p++) sum[c * PARTS + p] = 0;
            [[unroll]] for (uint i = 0; i < 8; i++) {
                vec4 v;
                if (RUN == 1 && SPREAD) { // all lanes need the same: each loads a part and hands it to the others
                    if (i % min(lanes, 8u) == 0) {
                        uint k = at + i + lane % 8;
                        v = RANGES > 0 ? merged(from[c], k) : LOAD(X, from[c] + k);
                        if (NORMED > 0) v = v * norm[c] * LOAD(Norm, k);
                        hold(v);
                    }
                    v = held(i % min(lanes, 8u));
                    if (i % min(lanes, 8u) == min(lanes, 8u) - 1) release();
                } else {
                    v = LOAD(X, from[c] + at + i);
                    if (NORMED > 0) v = v * norm[c] * LOAD(Norm, at + i);
                }
                [[unroll]] for (uint e = 0; e < 4; e++) {
                    uint n = i * 4 + e, j = n % PER_WORD;
                    if (SCALES != NONE) sum[c * PARTS + n * PARTS / 32] += presum(j) * v[e];
                    x[c * 32 + n] = v[e] * prescale(j);
                }
            }
        }
        [[unroll]] for (uint r = 0; r < ROWS; r += 4) {
            uvec4 scales = uvec4(0), supers = uvec4(0);
            if (SCALES == PER_BLOCK) scales = LOAD(S, scale + r / 4 * lanes);
            if (SCALES == PER_SUPER) {
                uint block = at / 8, record = scale + (block / SUPER * (ROWS / 4) + r / 4) * RECORD * row_lanes;
                supers = LOAD(S, record);
                scales = LOAD(S, record + (1 + block % SUPER / 2) * row_lanes) >> (block % 2 * 16) & 0xFFFF;
            }
            uvec4 q[WORDS + 1];
            if (ACROSS) {
                [[unroll]] for (uint n = 0; n < WORDS; n++) q[n] = LOAD(W, quad + (r / 4 * WORDS + n) * lanes);
                q[WORDS] = uvec4(0);
                if (FIELDS < 32) [[unroll]] for (uint n = 0; n < WORDS; n++) q[WORDS] |= q[n] >> 30 << (2 * n);
            }
            [[unroll]] for (uint first = 0; first < 4; first += TOGETHER) {
                // Rows worked on together: their loads wait for nothing, and while one sum waits for a term the others go on.
                if (!ACROSS) [[unroll]] for (uint n = 0; n < TOGETHER * (WORDS / 4); n++) q[n] = LOAD(W, quad + ((r + first) * (WORDS / 4) + n) * lanes);
                float dots[TOGETHER * COLS * PARTS], sub[TOGETHER * COLS];
                [[unroll]] for (uint n = 0; n < TOGETHER * COLS * PARTS; n++) dots[n] = 0;
                uint w = 0, j = 0;
                [[unroll]] for (uint i = 0; i < 32; i++) { // a sum for each word and part
                    bool begins = j == 0 || i * PARTS % 32 == 0, ends = j == PER_WORD - 1 || (i + 1) * PARTS % 32 == 0;
                    float f[TOGETHER];
                    [[unroll]] for (uint p = 0; p < TOGETHER; p++) f[p] = weight(ACROSS ? q[w][first + p] : q[p * (WORDS / 4) + w / 4][w % 4], j);
                    [[unroll]] for (uint c = 0; c < COLS; c++)
                        [[unroll]] for (uint p = 0; p < TOGETHER; p++) {
                            uint n = c * TOGETHER + p;
                            float product = f[p] * x[c * 32 + i];
                            sub[n] = begins ? product : sub[n] + product;
                            if (ends) dots[n * PARTS + i * PARTS / 32] += sub[n];
                        }
                    w += j == PER_WORD - 1 ? 1 : 0;
                    j = j == PER_WORD - 1 ? 0 : j + 1;
                }
                [[unroll]] for (uint c = 0; c < COLS; c++)
                    [[unroll]] for (uint p = 0; p < TOGETHER; p++)
                        [[unroll]] for (uint part = 0; part < PARTS; part++)
                            acc[c * ROWS + r + first + p] += combine(uvec2(scales[first + p], supers[first + p]), part, dots[(c * TOGETHER + p) * PARTS + part], sum[c * PARTS + part]);
            }
        }
        quad += ROWS / 4 * WORDS * lanes;
        if (SCALES != PER_SUPER) scale += ROWS / 4 * lanes;
        at += RUN * 8;
    } while (++step < push.steps);
    if (RUN > 1) {
        [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) acc[i] = reduce_run(acc[i], RUN);
        if (lane % RUN != 0) return;
    }
    uint row0 = push.first + group * ROWS * row_lanes + lane / RUN;
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
