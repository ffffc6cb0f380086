// exp(x) for x <= 0 to a few ulp. Of a built-in exp Vulkan asks for 3 + 2 |x| ulp only, and drivers take that: a probability
// of 1e-9 would be off by 40 ulp. Here exp is of |r| <= ln 2 / 2 with x = n ln 2 + r; ln 2 is in two parts, the first of which
// has few enough bits that n times it is exact.
float exp_of(float x) {
    float n = max(round(x * 1.44269504), -126.0), r = (x - n * 0.693359375) + n * 2.12194440e-4;
    return x < -87.0 ? 0.0 : exp(r) * uintBitsToFloat(uint(int(n) + 127) << 23);
}
