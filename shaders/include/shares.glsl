// What turns the e that attention of single tokens left into probabilities: f = exp(m - max m) / sum of exp(m - max m) sum,
// with the m of the split that e is of; maximum and sum go over the parts of the head. The kernel that includes it has the
// constants RANGES and PAD_QUADS and the inputs and outputs that are named here.

// Of a head whose parts begin at vec4 `part` and whose peaks, so many, begin at `peak`.
void share_out(uint part, uint peak, uint count) {
    float most = -1e30, sum = 0;
    for (uint p = 0; p < RANGES; p++) most = max(most, LOAD(Parts, part + p * (PAD_QUADS + 1) + PAD_QUADS).x);
    for (uint p = 0; p < RANGES; p++) {
        vec4 of = LOAD(Parts, part + p * (PAD_QUADS + 1) + PAD_QUADS);
        sum += exp_of(of.x - most) * of.y;
    }
    for (uint split = gl_LocalInvocationID.x; split < count; split += gl_WorkGroupSize.x)
        shares[peak + split] = exp_of(LOAD1(Peaks, peak + split) - most) / sum;
}
