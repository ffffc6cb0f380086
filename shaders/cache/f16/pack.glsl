// K and V as f16: eight dimensions to a uvec4. Values beyond f16 are clamped, an infinity would poison the sums.
const uint PACK = 8; // dimensions per uvec4

uvec4 pack(float v[PACK]) {
    for (uint i = 0; i < PACK; i++) v[i] = clamp(v[i], -65504.0, 65504.0);
    return uvec4(packHalf2x16(vec2(v[0], v[1])), packHalf2x16(vec2(v[2], v[3])), packHalf2x16(vec2(v[4], v[5])), packHalf2x16(vec2(v[6], v[7])));
}

float[PACK] unpack(uvec4 q) {
    vec2 a = unpackHalf2x16(q.x), b = unpackHalf2x16(q.y), c = unpackHalf2x16(q.z), d = unpackHalf2x16(q.w);
    return float[PACK](a.x, a.y, b.x, b.y, c.x, c.y, d.x, d.y);
}
