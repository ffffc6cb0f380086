// Q8_0: 32 weights w = d q, q in -128..127. Byte j of word i is weight 4i + j; bytes 0 to 2 are stored as q + 128 so
// that they can be masked where they stand (256^j in the weight, 256^-j in the activation), byte 3 stays signed.
// Scale word: d as f32.
const uint WORDS = 8;    // of weights per block
const uint PER_WORD = 4; // weights per word
const uint PARTS = 1;    // of a block, with a scale each
const uint SCALES = PER_BLOCK;

float weight(uint word, uint j) { return j == 3 ? float(int(word) >> 24) : float(int(word & (0xFFu << (8 * j)))); }
float prescale(uint j) { return j == 3 ? 1.0 : exp2(-8.0 * float(j)); }
float presum(uint j) { return j == 3 ? 0.0 : -128.0; } // what x adds to the sum that multiplies the block's offset

float combine(uvec2 scale, uint part, float dots, float sum) { return uintBitsToFloat(scale.x) * (dots + sum); }
