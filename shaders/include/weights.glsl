// Weights of a repacked matrix as numbers, rounded as f32. The kernel that includes it has the planes W and S
// (include/planes.glsl) and a block.glsl.
const uint EIGHT = 8; // weights that are unpacked at once

// A word of a block; the one behind the last has the weights that lie in the others' top bits.
uint word_of(Place p, uint word, uint lanes) {
    if (WORDS % 4 == 0) return LOAD(W, p.weights + (p.part * (WORDS / 4) + word / 4) * lanes)[word % 4];
    if (word < WORDS) return LOAD(W, p.weights + word * lanes)[p.part];
    uint tops = 0;
    for (uint w = 0; w < WORDS; w++) tops |= LOAD(W, p.weights + w * lanes)[p.part] >> 30 << (2 * w);
    return tops;
}

// Weights `first` to first + 7, a multiple of eight, of a block that lies at p, of planes for so many lanes, `run` of which
// share a row.
float[EIGHT] weights_of(Place p, uint block, uint first, uint lanes, uint run) {
    uvec2 scale = uvec2(0);
    if (SCALES == PER_BLOCK) scale.x = LOAD(S, p.scales)[p.part];
    if (SCALES == PER_SUPER) {
        scale.x = LOAD(S, p.scales + (1 + block % SUPER / 2) * (lanes / run))[p.part] >> (block % 2 * 16) & 0xFFFF;
        scale.y = LOAD(S, p.scales)[p.part];
    }
    float v[EIGHT];
    [[unroll]] for (uint e = 0; e < EIGHT; e++) {
        uint i = first + e, j = i % PER_WORD;
        v[e] = combine(scale, i * PARTS / 32, weight(word_of(p, i / PER_WORD, lanes), j) * prescale(j), presum(j));
    }
    return v;
}
