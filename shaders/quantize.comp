#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#pragma forms(texel storage)
#include "input.glsl"
#include "include/step.glsl"
// Activations as int8 for matmul_int8.comp: of every 32 columns q = x / d rounded to even, d = max |x| / 127. Two rows share
// a word, q of the even one + 2^16 q of the odd one; the last row of an odd number is beside zeros. Where not all of x is
// finite, d is not a number. One invocation per block of 32 columns of two rows. Grid: x over blocks, y over pairs of rows.
// Twin: ref/quantize.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint OUTS = 0; // 1: the rows are those whose logits are wanted
layout(push_constant) uniform Push {
    uint blocks;   // of 32 columns in a row
    uint x_stride; // vec4 per row of x
} push;
IN_VEC4(1, X)                                           // (rows, x_stride) f32
layout(binding = 2) writeonly buffer Q { uvec4 q[]; };  // (pairs of rows, blocks, 32) two rows' int8 to a word
layout(binding = 3) writeonly buffer D { vec2 d[]; };   // (pairs of rows, blocks) d of both

const uint QUADS = 8; // vec4 per block
const float MOST = 127.0;
const uint INFINITY = 0x7F800000, NAN = 0x7FC00000;

void main() {
    uint rows = OUTS == 1 ? step_outs() : step_rows(), row0 = gl_WorkGroupID.y * 2;
    uint block = gl_WorkGroupID.x * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (row0 >= rows || block >= push.blocks || step_done()) return;
    uvec4 words[QUADS];
    vec2 scales = vec2(0);
    [[unroll]] for (uint i = 0; i < QUADS; i++) words[i] = uvec4(0);
    [[unroll]] for (uint r = 0; r < 2; r++) {
        vec4 x[QUADS];
        uint bits = 0; // of the largest |x|: they are in order as the numbers are, and what is not finite lies above
        [[unroll]] for (uint i = 0; i < QUADS; i++) {
            x[i] = LOAD(X, min(row0 + r, rows - 1) * push.x_stride + block * QUADS + i);
            if (row0 + r >= rows) x[i] = vec4(0);
            uvec4 size = floatBitsToUint(x[i]) & 0x7FFFFFFF;
            bits = max(bits, max(max(size.x, size.y), max(size.z, size.w)));
        }
        float most = uintBitsToFloat(bits), steps = bits == 0 || bits >= INFINITY ? 0.0 : MOST / most;
        scales[r] = bits >= INFINITY ? uintBitsToFloat(NAN) : most / MOST;
        [[unroll]] for (uint i = 0; i < QUADS; i++)
            words[i] += uvec4(clamp(ivec4(roundEven(x[i] * steps)), ivec4(-MOST), ivec4(MOST))) << (16 * r);
    }
    uint at = gl_WorkGroupID.y * push.blocks + block;
    [[unroll]] for (uint i = 0; i < QUADS; i++) q[at * QUADS + i] = words[i];
    d[at] = scales;
}
