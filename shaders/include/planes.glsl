// Where a repacked matrix keeps its weights. A workgroup of LANES invocations owns ROWS rows for each of its
// LANES / RUN row lanes; RUN invocations share a row, each taking every RUN-th block of 32 columns. Neighbouring
// invocations read neighbouring uvec4. The layout is model/planes.go's.
struct Place {
    uint quads; // first uvec4 of the block in the weight plane; the block's next one lies `lanes` further
    uint scale; // its uvec4 in the scale plane
    uint part;  // which of the four scales there
};

Place place(uint row, uint block, uint blocks, uint lanes, uint run, uint rows, uint quads) {
    uint row_lanes = lanes / run, group = row / (rows * row_lanes), r = row / row_lanes % rows;
    uint lane = row % row_lanes * run + block % run, step = group * blocks + block / run;
    return Place((step * rows + r) * quads * lanes + lane, (step * (rows / 4) + r / 4) * lanes + lane, r % 4);
}
