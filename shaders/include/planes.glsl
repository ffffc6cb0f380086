// Where a repacked matrix keeps its weights. A workgroup of LANES invocations owns ROWS rows for each of its
// LANES / RUN row lanes; RUN invocations share a row, each taking every RUN-th block of 32 columns. Neighbouring
// invocations read neighbouring uvec4. Four rows of an invocation lie together in both planes: of weights one row after
// the other where a block has whole uvec4, else a uvec4 for each word of the block; of scales a word of each row.
// The layout is model/planes.go's.
const uint NONE = 0, PER_BLOCK = 1, PER_SUPER = 2; // forms of the scale plane

// PER_SUPER: a record for four rows of a super-block of eight blocks. The first uvec4 has the super-block's own scales,
// the others those of two blocks each, 16 bits a block; the lanes that share a row share the record.
const uint SUPER = 8, RECORD = 5;

struct Place {
    uint weights; // first uvec4 of the four rows' block in the weight plane; the next one lies `lanes` further
    uint scales;  // their uvec4 or record in the scale plane
    uint part;    // which of the four rows
};

Place place(uint row, uint block, uint blocks, uint lanes, uint run, uint rows, uint words, uint form) {
    uint row_lanes = lanes / run, group = row / (rows * row_lanes), r = row / row_lanes % rows;
    uint lane = row % row_lanes * run + block % run, four = (group * (blocks / run) + block / run) * (rows / 4) + r / 4;
    uint scales = four * lanes + lane;
    if (form == PER_SUPER)
        scales = ((group * ((blocks + SUPER - 1) / SUPER) + block / SUPER) * (rows / 4) + r / 4) * RECORD * row_lanes + row % row_lanes;
    return Place(four * words * lanes + lane, scales, r % 4);
}
