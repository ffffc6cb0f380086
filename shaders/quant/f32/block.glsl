// F32: 32 weights as they are. No scales.
const uint QUADS = 8;    // uvec4 of weights per block
const uint PER_WORD = 1; // weights per 32-bit word
const bool SCALED = false; // there is no scale plane

float weight(uint word, uint j) { return uintBitsToFloat(word); }
float prescale(uint j) { return 1.0; }
float presum(uint j) { return 0.0; }
float combine(uint scale, float dots, float sum) { return dots; }
