// Q5_K: 32 weights w = d s q - dmin m, q in 0..31, six to a word, the last two in the words' top bits; s and m in 0..63.
// Scale: the bytes s, m, and of the super-block d, dmin as two f16. Codes are masked where they stand, as in q4_0.
const uint WORDS = 5;    // of weights per block
const uint PER_WORD = 6; // weights per word, and two in the words' top bits
const uint PARTS = 1;    // of a block, with a scale each
const uint SCALES = PER_SUPER;

float weight(uint word, uint j) { return float(int(word & (0x1Fu << (5 * j)))); }
float prescale(uint j) { return exp2(-5.0 * float(j)); }
float presum(uint j) { return 1.0; } // what x adds to the sum that multiplies the block's offset

float combine(uvec2 scale, uint part, float dots, float sum) {
    vec2 dm = unpackHalf2x16(scale.y);
    return dm.x * float(scale.x & 0xFF) * dots - dm.y * float(scale.x >> 8) * sum;
}
