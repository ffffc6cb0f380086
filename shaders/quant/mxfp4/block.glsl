// MXFP4: 32 weights w = d v, v one of 0, 1, 2, 3, 4, 6, 8, 12 or their negatives, twice an e2m1 number. What is stored is
// v + 12 in five bits, six to a word, the last two in the words' top bits: a product costs less than it takes to make v out
// of four. Scale word: d, half a power of two, as f32. Codes are masked where they stand, as in q4_0.
const uint WORDS = 5;    // of weights per block
const uint PER_WORD = 6; // weights per word, and two in the words' top bits
const uint PARTS = 1;    // of a block, with a scale each
const uint SCALES = PER_BLOCK;

float weight(uint word, uint j) { return float(int(word & (0x1Fu << (5 * j)))); }
float prescale(uint j) { return exp2(-5.0 * float(j)); }
float presum(uint j) { return -12.0; } // what x adds to the sum that multiplies the block's offset

float combine(uvec2 scale, uint part, float dots, float sum) { return uintBitsToFloat(scale.x) * (dots + sum); }
