// The settings of a sampler for a row, and the weights of its tokens. Logits are compared as integers of the same order, their
// keys. runtime/sampling.go writes the settings and holds their layout once more; the kernels' tests use it.
IN_UVEC4(1, Settings) // (wanted rows, 4) uvec4

const uint NONE = 0xFFFFFFFFu;
const uint BLOCK = 8;            // quads that one invocation looks at: they share a peak and a sum
const uint BROKEN = 0xFF800000u; // keys from here on are infinite or no numbers
const uint LEAST = 0x00800000u;  // keys below are -inf, or beyond the vocabulary: never chosen
const float LOG2E = 1.44269504;

uint row, vocab;                    // the row; tokens
uint flags, top_k, top_p;           // 0: off; a fraction of 2^32, 0: off
uvec2 min_weight, seed;             // of a token that is kept, at temperature 1; 0: off
float scale;                        // log2(e) / temperature
float repeat, unrepeat, presence, frequency;

uint quads() { return (vocab + 3) / 4; }
uint blocks() { return (quads() + BLOCK - 1) / BLOCK; }

void begin_row(uint r, uint tokens) {
    row = r;
    vocab = tokens;
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

// Whether something is left out.
bool cuts() { return top_k > 0 || top_p != 0 || min_weight != uvec2(0); }

// Whether the weight of all tokens must be known: for top-p unless top-k comes first, and where nothing is cut.
bool weighs_all() { return top_k == 0 && (top_p != 0 || min_weight == uvec2(0)); }

// Floats as unsigned integers of the same order; -0 is 0. What is no number comes first, so that nobody overlooks it.
uint key_of(float x) {
    uint bits = floatBitsToUint(x), key = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
    return (bits & 0x7FFFFFFFu) > 0x7F800000u ? NONE : bits == 0x80000000u ? 0x80000000u : key;
}

float of_key(uint key) { return uintBitsToFloat((key & 0x80000000u) != 0 ? key & 0x7FFFFFFFu : ~key); }

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

// The point of a sum that a random number is the share of.
uvec2 share(uvec2 sum, uint random) { return wide_share(sum, random, uvec2(sum.x >> 1 | sum.y << 31, sum.y >> 1)); }
