// Blocks of weights as they lie in the planes W and S (include/planes.glsl), four rows of an invocation together.
const bool ACROSS = WORDS % 4 != 0; // a uvec4 of weights has a word of each of four rows, not four words of one

// The scale words of a block of each of four rows: the block's own and the super-block's.
struct Scales { uvec4 own, above; };

// First uvec4 of the scales of an invocation's rows, from that of its group of rows on.
uint first_scale(uint group, uint steps, uint records, uint lanes, uint row_lanes, uint lane, uint row_lane) {
    return SCALES == PER_SUPER ? group * records * RECORD * row_lanes * (ROWS / 4) + row_lane : group * steps * (ROWS / 4) * lanes + lane;
}

// Those of the block: `scale` is its own place or, for super-blocks, that of the first one.
Scales scales_of(uint scale, uint four, uint block, uint lanes, uint row_lanes) {
    Scales s = Scales(uvec4(0), uvec4(0));
    if (SCALES == PER_BLOCK) s.own = LOAD(S, scale + four * lanes);
    if (SCALES == PER_SUPER) {
        uint record = scale + (block / SUPER * (ROWS / 4) + four) * RECORD * row_lanes;
        s.above = LOAD(S, record);
        s.own = LOAD(S, record + (1 + block % SUPER / 2) * row_lanes) >> (block % 2 * 16) & 0xFFFF;
    }
    return s;
}

// The words of a block of four rows at uvec4 `quad`, where they lie across; behind them that of the weights which are spread
// over the others' top bits.
uvec4[WORDS + 1] words_across(uint quad, uint lanes) {
    uvec4 q[WORDS + 1];
    [[unroll]] for (uint n = 0; n < WORDS; n++) q[n] = LOAD(W, quad + n * lanes);
    q[WORDS] = uvec4(0);
    if (WORDS * PER_WORD < 32) [[unroll]] for (uint n = 0; n < WORDS; n++) q[WORDS] |= q[n] >> 30 << (2 * n);
    return q;
}
