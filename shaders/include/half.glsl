// The nearest f16 of each, ties to even; x is the low half of the word. Vulkan leaves it to the driver which way
// packHalf2x16 rounds, and some cut off, among them AMD's instruction for it: so what is packed here is an f16 already.
uint pack_half(vec2 v) {
    uvec2 bits = floatBitsToUint(v);
    vec2 nearest = uintBitsToFloat((bits + 0xFFF + (bits >> 13 & 1)) & ~0x1FFF); // 13 bits of the 23 have no place
    precise vec2 small = (abs(v) + 0.5) - 0.5;                                   // below 2^-14 f16 is in steps of 2^-24, as f32 is above 0.5
    vec2 signed_small = uintBitsToFloat(floatBitsToUint(small) | bits & 0x80000000u); // -0 stays -0
    return packHalf2x16(mix(nearest, signed_small, lessThan(abs(v), vec2(exp2(-14.0)))));
}
