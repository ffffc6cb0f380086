// Attention in parts, as attend_token.comp leaves it: for every query head RANGES times 4 PAD_QUADS f32 and four of maximum
// and sum. The kernel that includes it has the constants RANGES, HEADS, HEAD_QUADS and PAD_QUADS, and PART(i),
// which loads vec4 i of them.

// Element k of a row of attention: sum of f o over the parts of its head, with f = exp(m - max m) / sum of exp(m - max m) sum.
vec4 merged(uint from, uint k) {
    uint base = from + min(k / HEAD_QUADS, HEADS - 1) * RANGES * (PAD_QUADS + 1);
    vec2 peaks[RANGES + 1];
    float most = -1e30, sum = 0;
    vec4 v = vec4(0);
    [[unroll]] for (uint p = 0; p < RANGES; p++) {
        peaks[p] = PART(base + p * (PAD_QUADS + 1) + PAD_QUADS).xy;
        most = max(most, peaks[p].x);
    }
    [[unroll]] for (uint p = 0; p < RANGES; p++) {
        float f = exp(peaks[p].x - most);
        sum += f * peaks[p].y;
        v += f * PART(base + p * (PAD_QUADS + 1) + k % HEAD_QUADS);
    }
    return k < HEADS * HEAD_QUADS ? v / sum : vec4(0);
}
