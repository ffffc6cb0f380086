#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "input.glsl"
#include "include/step.glsl"
#include "reduce.glsl"
#include "include/wide.glsl"
#include "include/philox.glsl"
#include "include/sampling.glsl"
// Last part of sampling: the next token of each wanted row. Of the tokens in order of falling key and rising id the first
// top-k stay, of these the fewest whose weights reach top-p of their sum, of these those of at least the least weight. Then
// the token is the first, in order of id, with which the sum of exp((x - max) / temperature) passes a share u of the whole,
// u = (philox(seed, position of the token) + 1/2) / 2^32. Weights are whole numbers, so that the sums, and with them the
// token, are the same for every form and workgroup size. Nothing is sorted: the cut is found by fixing its key, then its id,
// digit by digit. Where no token can be chosen, or a logit is no number or +inf, the token is 0xffffffff. One workgroup per
// wanted row. Twin: ref/sample.go
layout(local_size_x_id = 0) in;
// Pairs of candidates an iteration: lavapipe ends an invocation's loops after 65,535 iterations, all together. Drivers that
// unroll do so after specialising; SwiftShader does not, and compiles four times faster for it.
layout(constant_id = 1) const uint AT_A_TIME = 4;
layout(constant_id = 2) const uint SEARCHED = 8;
layout(push_constant) uniform Push {
    uint vocab;
    uint room; // uvec2 per row of List, an even number
} push;
IN_UVEC4(2, List)                                               // (wanted rows, room / 2) as sample_list writes it
layout(binding = 3) writeonly buffer Tokens { uint tokens[]; }; // (wanted rows) token ids

uint lane, crew;     // this invocation, of so many
uint top;            // the largest key
uint first;          // element of List: the first pair
uint count, couples; // candidates, pairs of them
uint cut, last;      // keys above the cut stay, and of those on it ids up to the last

// A pair of candidates; where there is none, key 0.
uvec4 pair(uint i) {
    uvec4 p = LOAD(List, first + min(i, couples - 1));
    if (2 * i + 1 >= count) p.w = 0;
    if (2 * i >= count) p.y = 0;
    return p;
}

bool stays(uvec2 candidate) { return candidate.y > cut || (candidate.y == cut && candidate.x <= last); }

// What a pair weighs, without those that do not stay.
uvec2 weight_of(uvec4 p, float by) {
    uvec2 a = weight(p.y, of_key(top), by), b = weight(p.w, of_key(top), by);
    return wide_add(stays(p.xy) ? a : uvec2(0), stays(p.zw) ? b : uvec2(0));
}

// What the candidates that stay weigh together.
uvec2 sum_of_list(float by) {
    uvec2 sum = uvec2(0);
    for (uint base = lane; base < couples; base += AT_A_TIME * crew)
        [[unroll]] for (uint n = 0; n < AT_A_TIME; n++) sum = wide_add(sum, weight_of(pair(base + n * crew), by));
    return wide_sum(sum);
}

// Moves the cut to the candidate with which the count of those that stay, or their weight at temperature 1, reaches `need`.
void move_cut(uvec2 need, bool weighed) {
    uint found[2] = uint[2](0, 0); // the distance of its key from the top; its id
    uvec2 within = uvec2(0);       // what there is of that key
    uint lowest = cut;
    bool all = false;              // of that key stay
    for (uint part = 0; part < 2; part++) {
        for (int bit = findMSB(part == 0 ? top - lowest : vocab - 1) & ~1; bit >= 0 && !all; bit -= 2) {
            uvec2 below[4] = uvec2[4](uvec2(0), uvec2(0), uvec2(0), uvec2(0)); // what there is with two bits up to 0, 1, 2, 3
            for (uint base = lane; base < couples; base += SEARCHED * crew) [[unroll]] for (uint n = 0; n < SEARCHED; n++) {
                uvec4 p = pair(base + n * crew);
                [[unroll]] for (uint side = 0; side < 2; side++) {
                    uvec2 c = side == 0 ? p.xy : p.zw, w = weighed ? weight(c.y, of_key(top), LOG2E) : uvec2(1, 0);
                    uint away = top - c.y, value = part == 0 ? away : c.x, digit = value >> bit & 3;
                    bool counts = stays(c) && (part == 0 || away == found[0]) && value >> bit >> 2 == found[part] >> bit >> 2;
                    [[unroll]] for (uint d = 0; d < 4; d++) below[d] = wide_add(below[d], counts && digit <= d ? w : uvec2(0));
                }
            }
            uint digit = 0;
            uvec2 less = uvec2(0), upto = uvec2(0);
            [[unroll]] for (uint d = 0; d < 4; d++) {
                uvec2 sum = wide_sum(below[d]);
                if (digit == d) upto = sum;
                if (d < 3 && wide_less(sum, need)) {
                    digit = d + 1;
                    less = sum;
                }
            }
            need = wide_sub(need, less);
            within = wide_sub(upto, less);
            found[part] |= digit << bit;
        }
        if (part == 0) { // where all of the key are needed, as the only one is, ids need not be looked at
            uvec2 w = weighed ? weight(top - found[0], of_key(top), LOG2E) : uvec2(1, 0);
            all = within != uvec2(0) && wide_less(wide_sub(within, w), need);
        }
    }
    cut = top - found[0];
    last = all ? NONE : found[1];
}

// Moves the cut up to the lowest key of at least the least weight.
void cut_light() {
    uint low = NONE;
    for (uint base = lane; base < couples; base += AT_A_TIME * crew) [[unroll]] for (uint n = 0; n < AT_A_TIME; n++) {
        uvec4 p = pair(base + n * crew);
        if (stays(p.xy) && !wide_less(weight(p.y, of_key(top), LOG2E), min_weight)) low = min(low, p.y);
        if (stays(p.zw) && !wide_less(weight(p.w, of_key(top), LOG2E), min_weight)) low = min(low, p.w);
    }
    low = reduce_min(low);
    if (low <= cut) return;
    cut = low;
    last = NONE;
}

// The first candidate with which the sum of the weights in the draw passes the point. Every invocation sums a run of pairs.
uint pick(uvec2 point) {
    uint each = (couples + crew - 1) / crew, from = min(lane * each, couples), end = min(from + each, couples);
    uvec2 own = uvec2(0);
    for (uint base = from; base < end; base += AT_A_TIME) [[unroll]] for (uint n = 0; n < AT_A_TIME; n++)
        own = wide_add(own, base + n < end ? weight_of(pair(base + n), scale) : uvec2(0));
    uvec2 sum = wide_scan(own);
    bool here = !wide_less(point, sum) && wide_less(point, wide_add(sum, own));
    uint begin = here ? from : end, token = NONE;
    for (bool before = true; begin < end && before;) {
        uvec2 next = sum;
        [[unroll]] for (uint n = 0; n < AT_A_TIME; n++) next = wide_add(next, begin + n < end ? weight_of(pair(begin + n), scale) : uvec2(0));
        before = !wide_less(point, next);
        if (before) {
            begin += AT_A_TIME;
            sum = next;
        }
    }
    for (uint i = begin; i < end && token == NONE; i++) {
        uvec4 p = pair(i);
        uvec2 one = wide_add(sum, stays(p.xy) ? weight(p.y, of_key(top), scale) : uvec2(0));
        sum = wide_add(sum, weight_of(p, scale));
        if (wide_less(point, sum)) token = wide_less(point, one) ? p.x : p.z;
    }
    return reduce_min(token);
}

void main() {
    lane = gl_LocalInvocationID.x;
    crew = gl_WorkGroupSize.x;
    if (gl_WorkGroupID.x >= step_outs() || step_done()) return;
    begin_row(gl_WorkGroupID.x, push.vocab);
    first = row * push.room / 2;
    uvec4 head = LOAD(List, first), more = LOAD(List, first + 1);
    first += 2;
    count = head.x;
    couples = (count + 1) / 2;
    top = head.z;
    cut = head.y;
    last = NONE;
    uvec2 point = more.xy;
    // Top-k, top-p, the draw: a loop, so that the code for a sum and for a search is there only once.
    [[dont_unroll]] for (uint part = 0; part < 3 && cuts(); part++) {
        if (part == 2 && min_weight != uvec2(0)) cut_light();
        uvec2 sum = uvec2(0);
        if (part == 2 || (part == 1 && top_p != 0)) sum = sum_of_list(part == 2 ? scale : LOG2E);
        if (part == 2) point = share(sum, philox(seed, step_row(step_out(row)).z + 1));
        uvec2 need = part == 0 ? uvec2(top_k, 0) : wide_share(top_k > 0 ? sum : more.xy, top_p, uvec2(NONE, 0));
        if (part == 0 ? top_k > 0 && top_k < count : part == 1 && top_p != 0 && !wide_less(sum, need)) move_cut(need, part == 1);
    }
    uint token = pick(point);
    if (lane == 0) tokens[row] = token;
}
