#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#pragma forms(shared)
#include "input.glsl"
#include "include/step.glsl"
#include "include/planes.glsl"
#include "block.glsl"
#include "include/silu.glsl"
// matmul_half.comp by cooperative matrices: subgroups multiply pieces of the tile, M x K of weights with K x N of activations,
// of f16 into f32, by what a device has for that. Its compiler knows them as NVIDIA's, the generator makes Khronos' of them.
// For devices with VK_KHR_cooperative_matrix of such a size. Twin: ref/matmul.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint PLANE_LANES = 64; // invocations of matmul.comp that the planes are made for
layout(constant_id = 2) const uint RUN = 32;         // of them, how many share a weight row
layout(constant_id = 3) const uint ROWS = 4;         // weight rows per such invocation
layout(constant_id = 4) const uint TILE_ROWS = 64;   // weight rows per workgroup
layout(constant_id = 5) const uint TILE_COLS = 32;   // activation rows per workgroup, a divisor of its size
layout(constant_id = 6) const uint OWN_ROWS = 16;    // weight rows per subgroup, a multiple of M
layout(constant_id = 7) const uint OWN_COLS = 16;    // activation rows per subgroup, a multiple of N
layout(constant_id = 8) const uint EPILOGUE = 0;     // 0 y = p; 1 y = res + p; 2 y = silu(p[2i]) p[2i+1]; 3 y = silu(p) res
layout(constant_id = 9) const uint BIASED = 0;       // 1: p has Bias added
layout(constant_id = 10) const uint OUTS = 0;        // 1: the activation rows are those whose logits are wanted
layout(constant_id = 11) const uint NORMED = 0;      // elements of x that count for its norm, 0: x is taken as it is; with OUTS the rows of x are then the step's
layout(constant_id = 12) const uint M = 16;          // of the matrices: weight rows, an even number,
layout(constant_id = 13) const uint N = 16;          // activation rows
layout(constant_id = 14) const uint K = 16;          // and columns, a divisor of 32
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
shared float16_t w_tile[32 * TILE_ROWS]; // (32 columns, TILE_ROWS)
shared float16_t x_tile[32 * TILE_COLS]; // (32 columns, TILE_COLS)
shared float pieces[TILE_ROWS / OWN_ROWS * (TILE_COLS / OWN_COLS) * M * N]; // (subgroups, N, M): of what is to be stored
#include "include/weights.glsl"
#include "include/epilogue.glsl"
#include "include/tile.glsl"

void put_weight(uint i, float v) { w_tile[i] = float16_t(clamp(v, -65504.0, 65504.0)); } // an infinity would poison the sums
void put_activation(uint i, float v) { x_tile[i] = float16_t(v); }

void main() {
    uint rows = OUTS == 1 ? step_outs() : step_rows(), tile0 = gl_WorkGroupID.x * TILE_ROWS, col0 = gl_WorkGroupID.y * TILE_COLS;
    if (col0 >= rows || step_done()) return;
    uint row0 = gl_SubgroupID % (TILE_ROWS / OWN_ROWS) * OWN_ROWS, own0 = gl_SubgroupID / (TILE_ROWS / OWN_ROWS) * OWN_COLS; // in the tile
    fcoopmatNV<32, gl_ScopeSubgroup, M, N> acc[OWN_ROWS / M * (OWN_COLS / N)];
    [[unroll]] for (uint i = 0; i < acc.length(); i++) acc[i] = fcoopmatNV<32, gl_ScopeSubgroup, M, N>(0.0);
    open_tile(col0, rows, push.blocks);
    [[dont_unroll]] for (uint block = 0; block < push.blocks; block++) {
        fill_tile(tile0, block, push.blocks);
        barrier(); // the tile is there
        [[unroll]] for (uint k = 0; k < 32; k += K) {
            fcoopmatNV<16, gl_ScopeSubgroup, M, K> w[OWN_ROWS / M];
            [[unroll]] for (uint i = 0; i < OWN_ROWS / M; i++) coopMatLoadNV(w[i], w_tile, k * TILE_ROWS + row0 + i * M, TILE_ROWS, true);
            [[unroll]] for (uint j = 0; j < OWN_COLS / N; j++) {
                fcoopmatNV<16, gl_ScopeSubgroup, K, N> x;
                coopMatLoadNV(x, x_tile, k * TILE_COLS + own0 + j * N, TILE_COLS, false);
                [[unroll]] for (uint i = 0; i < OWN_ROWS / M; i++) acc[j * (OWN_ROWS / M) + i] = coopMatMulAddNV(w[i], x, acc[j * (OWN_ROWS / M) + i]);
            }
        }
        barrier(); // nobody needs it any more
    }
    close_tile();
    [[unroll]] for (uint n = 0; n < acc.length(); n++) {
        coopMatStoreNV(acc[n], pieces, gl_SubgroupID * M * N, M, true);
        barrier(); // every subgroup's piece is there
        for (uint i = gl_SubgroupInvocationID * 2; i < M * N; i += gl_SubgroupSize * 2) {
            uint col = own0 + n / (OWN_ROWS / M) * N + i / M, row = tile0 + row0 + n % (OWN_ROWS / M) * M + i % M, at = gl_SubgroupID * M * N + i;
            if (col0 + col < rows) store_tile((col0 + col) * push.y_stride + push.y_offset, row, pieces[at] * found[col].x, pieces[at + 1] * found[col].x);
        }
        barrier(); // nobody needs them any more
    }
}
