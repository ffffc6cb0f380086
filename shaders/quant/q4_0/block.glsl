// Q4_0: 32 weights w = d (q - 8), q in 0..15. Nibble j of word i is weight 8i + j. Scale word: d as f32.
// A nibble is masked where it stands, which multiplies it by 16^j; the activation carries 16^-j, an exact factor.
const uint WORDS = 4;    // of weights per block
const uint PER_WORD = 8; // weights per word
const uint PARTS = 1;    // of a block, with a scale each
const uint SCALES = PER_BLOCK;

float weight(uint word, uint j) { return j == 7 ? float(int(word >> 28)) : float(int(word & (0xFu << (4 * j)))); }
float prescale(uint j) { return j == 7 ? 1.0 : exp2(-4.0 * float(j)); }
float presum(uint j) { return -8.0; } // what x adds to the sum that multiplies the block's offset

float combine(uvec2 scale, uint part, float dots, float sum) { return uintBitsToFloat(scale.x) * (dots + sum); }
