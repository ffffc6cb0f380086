// K and V as f16: eight dimensions to a uvec4. Values beyond f16 are clamped, an infinity would poison the sums.
const uint PACK = 8;       // dimensions per uvec4
const uint UNIT = 8;       // dimensions that pack() takes
const uint SHARE = 8;      // dimensions that a lane of attend_values takes of a uvec4
const bool SCALED = false; // what is unpacked is to be multiplied by its block's scale: include/scales.glsl

struct Packed { uvec4 data[UNIT / PACK]; uint scales; };

Packed pack(float v[UNIT]) {
    for (uint i = 0; i < PACK; i++) v[i] = clamp(v[i], -65504.0, 65504.0);
    return Packed(uvec4[1](uvec4(pack_half(vec2(v[0], v[1])), pack_half(vec2(v[2], v[3])), pack_half(vec2(v[4], v[5])), pack_half(vec2(v[6], v[7])))), 0);
}

float[PACK] unpack(uvec4 q) {
    vec2 a = unpackHalf2x16(q.x), b = unpackHalf2x16(q.y), c = unpackHalf2x16(q.z), d = unpackHalf2x16(q.w);
    return float[PACK](a.x, a.y, b.x, b.y, c.x, c.y, d.x, d.y);
}

float[SHARE] unpack_share(uvec4 q, uint share) { return unpack(q); }
