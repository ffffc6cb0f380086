#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#pragma forms(texel storage)
#pragma weights(mxfp4 q2_k q3_k q4_0 q4_1 q4_k q5_0 q5_1 q5_k q6_k)
#include "input.glsl"
#include "include/step.glsl"
#include "reduce.glsl"
#include "include/planes.glsl"
#include "block.glsl"
#include "include/silu.glsl"
// y[c][row] = sum over k of w[row][k] x[c][k], then the epilogue, of activations in int8, as quantize.comp leaves them: two
// rows to a word, so that one multiplication of 32 bits by a weight's code serves both. Their sums of CHUNK products are
// 16 bits each, for of every code CENTRE is taken off, and of the sum it is taken off once. An invocation owns ROWS weight
// rows and 2 PAIRS activation rows. Grid: x over groups of weight rows, y over tiles of activation rows. Layout of the
// planes: include/planes.glsl, with RUN 1. Twins: ref/matmul.go, ref/quantize.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 4;     // weight rows per invocation, a multiple of 4
layout(constant_id = 2) const uint PAIRS = 1;    // pairs of activation rows per invocation
layout(constant_id = 3) const uint EPILOGUE = 0; // 0 y = p; 1 y = res + p; 2 y = silu(p[2i]) p[2i+1]; 3 y = silu(p) res
layout(constant_id = 4) const uint BIASED = 0;   // 1: p has Bias added
layout(constant_id = 5) const uint OUTS = 0;     // 1: the activation rows are those whose logits are wanted
layout(push_constant) uniform Push {
    uint blocks;   // of 32 columns in a row
    uint first;    // first row of this slice of the matrix
    uint count;    // rows of the whole matrix
    uint y_stride; // f32 per row of y and res
    uint y_offset; // f32 before this matrix's first output in a row of y and res
} push;
IN_UVEC4(1, W)                                         // weight plane
IN_UVEC4(2, S)                                         // scale plane
IN_UVEC4(3, Q)                                         // (pairs of rows, blocks, 32) two rows' int8 to a word
IN_VEC2(4, D)                                          // (pairs of rows, blocks) what the int8 of both are multiplied by
IN_FLOAT(5, Bias)                                      // (count) f32
IN_FLOAT(6, Res)                                       // (rows, y_stride) f32
layout(binding = 7) writeonly buffer Y { float y[]; }; // (rows, y_stride) f32

#include "include/fours.glsl"
#include "include/epilogue.glsl"

const uint FIELD = 32 / PER_WORD;                      // of a code
const int CENTRE = 1 << (FIELD - 1);
const uint CHUNK = min(32 / PARTS, 256 >> (FIELD - 1)); // columns: CENTRE * 127 * CHUNK is below 2^15
const uint CHUNKS = 32 / CHUNK;

const uint COLS = 2 * PAIRS;
float acc[COLS * ROWS];
#include "include/store.glsl"

// The sums of both rows in a word.
ivec2 apart(int pair) { return ivec2(pair << 16 >> 16, pair + 0x8000 >> 16); }

void add_blocks(uint group, uint pair0, uint pairs) {
    uint lanes = gl_WorkGroupSize.x, lane = gl_LocalInvocationID.x, spread = min(lanes, 8u);
    uint quad = group * push.blocks * (ROWS / 4) * WORDS * lanes + lane;
    uint scale = first_scale(group, push.blocks, (push.blocks + SUPER - 1) / SUPER, lanes, lanes, lane, lane), block = 0;
    [[dont_unroll]] do { // the test stands at the end: before the body, lavapipe would run that once more, masked
        int x[32 * PAIRS], start[CHUNKS * PAIRS];
        vec2 d[PAIRS], sum[PARTS * PAIRS]; // of both rows
        if (SPREAD) hold(vec4(LOAD2(D, min(pair0 + lane % PAIRS, pairs - 1) * push.blocks + block), 0, 0));
        [[unroll]] for (uint c = 0; c < PAIRS; c++) d[c] = SPREAD ? held(c).xy : LOAD2(D, min(pair0 + c, pairs - 1) * push.blocks + block);
        [[unroll]] for (uint c = 0; c < PAIRS; c++) {
            uint at = (min(pair0 + c, pairs - 1) * push.blocks + block) * 8;
            int whole[CHUNKS];
            [[unroll]] for (uint n = 0; n < CHUNKS; n++) whole[n] = 0;
            [[unroll]] for (uint i = 0; i < 8; i++) {
                if (SPREAD && i % spread == 0) hold(uintBitsToFloat(LOAD(Q, at + i + lane % spread)));
                uvec4 v = SPREAD ? floatBitsToUint(held(i % spread)) : LOAD(Q, at + i);
                [[unroll]] for (uint e = 0; e < 4; e++) {
                    x[c * 32 + i * 4 + e] = int(v[e]);
                    whole[(i * 4 + e) / CHUNK] += int(v[e]);
                }
            }
            [[unroll]] for (uint p = 0; p < PARTS; p++) sum[c * PARTS + p] = vec2(0);
            [[unroll]] for (uint n = 0; n < CHUNKS; n++) {
                start[c * CHUNKS + n] = -CENTRE * whole[n];
                sum[c * PARTS + n * PARTS / CHUNKS] += d[c] * vec2(apart(whole[n]));
            }
        }
        [[unroll]] for (uint r = 0; r < ROWS; r += 4) {
            Scales scales = scales_of(scale, r / 4, block, lanes, lanes);
            uvec4 q[WORDS + 1];
            if (ACROSS) q = words_across(quad + r / 4 * WORDS * lanes, lanes);
            [[unroll]] for (uint row = 0; row < 4; row++) {
                if (!ACROSS) [[unroll]] for (uint n = 0; n < WORDS / 4; n++) q[n] = LOAD(W, quad + ((r + row) * (WORDS / 4) + n) * lanes);
                ivec2 dots[PARTS * PAIRS];
                int s[PAIRS];
                [[unroll]] for (uint n = 0; n < PARTS * PAIRS; n++) dots[n] = ivec2(0);
                uint w = 0, j = 0;
                [[unroll]] for (uint i = 0; i < 32; i++) {
                    int code = int((ACROSS ? q[w][row] : q[w / 4][w % 4]) >> (FIELD * j) & ((1u << FIELD) - 1));
                    [[unroll]] for (uint c = 0; c < PAIRS; c++) {
                        if (i % CHUNK == 0) s[c] = start[c * CHUNKS + i / CHUNK];
                        s[c] += code * x[c * 32 + i];
                        if (i % CHUNK == CHUNK - 1) dots[c * PARTS + i * PARTS / 32] += apart(s[c]);
                    }
                    w += j == PER_WORD - 1 ? 1 : 0;
                    j = j == PER_WORD - 1 ? 0 : j + 1;
                }
                [[unroll]] for (uint p = 0; p < PARTS; p++) {
                    uvec2 of = uvec2(scales.own[row], scales.above[row]);
                    float factor = combine(of, p, 1.0, 0.0), offset = combine(of, p, 0.0, presum(0)) + float(CENTRE) * factor;
                    [[unroll]] for (uint c = 0; c < PAIRS; c++) {
                        vec2 more = d[c] * (factor * vec2(dots[c * PARTS + p])) + offset * sum[c * PARTS + p];
                        acc[2 * c * ROWS + r + row] += more.x;
                        acc[(2 * c + 1) * ROWS + r + row] += more.y;
                    }
                }
            }
        }
        quad += ROWS / 4 * WORDS * lanes;
        if (SCALES != PER_SUPER) scale += ROWS / 4 * lanes;
    } while (++block < push.blocks);
}

void main() {
    uint rows = OUTS == 1 ? step_outs() : step_rows(), pair0 = gl_WorkGroupID.y * PAIRS;
    if (2 * pair0 >= rows || step_done()) return;
    uint lanes = gl_WorkGroupSize.x, lane = gl_LocalInvocationID.x, group = gl_WorkGroupID.x;
    [[unroll]] for (uint i = 0; i < COLS * ROWS; i++) acc[i] = 0;
    add_blocks(group, pair0, (rows + 1) / 2); // a tile's pairs past the rows repeat the last one: nothing lies behind it
    store_all(2 * pair0, rows, group, lanes, lane);
}
