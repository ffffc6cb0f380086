#version 450
#extension GL_GOOGLE_include_directive : require
#include "input.glsl"
#include "include/step.glsl"
// Makes the next step out of this one: every wanted row becomes the next row of its sequence with the sampled token, at
// the position after. Writes the tokens to the ring that the host reads. When every row met an end token, or one has none
// (0xffffffff), the step is done. Where penalties need it, counts how often each token stands among the last ones of the
// sequence: the new one enters, and the one before the window leaves. One invocation; the last dispatch of a decode step,
// whose rows are its wanted rows. Twin: ref/advance.go
layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push {
    uint rows;      // per ring entry
    uint entries;   // in the ring
    uint vocab;     // tokens per row of Seen, a multiple of 4
    uint positions; // per row of History
} push;
IN_UINT(1, Tokens)                                               // (wanted rows) token ids
IN_UINT(2, Ends)                                                 // count, then the end tokens
IN_UVEC4(3, Settings)                                            // (wanted rows, 4) uvec4, as in include/sampling.glsl
layout(binding = 4) writeonly buffer StepOut { uvec4 step_[]; }; // the same as Step
layout(binding = 5) writeonly buffer Ring { uint ring[]; };      // (ring, rows) token ids; entry t holds step t's
layout(binding = 6) buffer Seen { uvec2 seen[]; };               // (wanted rows, vocab) how often in the window, bias
layout(binding = 7) buffer History { uint history[]; };          // (wanted rows, positions) token ids

const uint COUNTS = 2; // flag of Settings: Seen and History are kept
const uint NONE = 0xFFFFFFFFu;

void main() {
    if (gl_GlobalInvocationID.x > 0 || step_done()) return;
    uvec4 head = LOAD(Step, 0);
    uint ended = 0;
    bool broken = false;
    for (uint r = 0; r < head.y; r++) {
        uint token = LOAD1(Tokens, r);
        uvec4 row = step_row(r), settings = LOAD(Settings, r * 4);
        uint position = row.z + 1, window = settings.w;
        step_[1 + r] = uvec4(token, row.y, position, row.w);
        ring[head.w % push.entries * push.rows + r] = token;
        broken = broken || token == NONE;
        for (uint i = 0; i < LOAD1(Ends, 0); i++)
            if (LOAD1(Ends, 1 + i) == token) {
                ended++;
                break;
            }
        if ((settings.x & COUNTS) == 0 || token >= push.vocab || position >= push.positions) continue;
        history[r * push.positions + position] = token;
        seen[r * push.vocab + token].x++;
        if (window > 0 && position >= window) seen[r * push.vocab + history[r * push.positions + position - window]].x--;
    }
    step_[0] = uvec4(head.x, head.y, broken || (ended == head.y && head.y > 0) ? 1 : 0, head.w + 1);
}
