#version 450
#extension GL_GOOGLE_include_directive : require
#include "include/mixed.glsl"
// y = words of which the bits of `mask` are random and the others are those of `value`: weights, scales, keys and values
// that are numbers of their type, so that a model or a cache can be made without data. Number i of a seed is the same
// everywhere. Of a matrix's planes (include/planes.glsl) the blocks past the columns become zero; anything else has one
// block of one lane. One invocation per element. Grid: x over elements. Twin: ref/random.go
layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push {
    uint first;       // element that the first invocation writes
    uint end;         // elements before the end of what is written
    uint seed;
    uint mask;        // bits that are random
    uint value;       // the others
    uint plane_lanes; // invocations of a workgroup of the matrix product
    uint run;         // of them, how many share a row
    uint stride;      // elements from one block of a lane to its next
    uint steps;       // blocks per lane
    uint blocks;      // blocks per row that hold columns
} push;
layout(binding = 0) writeonly buffer Y { uvec4 y[]; };

void main() {
    uint i = push.first + gl_GlobalInvocationID.x;
    if (i >= push.end) return;
    uint block = i / push.stride % push.steps * push.run + i % push.plane_lanes % push.run;
    uvec4 v = uvec4(0);
    if (block < push.blocks)
        for (uint c = 0; c < 4; c++) v[c] = mixed(4 * i + c ^ mixed(push.seed)) & push.mask | push.value;
    y[i] = v;
}
