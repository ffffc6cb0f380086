// What rows of a step make of a slot's score, once what they gave it is summed; see score.comp.
#include "include/mixed.glsl"

const uint MAY_LAYER = 1, MAY_HASH = 2, MAY_LIFETIME = 4; // bits of MAY: what rules may ask for; lavapipe runs all code that is there

// Of a slot (position, score): what is given came from the row at position `from` and those up to position now - 1, which
// leave the part `keep` of the old score. The head is KV head `number` of the model.
float scored(Head h, uint may, uint number, uvec2 slot, float given, float keep, uint from, uint now) {
    float score = given;
    if ((may & MAY_HASH) != 0 && update(h.rule) == UPDATE_HASH) score = float(mixed(slot.x ^ mixed(now ^ mixed(number ^ mixed(h.seed)))) >> 8) * exp2(-24.0);
    if (update(h.rule) == UPDATE_ADD) {
        float before = uintBitsToFloat(slot.y) * keep;
        if ((may & MAY_LIFETIME) != 0 && has(h, RULE_LIFETIME)) {
            float seen = float(max(now - slot.x, 1u)), earlier = float(max(int(from) - int(slot.x), 0));
            score = (before * earlier + given) / seen;
        } else score += before;
    }
    return score;
}
