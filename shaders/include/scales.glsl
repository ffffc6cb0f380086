// Scales of cache types with SCALED: an f16 for each 32 dimensions, two to a word, whole words for each slot. They lie
// behind the data of all slots, in the same buffer, whose first uvec4 of scales is `plane`. The layout is h2o/types.go's.
const uint BLOCK = 32; // dimensions that share a scale
