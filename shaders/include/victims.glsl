// Who loses their slot: the eligible tokens of lowest score, of equal scores the older position.
IN_UVEC2(2, Slots) // (slots) position, score

const uint NONE = 0xFFFFFFFFu;

Head h;
uint tokens_end;  // positions seen by the sequence
uint tokens_from; // the same before this step
uint tokens_new;  // of this step, not yet counted as live

// How many tokens are too many, of so many live ones. A step that settles evicts whatever the slack.
uint excess_of(uint live, bool settle) {
    uint above = live > h.budget ? live - h.budget : 0;
    return settle || above > h.slack ? above : 0;
}

// Scores as unsigned integers of the same order. A token that has just left the window comes last where it is admitted.
uint key(uvec2 slot) {
    uint k = slot.y ^ (0x80000000u | uint(int(slot.y) >> 31));
    return all(bvec2(has(h, RULE_ADMIT), slot.x + h.recent >= tokens_from)) ? NONE - 1 : k;
}

bool eligible(uint pos) {
    return all(bvec4(pos + h.recent < tokens_end, pos >= h.sinks, pos - h.pinned.x >= h.pinned.y - h.pinned.x, pos - h.pinned.z >= h.pinned.w - h.pinned.z));
}

// lavapipe ends the loops of an invocation after 65,535 iterations, those of all its loops together. So loops over slots
// take many in an iteration.
const uint STRIDE = 32;

// The last of so many (need >= 1) who go, in the heads of so many entries from the given one: its key and its position,
// found two bits a round. need becomes how many of those equal to it in both, one in a head at most, go. h is left as the
// last entry's.
void last_victim(inout uint need, uint entry, uint heads, out uint tie, out uint last) {
    tie = 0;
    last = 0;
    [[dont_unroll]] for (uint round = 0; round < 32; round++) {
        bool by_pos = round >= 16; // among those of equal key
        uint bit = 30 - 2 * (round % 16), fixed_bits = bit == 30 ? 0 : NONE << (bit + 2); // those that are found already
        uvec2 mask = by_pos ? uvec2(NONE, fixed_bits) : uvec2(fixed_bits, 0);
        uint below[3] = uint[3](0, 0, 0); // values whose two bits are less than 1, 2, 3
        for (uint e = 0; e < heads; e++) {
            h = load_head(entry + e);
            uint live = h.live + tokens_new;
            for (uint base = gl_LocalInvocationID.x; base < live; base += STRIDE * gl_WorkGroupSize.x) {
                [[unroll]] for (uint n = 0; n < STRIDE; n++) {
                    uint i = base + n * gl_WorkGroupSize.x;
                    uvec2 slot = LOAD2(Slots, h.offset + min(i, live - 1));
                    uint k = key(slot), digit = (by_pos ? slot.x : k) >> bit & 3;
                    bool counts = all(bvec4(i < live, eligible(slot.x), ((k ^ tie) & mask.x) == 0, ((slot.x ^ last) & mask.y) == 0));
                    [[unroll]] for (uint d = 0; d < 3; d++) below[d] += uint(all(bvec2(counts, digit <= d)));
                }
            }
        }
        uint digit = 0, less = 0;
        [[unroll]] for (uint d = 0; d < 3; d++) {
            uint count = reduce_add(below[d]);
            if (count < need) {
                digit = d + 1;
                less = count;
            }
        }
        need -= less;
        if (by_pos) last |= digit << bit;
        else tie |= digit << bit;
    }
}

// Whether a slot goes, given the key and the position of the last one that does.
bool goes(uvec2 slot, uint tie, uint last) {
    uint k = key(slot);
    return all(bvec2(eligible(slot.x), any(bvec2(k < tie, all(bvec2(k == tie, slot.x <= last))))));
}
