// K and V as the cache holds them (cache/<type>/pack.glsl), for kernels that read both at once, of types that may differ. A
// type is a specialisation constant: the power of two of the quads, runs of four dimensions, that a uvec4 holds.
const uint TYPE_F32 = 0, TYPE_F16 = 1, TYPE_Q8_0 = 2, TYPE_Q4_0 = 3; // h2o/types.go has them, too

bool has_scales(uint type) { return type >= TYPE_Q8_0; }

// A quad of a uvec4; of types with scales it is to be multiplied by its block's.
vec4 quad_of(uint type, uvec4 packed, uint quad) {
    if (type == TYPE_F32) return uintBitsToFloat(packed);
    if (type == TYPE_F16) return vec4(unpackHalf2x16(packed[quad % 2 * 2]), unpackHalf2x16(packed[quad % 2 * 2 + 1]));
    if (type == TYPE_Q8_0) return vec4(ivec4(int(packed[quad % 4])) << ivec4(24, 16, 8, 0) >> 24);
    return vec4(ivec4(int(packed[quad / 2 % 4])) << (ivec4(28, 24, 20, 16) - int(quad % 2) * 16) >> 28);
}

// Scales are f16, one for each block of eight quads, two to a word and whole words to a slot; they lie behind the uvec4 of
// all slots. This is the word of a slot's block, of heads of so many quads, and the scale in the uvec4 that has the word.
uint scale_word(uint slot, uint quads, uint block) { return slot * ((quads + 15) / 16) + block / 2; }
float scale_of(uvec4 words, uint word, uint block) { return unpackHalf2x16(words[word % 4])[block % 2]; }
