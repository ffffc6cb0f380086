// The cache's table: one entry for each (layer, sequence, KV head). The layout is h2o/table.go's.
//   0  offset (slots, in the layer's pool), capacity (slots), budget (slots), live (slots before this step)
//   1  recent, sinks, rule (birth | update << 4 | reduce << 8 | flags), evicted so far
//   2  pinned span [x, y) and [z, w), in positions
//   3  evicted in the last step, decay as f32 bits, seed, slack (slots above the budget that start an eviction, less one)
const uint ENTRY_QUADS = 4;
const uint BIRTH_ZERO = 0, BIRTH_POSITION = 1, BIRTH_LOW_BIT = 2;
const uint UPDATE_NONE = 0, UPDATE_ADD = 1, UPDATE_LAST = 2, UPDATE_HASH = 3;
const uint REDUCE_SUM = 0, REDUCE_MEAN = 1, REDUCE_MAX = 2;
const uint RULE_LAYER = 1 << 16;    // one score for all heads of the layer
const uint RULE_SELFLESS = 1 << 17; // what a token's own query gives it does not count
const uint RULE_LIFETIME = 1 << 18; // the score is the mean over the queries that saw the token
const uint RULE_ADMIT = 1 << 19;    // a token that leaves the recent window in this step goes only when no other may
const uint MOVE_RUN = 64; // moves that a workgroup carries out one after another

IN_UVEC4(1, Table)

struct Head {
    uint offset, capacity, budget, live;
    uint recent, sinks, rule, evicted;
    uvec4 pinned;
    float decay;
    uint seed, slack;
};

Head load_head(uint i) {
    uvec4 a = LOAD(Table, i * ENTRY_QUADS), b = LOAD(Table, i * ENTRY_QUADS + 1), c = LOAD(Table, i * ENTRY_QUADS + 3);
    return Head(a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, LOAD(Table, i * ENTRY_QUADS + 2), uintBitsToFloat(c.y), c.z, c.w);
}

// The slots in front of which all lie that a row may see: rows add their tokens behind the live ones, in their order. Rows
// that are looked at once more add none, and may see any.
uint seen_end(Head h, uint row) {
    uvec4 s = step_seq(step_row(row).y);
    return h.live + min(s.w, row - s.x + 1);
}

uint birth(uint rule) { return rule & 0xF; }
uint update(uint rule) { return rule >> 4 & 0xF; }
uint reduction(uint rule) { return rule >> 8 & 0xF; }
bool has(Head h, uint flag) { return (h.rule & flag) != 0; }

// The score a token is born with.
float born(uint rule, uint pos) {
    if (birth(rule) == BIRTH_POSITION) return float(pos);
    if (birth(rule) == BIRTH_LOW_BIT) return pos == 0 ? exp2(40.0) : float(pos & -pos);
    return 0;
}
