// K and V as q8_0, in ggml's blocks of 32 dimensions: x = d q, d = max |x| / 127 as f16, q = round(x / d). Sixteen q to a
// uvec4, in order, a signed byte each. An invocation packs two blocks, for their two scales share a word.
const uint PACK = 16;     // dimensions per uvec4
const uint UNIT = 64;     // dimensions that pack() takes
const uint SHARE = 8;     // dimensions that a lane of attend_values takes of a uvec4
const bool SCALED = true; // what is unpacked is to be multiplied by its block's scale: include/scales.glsl

struct Packed { uvec4 data[UNIT / PACK]; uint scales; };

Packed pack(float v[UNIT]) {
    Packed p;
    vec2 d;
    for (uint b = 0; b < 2; b++) {
        float most = 0;
        for (uint i = 0; i < 32; i++) most = max(most, abs(v[b * 32 + i]));
        d[b] = min(most / 127, 65504.0);             // an infinite scale would poison the sums
        float inverse = d[b] > 1e-30 ? 1 / d[b] : 0; // below it the scale is 0 as f16
        for (uint w = 0; w < 8; w++) {
            uint word = 0;
            for (uint j = 0; j < 4; j++) {
                float q = clamp(v[b * 32 + w * 4 + j] * inverse, -127.0, 127.0);
                word |= (uint(int(q + (q < 0 ? -0.5 : 0.5))) & 0xFF) << (8 * j);
            }
            p.data[b * 2 + w / 4][w % 4] = word;
        }
    }
    p.scales = pack_half(d);
    return p;
}

float[PACK] unpack(uvec4 q) {
    float v[PACK];
    for (int i = 0; i < int(PACK); i++) v[i] = float(bitfieldExtract(int(q[i / 4]), i % 4 * 8, 8));
    return v;
}

float[SHARE] unpack_share(uvec4 q, uint share) {
    uvec2 half_q = share == 0 ? q.xy : q.zw;
    float v[SHARE];
    for (int i = 0; i < int(SHARE); i++) v[i] = float(bitfieldExtract(int(half_q[i / 4]), i % 4 * 8, 8));
    return v;
}
