// Q5_0: 32 weights w = d (q - 16), q in 0..31, six to a word, the last two in the words' top bits. Scale word: d as f32.
// Codes are masked where they stand, as in q4_0.
const uint WORDS = 5;    // of weights per block
const uint PER_WORD = 6; // weights per word, and two in the words' top bits
const uint PARTS = 1;    // of a block, with a scale each
const uint SCALES = PER_BLOCK;

float weight(uint word, uint j) { return float(int(word & (0x1Fu << (5 * j)))); }
float prescale(uint j) { return exp2(-5.0 * float(j)); }
float presum(uint j) { return -16.0; } // what x adds to the sum that multiplies the block's offset

float combine(uvec2 scale, uint part, float dots, float sum) { return uintBitsToFloat(scale.x) * (dots + sum); }
