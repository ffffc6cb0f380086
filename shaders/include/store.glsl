// What becomes of an invocation's products acc (COLS activation rows, ROWS weight rows). Of neighbouring row lanes the rows
// are neighbours.
void store_all(uint col0, uint cols, uint group, uint row_lanes, uint row_lane) { // of `cols` activation rows in all
    uint row0 = push.first + group * ROWS * row_lanes + row_lane;
    [[unroll]] for (uint c = 0; c < COLS; c++) {
        if (col0 + c >= cols) return;
        uint base = (col0 + c) * push.y_stride + push.y_offset;
        if (EPILOGUE == 2) { // an invocation's rows 2i and 2i + 1 are gate and up of one output
            [[unroll]] for (uint r = 0; r < ROWS; r += 2)
                store_pair(base, push.first / 2 + (group * ROWS + r) / 2 * row_lanes + row_lane, acc[c * ROWS + r], acc[c * ROWS + r + 1]);
        } else {
            [[unroll]] for (uint r = 0; r < ROWS; r++) store_row(base, row0 + r * row_lanes, acc[c * ROWS + r]);
        }
    }
}
