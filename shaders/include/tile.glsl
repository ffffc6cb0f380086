// A tile of a product with many activation rows: a workgroup goes along the columns, a block of 32 at a time, and unpacks
// the weights of TILE_ROWS rows and the activations of TILE_COLS rows once for all its invocations. The kernel that includes
// it has the constants, push constants, inputs and outputs that are named here, TILE_COLS being a divisor of the workgroup's
// size, and says where a tile lies in shared memory and whether it holds f16 (HALVES).
//
// Where the tile holds f16, the activations of a row are divided by the power of two above the largest of them: no f16
// overflows then, and what is lost of the small ones is small beside the large ones.
void put_weight(uint i, float v);     // element i of (32 columns, TILE_ROWS)
void put_activation(uint i, float v); // element i of (32 columns, TILE_COLS)

shared vec2 found[256]; // of each invocation, before and after the tiles

uint mine, from; // the invocation's column of x_tile, and the first vec4 of that activation row
float factor;    // of its elements: the norm, and where the tile holds f16 the power of two
float undo;      // of the products: that power again

// Row of the planes that is row i of the tiles: the rows of a group in an order in which gate and up are neighbours.
uint row_of(uint i) {
    uint row_lanes = PLANE_LANES / RUN, pairs = ROWS / 2 * row_lanes, pair = i / 2 % pairs;
    return i / 2 / pairs * ROWS * row_lanes + (pair / row_lanes * 2 + i % 2) * row_lanes + pair % row_lanes;
}

// The workgroup begins: which activation row an invocation reads, and what its elements are multiplied by.
void open_tile(uint col0, uint rows, uint blocks) {
    uint lane = gl_LocalInvocationID.x, parts = gl_WorkGroupSize.x / TILE_COLS, part = lane / TILE_COLS;
    mine = lane % TILE_COLS;
    uint col = min(col0 + mine, rows - 1); // a tile's columns past the rows repeat the last one: nothing lies behind it
    from = (NORMED > 0 && OUTS == 1 ? step_out(col) : col) * push.x_stride + push.x_offset;
    factor = undo = 1;
    if (NORMED == 0 && !HALVES) return;
    float squares = 0, most = 0;
    for (uint k = part; k < blocks * 8; k += parts) {
        vec4 v = LOAD(X, from + k), n = abs(NORMED > 0 ? v * LOAD(Norm, k) : v);
        squares += dot(v, v);
        most = max(most, max(max(n.x, n.y), max(n.z, n.w)));
    }
    found[lane] = vec2(squares, most);
    barrier(); // every part of a row is there
    squares = 0;
    for (uint p = 0; p < parts; p++) {
        squares += found[p * TILE_COLS + mine].x;
        most = max(most, found[p * TILE_COLS + mine].y);
    }
    if (NORMED > 0) factor = inversesqrt(squares / float(NORMED) + push.eps);
    if (HALVES) {
        int up;
        frexp(most * factor, up);
        undo = ldexp(1.0, clamp(up, -100, 100));
        factor /= undo;
    }
}

// Block `block` of all rows of the tile, which are rows tile0 and on of the slice.
void fill_tile(uint tile0, uint block, uint blocks) {
    uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
    for (uint i = lane; i < TILE_ROWS * 4; i += lanes) { // neighbours write to neighbouring banks
        uint r = i % TILE_ROWS, k = i / TILE_ROWS * 8, row = min(row_of(tile0 + r), push.height - 1);
        float v[EIGHT] = weights_of(place(row, block, blocks, PLANE_LANES, RUN, ROWS, WORDS, SCALES), block, k, PLANE_LANES, RUN);
        [[unroll]] for (uint e = 0; e < EIGHT; e++) put_weight((k + e) * TILE_ROWS + r, v[e]);
    }
    for (uint i = lane; i < TILE_COLS * 8; i += lanes) {
        uint k = i / TILE_COLS;
        vec4 v = LOAD(X, from + block * 8 + k) * factor;
        if (NORMED > 0) v *= LOAD(Norm, block * 8 + k);
        [[unroll]] for (uint e = 0; e < 4; e++) put_activation((k * 4 + e) * TILE_COLS + mine, v[e]);
    }
}

// What the products with each activation row of the tile are multiplied by lies in `found` behind this.
void close_tile() {
    if (!HALVES) return;
    found[mine].x = undo; // the same from every invocation of the row
    barrier();            // all are there
}

// Products of rows `row`, an even one, and row + 1 of the tiles, in the row of y and Res that begins at `base`.
void store_tile(uint base, uint row, float p, float next) {
    if (row_of(row) >= push.height) return;
    if (EPILOGUE == 2) {
        store_pair(base, (push.first + row) / 2, p, next);
    } else {
        store_row(base, push.first + row_of(row), p);
        store_row(base, push.first + row_of(row + 1), next);
    }
}
