// What invocations make of the tiles of include/tile.glsl: of every column the outer product of OWN_ROWS weights and OWN_COLS
// activations is added. Rows and columns come in fours, neighbouring fours go to neighbouring invocations.
float acc[OWN_COLS * OWN_ROWS];
const uint ROWS_APART = TILE_ROWS / OWN_ROWS, COLS_APART = TILE_COLS / OWN_COLS; // of an invocation's fours, in fours

void add_tile(uint row, uint col) { // the invocation's first fours of each
    [[dont_unroll]] for (uint k = 0; k < 32; k++) {
        vec4 w[OWN_ROWS / 4];
        [[unroll]] for (uint i = 0; i < OWN_ROWS / 4; i++) w[i] = vec4(w_tile[k * (TILE_ROWS / 4) + i * ROWS_APART + row]);
        [[unroll]] for (uint j = 0; j < OWN_COLS / 4; j++) {
            vec4 x = vec4(x_tile[k * (TILE_COLS / 4) + j * COLS_APART + col]);
            [[unroll]] for (uint e = 0; e < 4; e++)
                [[unroll]] for (uint i = 0; i < OWN_ROWS; i++) acc[(j * 4 + e) * OWN_ROWS + i] += w[i / 4][i % 4] * x[e];
        }
    }
}

void multiply() {
    uint rows = OUTS == 1 ? step_outs() : step_rows(), tile0 = gl_WorkGroupID.x * TILE_ROWS, col0 = gl_WorkGroupID.y * TILE_COLS;
    if (col0 >= rows || step_done()) return;
    uint lane = gl_LocalInvocationID.x, row = lane % ROWS_APART, col = lane / ROWS_APART;
    [[unroll]] for (uint i = 0; i < OWN_COLS * OWN_ROWS; i++) acc[i] = 0;
    open_tile(col0, rows, push.blocks);
    [[dont_unroll]] for (uint block = 0; block < push.blocks; block++) {
        fill_tile(tile0, block, push.blocks);
        barrier(); // the tile is there
        add_tile(row, col);
        barrier(); // nobody needs it any more
    }
    close_tile();
    [[unroll]] for (uint c = 0; c < OWN_COLS; c++) {
        uint of = (c / 4 * COLS_APART + col) * 4 + c % 4, base = (col0 + of) * push.y_stride + push.y_offset;
        if (col0 + of >= rows) continue;
        float times = HALVES ? found[of].x : 1.0;
        [[unroll]] for (uint i = 0; i < OWN_ROWS; i += 2)
            store_tile(base, tile0 + (i / 4 * ROWS_APART + row) * 4 + i % 4, acc[c * OWN_ROWS + i] * times, acc[c * OWN_ROWS + i + 1] * times);
    }
}
