#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
#include "include/step.glsl"
#include "reduce.glsl"
// kl[p + 1] = KL(f || x) = sum over i of softmax(f)[i] (log softmax(f)[i] - log softmax(x)[i]) for every wanted row, p its
// position: how far the logits x of a session are from f, those of one that forgets nothing. With a = f - max f and
// b = x - max x it is sum e^a (a - b) / sum e^a + log sum e^b - log sum e^a. One workgroup per wanted row. Twin: ref/kl.go
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint VOCAB = 64; // logits per row
layout(push_constant) uniform Push {
    uint stride; // vec4 per row of logits
} push;
IN_VEC4(1, Full)                                         // (wanted rows, 4 stride) f32
IN_VEC4(2, Logits)                                       // (wanted rows, 4 stride) f32
layout(binding = 3) writeonly buffer Kl { float kl[]; }; // (positions + 1) f32, nats

const uint SPAN = 32; // vec4 per partial sum, as in nll.comp

void main() {
    uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x, row = gl_WorkGroupID.x, quads = (VOCAB + 3) / 4;
    if (row >= step_outs() || step_done()) return;
    uint from = row * push.stride;
    float peak_f = -3.402823e38, peak_x = peak_f;
    for (uint i = lane; i < quads; i += lanes) {
        bvec4 counts = lessThan(uvec4(0, 1, 2, 3) + i * 4, uvec4(VOCAB));
        vec4 f = mix(vec4(peak_f), LOAD(Full, from + i), counts), x = mix(vec4(peak_x), LOAD(Logits, from + i), counts);
        peak_f = max(max(f.x, f.y), max(f.z, max(f.w, peak_f)));
        peak_x = max(max(x.x, x.y), max(x.z, max(x.w, peak_x)));
    }
    peak_f = reduce_max(peak_f);
    peak_x = reduce_max(peak_x);
    float sum_f = 0, sum_x = 0, cross = 0;
    for (uint i = lane; i < quads;) {
        vec4 part_f = vec4(0), part_x = vec4(0), part = vec4(0);
        for (uint n = 0; n < SPAN && i < quads; n++, i += lanes) {
            bvec4 counts = lessThan(uvec4(0, 1, 2, 3) + i * 4, uvec4(VOCAB));
            vec4 a = LOAD(Full, from + i) - peak_f, b = LOAD(Logits, from + i) - peak_x, e = exp(a);
            part_f += mix(vec4(0), e, counts);
            part_x += mix(vec4(0), exp(b), counts);
            part += mix(vec4(0), e * (a - b), counts);
        }
        sum_f += dot(part_f, vec4(1));
        sum_x += dot(part_x, vec4(1));
        cross += dot(part, vec4(1));
    }
    sum_f = reduce_add(sum_f);
    sum_x = reduce_add(sum_x);
    cross = reduce_add(cross);
    if (lane == 0) kl[step_row(step_out(row)).z + 1] = cross / sum_f + log(sum_x) - log(sum_f);
}
