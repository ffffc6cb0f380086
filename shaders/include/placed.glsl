// Keys that are rotated where they are read, to their place among the live tokens of their head. The kernel that includes it
// has the constant ROPE_DIM, `ranks` among its push constants, and the inputs Slots and Rope.
#include "include/ranks.glsl"

// The place of slot number `slot` of a head whose first slot is `offset`, and of whose slots so many have ranks.
uint place_of(uint slot, uint offset, uint ranked) {
    return push.ranks == 0xFFFFFFFFu ? slot : rank_of(push.ranks, offset, slot, ranked); // or slots lie in order of position
}

// A quad of such a key.
vec4 turned(vec4 k, uint place, uint quad) {
    const uint pairs = ROPE_DIM / 2;
    vec2 a = LOAD2(Rope, place * pairs + min(2 * quad, pairs - 1)), b = LOAD2(Rope, place * pairs + min(2 * quad + 1, pairs - 1));
    a = 2 * quad < pairs ? a : vec2(1, 0);
    b = 2 * quad + 1 < pairs ? b : vec2(1, 0);
    return vec4(k.x * a.x - k.y * a.y, k.y * a.x + k.x * a.y, k.z * b.x - k.w * b.y, k.w * b.x + k.z * b.y);
}
