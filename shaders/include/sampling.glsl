// What a sampler sees of a row of logits: the settings, the logits after penalties and biases as integers of the same order,
// and their weights. runtime/sampling.go writes the settings and holds their layout once more; the kernels' tests use it.
layout(constant_id = 1) const uint VOCAB = 64; // logits per row
IN_VEC4(1, Logits)    // (wanted rows, 4 stride) f32
IN_UVEC4(2, Settings) // (wanted rows, 4) uvec4
IN_UVEC4(3, Adjust)   // (wanted rows, quads, 2) uvec4: of each token how often it was seen, its bias

const uint SEES = 1; // flag: Adjust is looked at

const uint NONE = 0xFFFFFFFFu;
const uint BLOCK = 8;          // quads that one invocation looks at: they share a peak and a sum
const uint BROKEN = 0xFF800000u; // keys from here on are infinite or no numbers
const uint LEAST = 0x00800000u;  // keys below are -inf, or beyond the vocabulary: never chosen
const float LOG2E = 1.44269504;

uint row, logits_from, adjust_from; // this row and its first quads
uint flags, top_k, top_p;           // 0: off; a fraction of 2^32, 0: off
uvec2 min_weight, seed;             // of a token that is kept, at temperature 1; 0: off
float scale;                        // log2(e) / temperature
float repeat, unrepeat, presence, frequency;

uint quads() { return (VOCAB + 3) / 4; }
uint blocks() { return (quads() + BLOCK - 1) / BLOCK; }

void begin_row(uint r, uint stride) {
    row = r;
    logits_from = r * stride;
    adjust_from = r * quads() * 2;
    uvec4 s = LOAD(Settings, r * 4), t = LOAD(Settings, r * 4 + 1), u = LOAD(Settings, r * 4 + 2), v = LOAD(Settings, r * 4 + 3);
    flags = s.x;
    top_k = s.y;
    top_p = s.z;
    min_weight = t.xy;
    seed = t.zw;
    scale = uintBitsToFloat(u.x);
    repeat = uintBitsToFloat(u.y);
    unrepeat = uintBitsToFloat(u.z);
    presence = uintBitsToFloat(u.w);
    frequency = uintBitsToFloat(v.x);
}

// Whether the weight of all tokens must be known: for top-p unless top-k comes first, and where nothing is cut.
bool weighs_all() { return top_k == 0 && (top_p != 0 || min_weight == uvec2(0)); }

// Floats as unsigned integers of the same order; -0 is 0. What is no number comes first, so that nobody overlooks it.
uint key_of(float x) {
    uint bits = floatBitsToUint(x), key = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
    return (bits & 0x7FFFFFFFu) > 0x7F800000u ? NONE : bits == 0x80000000u ? 0x80000000u : key;
}

float of_key(uint key) { return uintBitsToFloat((key & 0x80000000u) != 0 ? key & 0x7FFFFFFFu : ~key); }

// The keys of four tokens. Every step is rounded by itself (precise), so that the twin gets the same bits.
uvec4 keys_of(uint quad) {
    uint at = min(quad, quads() - 1);
    precise vec4 x = LOAD(Logits, logits_from + at);
    for (uint once = flags & SEES; once > 0; once--) { // a loop, for lavapipe runs the body of an if whatever its condition
        uvec4 a = LOAD(Adjust, adjust_from + 2 * at), b = LOAD(Adjust, adjust_from + 2 * at + 1), seen = uvec4(a.xz, b.xz);
        precise vec4 often = frequency * vec4(seen);
        precise vec4 penalty = often + presence;
        precise vec4 lowered = x * mix(vec4(repeat), vec4(unrepeat), greaterThan(x, vec4(0)));
        precise vec4 less = lowered - penalty;
        precise vec4 biased = mix(x, less, greaterThan(seen, uvec4(0))) + uintBitsToFloat(uvec4(a.yw, b.yw));
        x = biased;
    }
    uvec4 key = uvec4(key_of(x.x), key_of(x.y), key_of(x.z), key_of(x.w));
    return mix(uvec4(0), key, lessThan(uvec4(0, 1, 2, 3) + quad * 4, uvec4(VOCAB)));
}

// exp((x - peak) / temperature) in units of 2^-44, by scale = log2(e) / temperature: 2^n times a polynomial of g, |g| <= 1/2,
// which is off by 5e-9. Drivers have exponentials of their own; this one gives the same bits on all of them.
uvec2 weight(uint key, float peak, float scale) {
    precise float z = of_key(max(key, LEAST)) - peak;
    precise float y = max(z * scale, -100.0);
    precise float n = floor(y + 0.5);
    precise float g = y - n;
    precise float p = 0.0001545316294 * g + 0.001339086336;
    p = p * g + 0.009618082557;
    p = p * g + 0.05550357114;
    p = p * g + 0.2402265076;
    p = p * g + 0.693147188;
    p = p * g + 1.0;
    precise float scaled = p * 16777216.0;
    uint m = uint(scaled);
    int shift = 20 + int(n);
    uint left = uint(clamp(shift, 0, 31)), right = uint(clamp(-shift, 0, 31));
    return uvec2(m << left >> right, m >> 1 >> (31 - left)); // left or right is 0
}
