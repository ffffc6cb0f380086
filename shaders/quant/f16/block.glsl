// F16: 32 weights as f16, two to a word. No scales.
const uint WORDS = 16;   // of weights per block
const uint PER_WORD = 2; // weights per word
const uint PARTS = 1;    // of a block, with a scale each
const uint SCALES = NONE;

float weight(uint word, uint j) { return unpackHalf2x16(word)[j]; }
float prescale(uint j) { return 1.0; }
float presum(uint j) { return 0.0; }
float combine(uvec2 scale, uint part, float dots, float sum) { return dots; }
