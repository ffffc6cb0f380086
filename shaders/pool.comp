#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
#include "include/step.glsl"
#include "include/heads.glsl"
// score = what the observation window gave a token and its neighbours (SnapKV, arXiv 2404.14469): for each query head the
// maximum or mean over `kernel` tokens around it in order of position, centred and clipped to the tokens before the window,
// the mean always over `kernel`; then the sum, mean or maximum over the group. Tokens of the window keep their plain sums.
// One lane per slot; slots lie in order of position. Grid: x over splits, y over KV heads, z over sequences.
// Twin: ref/observe.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SPLIT = 64;    // slots per split
layout(constant_id = 2) const uint KV_HEADS = 2;
layout(constant_id = 3) const uint GROUP = 2;     // query heads per KV head
layout(push_constant) uniform Push {
    uint head;    // first entry of the layer in Table
    uint stride;  // of sums, in slots
    uint window;  // last tokens that are observed
    uint kernel;  // neighbours that are pooled
    uint average; // 1: mean; 0: maximum
} push;
IN_FLOAT(2, Sums)                                              // (sequences, heads, slots) f32
IN_UVEC2(3, Slots)                                             // (slots) position, score
layout(binding = 4) writeonly buffer SlotsOut { uvec2 slots_out[]; }; // the same slots, with their new scores

void main() {
    uint split = gl_WorkGroupID.x, kv = gl_WorkGroupID.y, seq = gl_WorkGroupID.z;
    if (step_done() || step_seq(seq).y == 0) return;
    Head h = load_head(push.head + seq * KV_HEADS + kv);
    int before = int(h.live) - int(push.window); // slots before the window
    for (uint i = gl_LocalInvocationID.x; i < SPLIT; i += gl_WorkGroupSize.x) {
        uint slot = split * SPLIT + i;
        if (slot >= h.live) return;
        int first = max(int(slot) - int(push.kernel / 2), 0), end = min(int(slot) + int(push.kernel / 2) + 1, before);
        if (int(slot) >= before) {
            first = int(slot);
            end = first + 1;
        }
        float score = 0;
        for (uint q = 0; q < GROUP; q++) {
            uint at = (seq * KV_HEADS * GROUP + kv * GROUP + q) * push.stride;
            float sum = 0, most = 0;
            for (int n = first; n < end; n++) {
                float v = LOAD1(Sums, at + n);
                sum += v;
                most = max(most, v);
            }
            float pooled = push.average == 1 && int(slot) < before ? sum / float(push.kernel) : most;
            score = reduction(h.rule) == REDUCE_MAX ? max(score, pooled) : score + pooled;
        }
        if (reduction(h.rule) == REDUCE_MEAN) score /= float(GROUP);
        slots_out[h.offset + slot] = uvec2(LOAD2(Slots, h.offset + slot).x, floatBitsToUint(score));
    }
}
