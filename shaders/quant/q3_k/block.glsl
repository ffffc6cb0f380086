// Q3_K: 32 weights w = d s (q - 4), q in 0..7, ten to a word, the last two in the words' top bits; s in -32..31 for each
// 16 weights. Scale: the bytes s of both parts, and of the super-block d as f16.
// Codes are masked where they stand, as in q4_0.
const uint WORDS = 3;    // of weights per block
const uint PER_WORD = 10;// weights per word, and two in the words' top bits
const uint PARTS = 2;    // of a block, with a scale each
const uint SCALES = PER_SUPER;

float weight(uint word, uint j) { return float(int(word & (0x7u << (3 * j)))); }
float prescale(uint j) { return exp2(-3.0 * float(j)); }
float presum(uint j) { return -4.0; } // what x adds to the sum that multiplies the block's offset

float combine(uvec2 scale, uint part, float dots, float sum) {
    return unpackHalf2x16(scale.y).x * float(bitfieldExtract(int(scale.x), int(8 * part), 8)) * (dots + sum);
}
