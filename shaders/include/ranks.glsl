// Ranks of slots: how many live tokens of the head have a lower position. They lie behind the (position, score) of all
// slots in the same buffer, two to an element, whose first one is `ranks`. A token that this step adds is not ranked yet:
// it stands behind all others, in its slot's own order.
uint rank_of(uint ranks, uint offset, uint slot, uint ranked) {
    return slot < ranked ? LOAD2(Slots, ranks + (offset + slot) / 2)[(offset + slot) % 2] : slot;
}
