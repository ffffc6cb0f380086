// Q4_K: 32 weights w = d s q - dmin m, q in 0..15, eight to a word; s and m in 0..63. Scale: the bytes s, m, and of the
// super-block d, dmin as two f16. Codes are masked where they stand, as in q4_0.
const uint WORDS = 4;    // of weights per block
const uint PER_WORD = 8; // weights per word
const uint PARTS = 1;    // of a block, with a scale each
const uint SCALES = PER_SUPER;

float weight(uint word, uint j) { return j == 7 ? float(int(word >> 28)) : float(int(word & (0xFu << (4 * j)))); }
float prescale(uint j) { return j == 7 ? 1.0 : exp2(-4.0 * float(j)); }
float presum(uint j) { return 1.0; } // what x adds to the sum that multiplies the block's offset

float combine(uvec2 scale, uint part, float dots, float sum) {
    vec2 dm = unpackHalf2x16(scale.y);
    return dm.x * float(scale.x & 0xFF) * dots - dm.y * float(scale.x >> 8) * sum;
}
