// Q4_1: 32 weights w = d q + m, q in 0..15. Nibble j of word i is weight 8i + j. Scale word: d, m as two f16.
// A nibble is masked where it stands, which multiplies it by 16^j; the activation carries 16^-j, an exact factor.
const uint QUADS = 1;    // uvec4 of weights per block
const uint PER_WORD = 8; // weights per 32-bit word
const bool SCALED = true;  // a scale plane exists

float weight(uint word, uint j) { return j == 7 ? float(int(word >> 28)) : float(int(word & (0xFu << (4 * j)))); }
float prescale(uint j) { return j == 7 ? 1.0 : exp2(-4.0 * float(j)); }
float presum(uint j) { return 1.0; } // what x adds to the sum that multiplies the block's offset

float combine(uint scale, float dots, float sum) {
    vec2 dm = unpackHalf2x16(scale);
    return dm.x * dots + dm.y * sum;
}
