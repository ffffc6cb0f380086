// K and V as f32: four dimensions to a uvec4.
const uint PACK = 4; // dimensions per uvec4

uvec4 pack(float v[PACK]) { return floatBitsToUint(vec4(v[0], v[1], v[2], v[3])); }

float[PACK] unpack(uvec4 q) {
    vec4 v = uintBitsToFloat(q);
    return float[PACK](v.x, v.y, v.z, v.w);
}
