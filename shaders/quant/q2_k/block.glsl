// Q2_K: 32 weights w = d s q - dmin m, q in 0..3, s and m in 0..15 for each 16 weights. Scale: the bytes s + 16 m of both
// parts, and of the super-block d, dmin as two f16. Codes are masked where they stand, as in q4_0.
const uint WORDS = 2;    // of weights per block
const uint PER_WORD = 16; // weights per word
const uint PARTS = 2;    // of a block, with a scale each
const uint SCALES = PER_SUPER;

float weight(uint word, uint j) { return j == 15 ? float(int(word >> 30)) : float(int(word & (0x3u << (2 * j)))); }
float prescale(uint j) { return j == 15 ? 1.0 : exp2(-2.0 * float(j)); }
float presum(uint j) { return 1.0; } // what x adds to the sum that multiplies the block's offset

float combine(uvec2 scale, uint part, float dots, float sum) {
    vec2 dm = unpackHalf2x16(scale.y);
    uint sm = scale.x >> (8 * part);
    return dm.x * float(sm & 0xF) * dots - dm.y * float(sm >> 4 & 0xF) * sum;
}
