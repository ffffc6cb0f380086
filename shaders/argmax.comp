#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
#include "include/step.glsl"
#include "reduce.glsl"
// token = argmax of the logits, the lower id where they are equal. One workgroup per wanted row. Twin: ref/argmax.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint VOCAB = 64; // logits per row
layout(push_constant) uniform Push {
    uint stride; // vec4 per row of logits
} push;
IN_VEC4(1, Logits)                                              // (wanted rows, 4 stride) f32
layout(binding = 2) writeonly buffer Tokens { uint tokens[]; }; // (wanted rows) token ids

const uint NONE = 0xFFFFFFFFu;

void main() {
    uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x, row = gl_WorkGroupID.x;
    if (row >= step_outs() || step_done()) return;
    float most = -3.402823e38;
    uint best = NONE;
    for (uint i = lane; i < (VOCAB + 3) / 4; i += lanes) {
        vec4 v = LOAD(Logits, row * push.stride + i);
        for (uint e = 0; e < 4; e++)
            if (v[e] > most && i * 4 + e < VOCAB) {
                most = v[e];
                best = i * 4 + e;
            }
    }
    float top = reduce_max(most);
    best = reduce_min(most == top ? best : NONE);
    if (lane == 0) tokens[row] = best;
}
