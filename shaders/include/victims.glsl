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
    if (has(h, RULE_ADMIT) && slot.x + h.recent >= tokens_from) return NONE - 1;
    return (slot.y & 0x80000000u) != 0 ? ~slot.y : slot.y | 0x80000000u;
}

bool eligible(uint pos) {
    return pos + h.recent < tokens_end && pos >= h.sinks && !(pos >= h.pinned.x && pos < h.pinned.y) && !(pos >= h.pinned.z && pos < h.pinned.w);
}

// The need-th lowest (need >= 1) of the eligible keys, or of the eligible positions whose key is `tie`, in the heads of so
// many entries from the given one; two bits a pass. need becomes the rank among those equal to the result. h is left as the
// last entry's.
uint nth(inout uint need, uint entry, uint heads, bool by_pos, uint tie) {
    uint found = 0;
    for (int bit = 30; bit >= 0; bit -= 2) {
        uint below[3] = uint[3](0, 0, 0); // values whose two bits are less than 1, 2, 3
        for (uint e = 0; e < heads; e++) {
            h = load_head(entry + e);
            uint live = h.live + tokens_new;
            // Many slots an iteration: lavapipe ends an invocation's loops after 65,535 iterations, nested ones together.
            for (uint base = gl_LocalInvocationID.x; base < live; base += 16 * gl_WorkGroupSize.x) {
                [[unroll]] for (uint n = 0; n < 16; n++) {
                    uint i = base + n * gl_WorkGroupSize.x;
                    uvec2 slot = LOAD2(Slots, h.offset + min(i, live - 1));
                    uint value = by_pos ? slot.x : key(slot);
                    bool counts = i < live && eligible(slot.x) && (!by_pos || key(slot) == tie) && (bit == 30 || value >> (bit + 2) == found >> (bit + 2));
                    uint digit = value >> bit & 3;
                    [[unroll]] for (uint d = 0; d < 3; d++) below[d] += counts && digit <= d ? 1 : 0;
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
        found |= digit << bit;
    }
    return found;
}

// Whether a slot goes, given the key and the position of the last one that does.
bool goes(uvec2 slot, uint tie, uint last) {
    uint k = key(slot);
    return eligible(slot.x) && (k < tie || (k == tie && slot.x <= last));
}
