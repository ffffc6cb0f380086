// x / (1 + e^-x)
float silu(float v) { return v / (1.0 + exp(-v)); }
