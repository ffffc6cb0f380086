// IQ4_NL: 32 weights w = d v(q), q in 0..15, eight to a word; v = -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38,
// 53, 69, 89, 113. The polynomial is nowhere further than 0.44 from v, so that rounding gives it exactly; a table would be
// read lane by lane. Scale word: d as f32.
const uint WORDS = 4;    // of weights per block
const uint PER_WORD = 8; // weights per word
const uint PARTS = 1;    // of a block, with a scale each
const uint SCALES = PER_BLOCK;

float weight(uint word, uint j) {
    float q = float(int(word >> (4 * j) & 0xF));
    return roundEven(-126.56701 + q * (24.1738303 + q * (-1.37192704 + q * (0.0310864393 + q * 0.00158604282))));
}
float prescale(uint j) { return 1.0; }
float presum(uint j) { return 0.0; }
float combine(uvec2 scale, uint part, float dots, float sum) { return uintBitsToFloat(scale.x) * dots; }
