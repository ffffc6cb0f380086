#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
#include "include/step.glsl"
// Makes the next step out of this one: every wanted row becomes the next row of its sequence with the sampled token, at
// the position after. Writes the tokens to the ring that the host reads. When every row met an end token the step is
// done. One invocation; the last dispatch of a decode step, whose rows are its wanted rows. Twin: ref/advance.go
layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push {
    uint rows;    // per ring entry
    uint entries; // in the ring
} push;
IN_UINT(1, Tokens)                                               // (wanted rows) token ids
IN_UINT(2, Ends)                                                 // count, then the end tokens
layout(binding = 3) writeonly buffer StepOut { uvec4 step_[]; }; // the same as Step
layout(binding = 4) writeonly buffer Ring { uint ring[]; };      // (ring, rows) token ids; entry t holds step t's

void main() {
    if (gl_GlobalInvocationID.x > 0 || step_done()) return;
    uvec4 head = LOAD(Step, 0);
    uint ended = 0;
    for (uint r = 0; r < head.y; r++) {
        uint token = LOAD1(Tokens, r);
        uvec4 row = step_row(r);
        step_[1 + r] = uvec4(token, row.y, row.z + 1, row.w);
        ring[head.w % push.entries * push.rows + r] = token;
        for (uint i = 0; i < LOAD1(Ends, 0); i++)
            if (LOAD1(Ends, 1 + i) == token) {
                ended++;
                break;
            }
    }
    step_[0] = uvec4(head.x, head.y, ended == head.y && head.y > 0 ? 1 : 0, head.w + 1);
}
