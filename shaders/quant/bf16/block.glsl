// BF16: 32 weights as the upper halves of f32, two to a word. No scales.
const uint QUADS = 4;    // uvec4 of weights per block
const uint PER_WORD = 2; // weights per 32-bit word
const bool SCALED = false; // there is no scale plane

float weight(uint word, uint j) { return uintBitsToFloat(j == 0 ? word << 16 : word & 0xFFFF0000u); }
float prescale(uint j) { return 1.0; }
float presum(uint j) { return 0.0; }
float combine(uint scale, float dots, float sum) { return dots; }
