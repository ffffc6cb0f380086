// The keys of a row's tokens: their logits after penalties and biases.
IN_VEC4(2, Logits)  // (wanted rows, 4 stride) f32
IN_UVEC4(3, Adjust) // (wanted rows, quads, 2) uvec4: of each token how often it stands in the window, its bias

const uint SEES = 1; // flag: Adjust is looked at

// Whether penalties or biases have a say. Long loops are there twice, for either answer: lavapipe runs both sides of an if.
bool sees() { return (flags & SEES) != 0; }

// The keys of four tokens. Every step is rounded by itself (precise), so that the twin gets the same bits.
uvec4 keys_of(uint quad, uint stride, bool sees) {
    uint at = min(quad, quads() - 1);
    precise vec4 x = LOAD(Logits, row * stride + at);
    if (sees) {
        uvec4 a = LOAD(Adjust, 2 * (row * quads() + at)), b = LOAD(Adjust, 2 * (row * quads() + at) + 1), seen = uvec4(a.xz, b.xz);
        precise vec4 often = frequency * vec4(seen);
        precise vec4 penalty = often + presence;
        precise vec4 lowered = x * mix(vec4(repeat), vec4(unrepeat), greaterThan(x, vec4(0)));
        precise vec4 less = lowered - penalty;
        precise vec4 biased = mix(x, less, greaterThan(seen, uvec4(0))) + uintBitsToFloat(uvec4(a.yw, b.yw));
        x = biased;
    }
    uvec4 key = uvec4(key_of(x.x), key_of(x.y), key_of(x.z), key_of(x.w));
    return mix(uvec4(0), key, lessThan(uvec4(0, 1, 2, 3) + quad * 4, uvec4(vocab)));
}
