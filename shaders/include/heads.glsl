// The cache's table: one entry for each (layer, sequence, KV head). The layout is h2o/table.go's.
//   0  offset (slots, in the layer's pool), capacity (slots), budget (slots), live (slots before this step)
//   1  recent, sinks, birth | update << 8, evicted so far
//   2  pinned span [x, y) and [z, w), in positions
//   3  evicted in the last step, -, -, -
const uint HEAD_QUADS = 4;
const uint BIRTH_ZERO = 0, BIRTH_POSITION = 1;
const uint UPDATE_NONE = 0, UPDATE_ADD = 1;

IN_UVEC4(1, Table)

struct Head {
    uint offset, capacity, budget, live;
    uint recent, sinks, birth, update, evicted;
    uvec4 pinned;
};

Head load_head(uint i) {
    uvec4 a = LOAD(Table, i * HEAD_QUADS), b = LOAD(Table, i * HEAD_QUADS + 1);
    return Head(a.x, a.y, a.z, a.w, b.x, b.y, b.z & 0xFF, b.z >> 8 & 0xFF, b.w, LOAD(Table, i * HEAD_QUADS + 2));
}
