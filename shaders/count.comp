#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
// Counts this step's tokens as live, where none ever goes: what evict.comp does for a cache without a budget. One invocation
// per KV head. Twin: ref/evict.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KV_HEADS = 2;
layout(push_constant) uniform Push {
    uint head;  // first entry of the layer in Table
    uint count; // entries
} push;
layout(binding = 2) writeonly buffer TableOut { uint table[]; }; // Table: live is written

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= push.count || step_done()) return;
    uint entry = push.head + i;
    table[entry * ENTRY_QUADS * 4 + 3] = load_head(entry).live + step_seq(i / KV_HEADS).y;
}
