// The first word of Philox4x32-10 (Salmon et al., SC 2011) for a key and the counter (index, 0, 0, 0).
uint philox(uvec2 key, uint index) {
    uvec4 c = uvec4(index, 0, 0, 0);
    for (uint round = 0; round < 10; round++) {
        uint high0, low0, high1, low1;
        umulExtended(0xD2511F53u, c.x, high0, low0);
        umulExtended(0xCD9E8D57u, c.z, high1, low1);
        c = uvec4(high1 ^ c.y ^ key.x, low1, high0 ^ c.w ^ key.y, low0);
        key += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return c.x;
}
