// What becomes of a product p of a weight row. The kernel that includes it has the constants EPILOGUE and BIASED, `count`
// among its push constants, the inputs Bias and Res and the output y, and includes silu.glsl.

// Of row `row`, in the row of y and Res that begins at `base`.
void store_row(uint base, uint row, float p) {
    if (row < push.count) {
        if (BIASED == 1) p += LOAD1(Bias, row);
        if (EPILOGUE == 1) p += LOAD1(Res, base + row);
        if (EPILOGUE == 3) p = silu(p) * LOAD1(Res, base + row);
        y[base + row] = p;
    }
}

// Of gate and up of output o, which are rows beside each other; Bias has those of all gates first.
void store_pair(uint base, uint o, float gate, float up) {
    if (o < push.count / 2) {
        if (BIASED == 1) {
            gate += LOAD1(Bias, o);
            up += LOAD1(Bias, push.count / 2 + o);
        }
        y[base + o] = silu(gate) * up;
    }
}
