// K and V as f32: four dimensions to a uvec4.
const uint PACK = 4;       // dimensions per uvec4
const uint UNIT = 4;       // dimensions that pack() takes
const uint SHARE = 4;      // dimensions that a lane of attend_values takes of a uvec4
const bool SCALED = false; // what is unpacked is to be multiplied by its block's scale: include/scales.glsl

struct Packed { uvec4 data[UNIT / PACK]; uint scales; };

Packed pack(float v[UNIT]) { return Packed(uvec4[1](floatBitsToUint(vec4(v[0], v[1], v[2], v[3]))), 0); }

float[PACK] unpack(uvec4 q) {
    vec4 v = uintBitsToFloat(q);
    return float[PACK](v.x, v.y, v.z, v.w);
}

float[SHARE] unpack_share(uvec4 q, uint share) { return unpack(q); }
