#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
#include "include/step.glsl"
#include "reduce.glsl"
// nll[p + 1] = -log softmax(x)[t] = log(sum over i of exp(x[i] - m)) + m - x[t] for the logits x of every wanted row, p its
// position, t = text[p + 1], m = max x. t is also the row's next token, as if it had been sampled. One workgroup per wanted
// row. Twin: ref/nll.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint VOCAB = 64; // logits per row
layout(push_constant) uniform Push {
    uint stride; // vec4 per row of logits
} push;
IN_VEC4(1, Logits)                                              // (wanted rows, 4 stride) f32
IN_UINT(2, Text)                                                // (positions + 1) token ids
layout(binding = 3) writeonly buffer Nll { float nll[]; };      // (positions + 1) f32, nats
layout(binding = 4) writeonly buffer Tokens { uint tokens[]; }; // (wanted rows) token ids

const uint SPAN = 32; // vec4 per partial sum: 50,000 terms in one would lose the last digits that 1e-5 nats need

void main() {
    uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x, row = gl_WorkGroupID.x, quads = (VOCAB + 3) / 4;
    if (row >= step_outs() || step_done()) return;
    uint from = row * push.stride;
    float peak = -3.402823e38;
    for (uint i = lane; i < quads; i += lanes) {
        bvec4 counts = lessThan(uvec4(0, 1, 2, 3) + i * 4, uvec4(VOCAB));
        vec4 v = mix(vec4(peak), LOAD(Logits, from + i), counts);
        peak = max(max(v.x, v.y), max(v.z, max(v.w, peak)));
    }
    peak = reduce_max(peak);
    float sum = 0;
    for (uint i = lane; i < quads;) {
        vec4 part = vec4(0);
        for (uint n = 0; n < SPAN && i < quads; n++, i += lanes) {
            bvec4 counts = lessThan(uvec4(0, 1, 2, 3) + i * 4, uvec4(VOCAB));
            part += mix(vec4(0), exp(LOAD(Logits, from + i) - peak), counts);
        }
        sum += dot(part, vec4(1));
    }
    sum = reduce_add(sum);
    if (lane > 0) return;
    uint next = step_row(step_out(row)).z + 1, token = LOAD1(Text, next);
    nll[next] = log(sum) + (peak - LOAD(Logits, from + token / 4)[token % 4]);
    tokens[row] = token;
}
