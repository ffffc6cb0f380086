// Whole numbers of 64 bits as (low, high), and their sums over the workgroup. A sum of whole numbers is the same in any
// order and on any device, which one of floats is not.
uvec2 wide_add(uvec2 a, uvec2 b) {
    uint low = a.x + b.x;
    return uvec2(low, a.y + b.y + (low < a.x ? 1 : 0));
}

uvec2 wide_sub(uvec2 a, uvec2 b) { return uvec2(a.x - b.x, a.y - b.y - (a.x < b.x ? 1 : 0)); }

bool wide_less(uvec2 a, uvec2 b) { return a.y < b.y || (a.y == b.y && a.x < b.x); }

float wide_float(uvec2 a) { return float(a.y) * 4294967296.0 + float(a.x); }

// (a * factor + plus) / 2^32
uvec2 wide_share(uvec2 a, uint factor, uvec2 plus) {
    uint high, low, high_of_low, low_of_low;
    umulExtended(a.y, factor, high, low);
    umulExtended(a.x, factor, high_of_low, low_of_low);
    uvec2 below = wide_add(uvec2(low_of_low, high_of_low), plus);
    return wide_add(uvec2(low, high), uvec2(below.y, wide_less(below, plus) ? 1 : 0));
}

// Over a workgroup digits of 24 bits are summed: 256 of them fit into 32 bits.
uvec3 wide_digits(uvec2 a) { return uvec3(a.x & 0xFFFFFFu, a.x >> 24 | (a.y & 0xFFFFu) << 8, a.y >> 16); }
uvec2 wide_of(uvec3 d) { return wide_add(wide_add(uvec2(d.x, 0), uvec2(d.y << 24, d.y >> 8)), uvec2(0, d.z << 16)); }

uvec2 wide_sum(uvec2 a) {
    uvec3 d = wide_digits(a);
    return wide_of(uvec3(reduce_add(d.x), reduce_add(d.y), reduce_add(d.z)));
}

// The sum over the invocations before this one.
uvec2 wide_scan(uvec2 a) {
    uvec3 d = wide_digits(a);
    return wide_of(uvec3(scan_add(d.x), scan_add(d.y), scan_add(d.z)));
}
