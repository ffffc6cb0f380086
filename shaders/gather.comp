#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
#include "include/step.glsl"
// Copies the K or V of listed slots, which become consecutive ones. An invocation copies a uvec4 of data or a word of scales,
// then the one that lies all invocations further. Grid: x over the list, y over the heads of all sequences.
// Twin: ref/stage.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint QUADS = 4;   // uvec4 of a slot
layout(constant_id = 2) const uint SCALES = 0;  // words of scales of a slot
layout(push_constant) uniform Push {
    uint capacity;   // most slots of a list
    uint from_plane; // first uvec4 of scales in From
    uint to_plane;   // first uvec4 of scales in To
} push;
IN_UINT(1, Map)                                               // (heads): count, first slot from, first slot to, -, then (capacity) slots from
IN_UVEC4(2, From)                                             // (slots) packed, scales
layout(binding = 3) writeonly buffer To { uvec4 to_data[]; }; // (slots) packed, scales

void main() {
    if (step_done()) return;
    uint map0 = gl_WorkGroupID.y * (4 + push.capacity), parts = LOAD1(Map, map0) * (QUADS + SCALES);
    for (uint i = gl_GlobalInvocationID.x; i < parts; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint n = i / (QUADS + SCALES), part = i % (QUADS + SCALES);
        uint from = LOAD1(Map, map0 + 1) + LOAD1(Map, map0 + 4 + n), to = LOAD1(Map, map0 + 2) + n;
        if (part < QUADS) {
            to_data[to * QUADS + part] = LOAD(From, from * QUADS + part);
        } else {
            uint a = from * SCALES + part - QUADS, b = to * SCALES + part - QUADS;
            to_data[push.to_plane + b / 4][b % 4] = LOAD(From, push.from_plane + a / 4)[a % 4];
        }
    }
}
