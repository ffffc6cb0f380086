// F32: 32 weights as they are. No scales.
const uint WORDS = 32;   // of weights per block
const uint PER_WORD = 1; // weights per word
const uint PARTS = 1;    // of a block, with a scale each
const uint SCALES = NONE;

float weight(uint word, uint j) { return uintBitsToFloat(word); }
float prescale(uint j) { return 1.0; }
float presum(uint j) { return 0.0; }
float combine(uvec2 scale, uint part, float dots, float sum) { return dots; }
