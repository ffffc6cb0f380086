// K and V as q4_0, in ggml's blocks of 32 dimensions: x = d (q - 8), d = -x / 8 of the x furthest from 0 as f16, so that
// it is met exactly, q = floor(x / d + 8.5) from 0 to 15. A uvec4 is a block: q - 8 in order, four signed bits each. An
// invocation packs two blocks, for their two scales share a word.
const uint PACK = 32;     // dimensions per uvec4
const uint UNIT = 64;     // dimensions that pack() takes
const uint SHARE = 8;     // dimensions that a lane of attend_values takes of a uvec4
const bool SCALED = true; // what is unpacked is to be multiplied by its block's scale: include/scales.glsl

struct Packed { uvec4 data[UNIT / PACK]; uint scales; };

Packed pack(float v[UNIT]) {
    Packed p;
    vec2 d;
    for (uint b = 0; b < 2; b++) {
        float furthest = 0;
        for (uint i = 0; i < 32; i++)
            if (abs(v[b * 32 + i]) > abs(furthest)) furthest = v[b * 32 + i];
        d[b] = clamp(furthest / -8, -65504.0, 65504.0);   // an infinite scale would poison the sums
        float inverse = abs(d[b]) > 1e-30 ? 1 / d[b] : 0; // below it the scale is 0 as f16
        for (uint w = 0; w < 4; w++) {
            uint word = 0;
            for (uint j = 0; j < 8; j++)
                word |= ((uint(int(clamp(v[b * 32 + w * 8 + j] * inverse + 8.5, 0.0, 15.0))) - 8) & 15) << (4 * j);
            p.data[b][w] = word;
        }
    }
    p.scales = pack_half(d);
    return p;
}

float[PACK] unpack(uvec4 q) {
    float v[PACK];
    for (int i = 0; i < int(PACK); i++) v[i] = float(bitfieldExtract(int(q[i / 8]), i % 8 * 4, 4));
    return v;
}

float[SHARE] unpack_share(uvec4 q, uint share) {
    int word = int(q[share]);
    float v[SHARE];
    for (int i = 0; i < int(SHARE); i++) v[i] = float(bitfieldExtract(word, i * 4, 4));
    return v;
}
