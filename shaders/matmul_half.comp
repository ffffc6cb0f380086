#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#pragma forms(shared)
#include "input.glsl"
#include "include/step.glsl"
#include "include/planes.glsl"
#include "block.glsl"
#include "include/silu.glsl"
// matmul_tile.comp with tiles of f16, which take half of the shared memory and of its bandwidth; sums are f32. For devices
// with shaderFloat16. Twin: ref/matmul.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint PLANE_LANES = 64; // invocations of matmul.comp that the planes are made for
layout(constant_id = 2) const uint RUN = 32;         // of them, how many share a weight row
layout(constant_id = 3) const uint ROWS = 4;         // weight rows per such invocation
layout(constant_id = 4) const uint TILE_ROWS = 64;   // weight rows per workgroup
layout(constant_id = 5) const uint TILE_COLS = 32;   // activation rows per workgroup, a divisor of its size
layout(constant_id = 6) const uint OWN_ROWS = 4;     // weight rows per invocation, a multiple of 4
layout(constant_id = 7) const uint OWN_COLS = 4;     // activation rows per invocation, a multiple of 4
layout(constant_id = 8) const uint EPILOGUE = 0;     // 0 y = p; 1 y = res + p; 2 y = silu(p[2i]) p[2i+1]; 3 y = silu(p) res
layout(constant_id = 9) const uint BIASED = 0;       // 1: p has Bias added
layout(constant_id = 10) const uint OUTS = 0;        // 1: the activation rows are those whose logits are wanted
layout(constant_id = 11) const uint NORMED = 0;      // elements of x that count for its norm, 0: x is taken as it is; with OUTS the rows of x are then the step's
layout(push_constant) uniform Push {
    uint blocks;   // of 32 columns, a multiple of RUN
    uint first;    // first row of this slice of the matrix
    uint height;   // rows of the slice's planes
    uint count;    // rows of the whole matrix
    uint x_stride; // vec4 per row of x
    uint x_offset; // vec4 before this matrix's first input in a row of x
    uint y_stride; // f32 per row of y and res
    uint y_offset; // f32 before this matrix's first output in a row of y and res
    float eps;     // of the norm
} push;
IN_UVEC4(1, W)                                         // weight plane
IN_UVEC4(2, S)                                         // scale plane
IN_VEC4(3, X)                                          // (rows, x_stride) f32, zero past the columns
IN_VEC4(4, Norm)                                       // (columns) f32, zero past them
IN_FLOAT(5, Bias)                                      // (count) f32
IN_FLOAT(6, Res)                                       // (rows, y_stride) f32
layout(binding = 7) writeonly buffer Y { float y[]; }; // (rows, y_stride) f32

const bool HALVES = true;
shared f16vec4 w_tile[32 * TILE_ROWS / 4]; // (32 columns, TILE_ROWS)
shared f16vec4 x_tile[32 * TILE_COLS / 4]; // (32 columns, TILE_COLS)
#include "include/weights.glsl"
#include "include/epilogue.glsl"
#include "include/tile.glsl"
#include "include/outer.glsl"

void put_weight(uint i, float v) { w_tile[i / 4][i % 4] = float16_t(clamp(v, -65504.0, 65504.0)); } // an infinity would poison the sums
void put_activation(uint i, float v) { x_tile[i / 4][i % 4] = float16_t(v); }

void main() { multiply(); }
