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
// token, are the same for every form and workgroup size.
// Nothing is sorted: a block's peak tells which blocks are listed, and the cut is found by fixing its key, then its id, digit
// by digit. Where no token can be chosen, or a logit is no number or +inf, the token is 0xffffffff. One workgroup per wanted
// row. Twin: ref/sample.go
layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push {
    uint stride; // vec4 per row of logits
    uint groups; // workgroups of a row in sample_peaks
} push;
IN_UINT(4, Peaks)                                               // (wanted rows, blocks + groups) keys
IN_UVEC2(5, Sums)                                               // (wanted rows, blocks) whole numbers of 64 bits
layout(binding = 6) coherent buffer List { uvec2 list[]; };     // (wanted rows, 2 (VOCAB + 256) + blocks) candidates: id, key; those of a search; blocks
layout(binding = 7) writeonly buffer Tokens { uint tokens[]; }; // (wanted rows) token ids

// lavapipe ends an invocation's loops after 65,535 iterations, all together: those over candidates take many at once.
const uint AT_A_TIME = 8;
const uint SEARCHED = 16;

uint lane, crew;             // this invocation, of so many
uint top;                          // the largest key
uint least;                        // candidates have a key from here on
uint candidates, work, list_blocks; // first elements of the parts of List
uint cut, last;                    // keys above the cut stay, and of those on it ids up to the last

bool stays(uvec2 candidate) { return candidate.y > cut || (candidate.y == cut && candidate.x <= last); }

uint reduce_most(uint v) { return ~reduce_min(~v); }

// The sum of Sums.
uvec2 sum_of_blocks() {
    uvec2 sum = uvec2(0);
    for (uint b = lane; b < blocks(); b += crew) sum = wide_add(sum, LOAD2(Sums, row * blocks() + b));
    return wide_sum(sum);
}

// What candidates that stay weigh together.
uvec2 sum_of_list(uint count, float by) {
    uvec2 sum = uvec2(0);
    for (uint base = lane; base < count; base += AT_A_TIME * crew) [[unroll]] for (uint n = 0; n < AT_A_TIME; n++) {
        uint i = base + n * crew;
        uvec2 c = list[candidates + min(i, count - 1)];
        if (i < count && stays(c)) sum = wide_add(sum, weight(c.y, of_key(top), by));
    }
    return wide_sum(sum);
}

// A key from which on there are at least k tokens, and not many more unless they are equal: k blocks have such a peak.
uint bound_of_k(uint k) {
    uint need = k, found = 0, width = NONE, upto = k > 1 ? blocks() : 0;
    if (k == 1) width = 0; // the peak itself
    for (int bit = 30; bit >= 0 && k < blocks() && upto > k + k / 4 + 64; bit -= 2) {
        uint below[3] = uint[3](0, 0, 0); // blocks whose distance from the top has two bits less than 1, 2, 3
        for (uint base = lane; base < blocks(); base += 4 * crew) [[unroll]] for (uint n = 0; n < 4; n++) {
            uint b = base + n * crew, value = top - LOAD1(Peaks, row * (blocks() + push.groups) + min(b, blocks() - 1));
            bool counts = b < blocks() && value >> bit >> 2 == found >> bit >> 2;
            [[unroll]] for (uint d = 0; d < 3; d++) below[d] += counts && (value >> bit & 3) <= d ? 1 : 0;
        }
        uint digit = 0, less = 0, within = 0;
        [[unroll]] for (uint d = 0; d < 3; d++) {
            uint count = reduce_add(below[d]);
            if (digit == d) within = count;
            if (count < need) {
                digit = d + 1;
                less = count;
            }
        }
        upto = digit < 3 ? k - need + within : upto;
        need -= less;
        found |= digit << bit;
        width = (1u << bit) - 1;
    }
    uint away = found | width;
    return away > top ? LEAST : max(LEAST, top - away);
}

// Lists the blocks whose peak reaches `least`, in order, and returns their number.
uint list_tall_blocks() {
    uint count = 0;
    for (uint base = 0; base < blocks(); base += crew) {
        uint b = base + lane;
        bool tall = b < blocks() && LOAD1(Peaks, row * (blocks() + push.groups) + min(b, blocks() - 1)) >= least;
        uint before = scan_add(tall ? 1 : 0);
        if (tall) list[list_blocks + count + before] = uvec2(b, 0);
        count += reduce_add(tall ? 1u : 0u);
    }
    return count;
}

// Lists the tokens of so many listed blocks whose key reaches `least`, in order of id, and returns their number.
uint list_candidates(uint tall) {
    writes_before_reads();
    uint count = 0;
    for (uint base = 0; base < tall * BLOCK; base += crew) {
        uint i = base + lane, quad = list[list_blocks + min(i / BLOCK, tall - 1)].x * BLOCK + i % BLOCK;
        uvec4 key = keys_of(quad);
        bvec4 counts = greaterThanEqual(key, uvec4(i < tall * BLOCK ? least : NONE));
        uint own = uint(counts.x) + uint(counts.y) + uint(counts.z) + uint(counts.w), to = candidates + count + scan_add(own);
        [[unroll]] for (uint e = 0; e < 4; e++)
            if (counts[e]) list[to++] = uvec2(quad * 4 + e, key[e]);
        count += reduce_add(own);
    }
    writes_before_reads();
    return count;
}

// Moves the cut to the candidate with which the count of those that stay, or their weight at temperature 1, reaches `need`.
// Every invocation keeps the candidates that may be it in a list of its own, which shrinks with every digit.
void move_cut(uint count, uvec2 need, bool weighed) {
    uint own = 0;
    for (uint base = lane; base < count; base += SEARCHED * crew) [[unroll]] for (uint n = 0; n < SEARCHED; n++) {
        uint i = base + n * crew;
        uvec2 c = list[candidates + min(i, count - 1)];
        if (i < count && stays(c)) list[work + own++ * crew + lane] = c;
    }
    uint found[2] = uint[2](0, 0); // the distance of its key from the top, its id
    [[dont_unroll]] for (uint part = 0; part < 2; part++) {
        for (int bit = findMSB(part == 0 ? top - least : VOCAB - 1) & ~1; bit >= 0; bit -= 2) {
            uvec2 below[3] = uvec2[3](uvec2(0), uvec2(0), uvec2(0)); // weight of those whose two bits are less than 1, 2, 3
            uint kept = 0;
            for (uint base = 0; base < own; base += SEARCHED) [[unroll]] for (uint n = 0; n < SEARCHED; n++) {
                uvec2 c = list[work + min(base + n, own - 1) * crew + lane];
                uint away = top - c.y, value = part == 0 ? away : c.x;
                if (base + n < own && (part == 0 || away == found[0]) && value >> bit >> 2 == found[part] >> bit >> 2) {
                    list[work + kept++ * crew + lane] = c;
                    uvec2 w = weighed ? weight(c.y, of_key(top), LOG2E) : uvec2(1, 0);
                    [[unroll]] for (uint d = 0; d < 3; d++) below[d] = wide_add(below[d], (value >> bit & 3) <= d ? w : uvec2(0));
                }
            }
            own = kept;
            uint digit = 0;
            uvec2 less = uvec2(0);
            [[unroll]] for (uint d = 0; d < 3; d++) {
                uvec2 sum = wide_sum(below[d]);
                if (wide_less(sum, need)) {
                    digit = d + 1;
                    less = sum;
                }
            }
            need = wide_sub(need, less);
            found[part] |= digit << bit;
        }
    }
    cut = top - found[0];
    last = found[1];
}

// Moves the cut up to the lowest key of at least the least weight.
void cut_light(uint count) {
    uint low = NONE;
    for (uint base = lane; base < count; base += AT_A_TIME * crew) [[unroll]] for (uint n = 0; n < AT_A_TIME; n++) {
        uint i = base + n * crew;
        uvec2 c = list[candidates + min(i, count - 1)];
        if (i < count && stays(c) && !wide_less(weight(c.y, of_key(top), LOG2E), min_weight)) low = min(low, c.y);
    }
    low = reduce_min(low);
    if (low <= cut) return;
    cut = low;
    last = NONE;
}

// What a candidate weighs in the draw.
uvec2 drawn_weight(uint i) {
    uvec2 c = list[candidates + i];
    return stays(c) ? weight(c.y, of_key(top), scale) : uvec2(0);
}

// The first of so many candidates with which the sum of their weights passes the point. Every invocation sums a run of them.
uint pick(uint count, uvec2 point) {
    uint each = (count + crew - 1) / crew, from = min(lane * each, count), end = min(from + each, count);
    uvec2 own = uvec2(0);
    for (uint base = from; base < end; base += AT_A_TIME) [[unroll]] for (uint n = 0; n < AT_A_TIME; n++)
        own = wide_add(own, base + n < end ? drawn_weight(min(base + n, end - 1)) : uvec2(0));
    uvec2 sum = wide_scan(own);
    bool here = !wide_less(point, sum) && wide_less(point, wide_add(sum, own));
    uint found = NONE;
    for (uint base = here ? from : end; base < end; base += AT_A_TIME) [[unroll]] for (uint n = 0; n < AT_A_TIME; n++) {
        sum = wide_add(sum, base + n < end ? drawn_weight(min(base + n, end - 1)) : uvec2(0));
        if (found == NONE && wide_less(point, sum)) found = base + n;
    }
    return reduce_min(found);
}

// The block with which the sum of Sums passes the point, which then counts from its beginning.
uint pick_block(inout uvec2 point) {
    uint each = (blocks() + crew - 1) / crew, from = min(lane * each, blocks()), end = min(from + each, blocks());
    uvec2 own = uvec2(0), rest = uvec2(0);
    for (uint b = from; b < end; b++) own = wide_add(own, LOAD2(Sums, row * blocks() + b));
    uvec2 sum = wide_scan(own);
    bool here = !wide_less(point, sum) && wide_less(point, wide_add(sum, own));
    uint found = NONE;
    for (uint b = here ? from : end; b < end && found == NONE; b++) {
        uvec2 next = wide_add(sum, LOAD2(Sums, row * blocks() + b));
        if (wide_less(point, next)) {
            found = b;
            rest = wide_sub(point, sum);
        }
        sum = next;
    }
    point = uvec2(reduce_add(rest.x), reduce_add(rest.y));
    return reduce_min(found);
}

// The share of the whole that a random number is.
uvec2 share(uvec2 total, uint random) { return wide_share(total, random, uvec2(total.x >> 1 | total.y << 31, total.y >> 1)); }

// The lowest key that may stay, not far from the cut.
uint bound(uvec2 total) {
    float peak = of_key(top), low = -3.402823e38;
    if (top_k == 0 && top_p != 0) // tokens below an even share of half of what top-p gives up are not needed to reach it
        low = peak + log2(wide_float(total) * 5.684342e-14 * float(0u - top_p) * 2.328306e-10 / float(2 * VOCAB)) / LOG2E;
    if (min_weight != uvec2(0) && !(top_k > 0 && top_p != 0)) // the sum that top-p is a share of takes all k
        low = max(low, peak + log2(wide_float(min_weight) * 5.684342e-14) / LOG2E - 0.01);
    low -= 1e-6 * abs(peak);
    return max(key_of(low), top_k > 0 ? bound_of_k(top_k) : LEAST);
}

void main() {
    lane = gl_LocalInvocationID.x;
    crew = gl_WorkGroupSize.x;
    if (gl_WorkGroupID.x >= step_outs() || step_done()) return;
    begin_row(gl_WorkGroupID.x, push.stride);
    candidates = row * (2 * (VOCAB + 256) + blocks());
    work = candidates + VOCAB + 256;
    list_blocks = work + VOCAB + 256;
    top = 0;
    for (uint g = lane; g < push.groups; g += crew) top = max(top, LOAD1(Peaks, row * (blocks() + push.groups) + blocks() + g));
    top = reduce_most(top);
    if (top < LEAST || top >= BROKEN) {
        if (lane == 0) tokens[row] = NONE;
        return;
    }

    uint random = philox(seed, step_row(step_out(row)).z + 1), tall = 1;
    uvec2 total = uvec2(0), point = uvec2(0);
    if (weighs_all()) total = sum_of_blocks();
    bool cuts = top_k > 0 || top_p != 0 || min_weight != uvec2(0);
    least = LEAST;
    if (cuts) {
        least = bound(total);
        tall = list_tall_blocks();
    } else {
        point = share(total, random);
        uint block = pick_block(point);
        if (lane == 0) list[list_blocks] = uvec2(block, 0);
    }
    uint count = list_candidates(tall);
    cut = least;
    last = NONE;
    // Top-k, top-p, the draw: a loop, so that the code for a sum and for a search is there only once.
    [[dont_unroll]] for (uint part = 0; part < 3 && cuts; part++) {
        if (part == 2 && min_weight != uvec2(0)) cut_light(count);
        bool sums = part == 2 || (part == 1 && top_p != 0);
        uvec2 sum = sum_of_list(sums ? count : 0, part == 2 ? scale : LOG2E);
        if (part == 2) {
            point = share(sum, random);
            break;
        }
        uvec2 need = part == 0 ? uvec2(top_k, 0) : wide_share(top_k > 0 ? sum : total, top_p, uvec2(NONE, 0));
        if (part == 0 ? top_k > 0 && top_k < count : sums && !wide_less(sum, need)) move_cut(count, need, part == 1);
    }
    uint chosen = pick(count, point);
    if (lane == 0) tokens[row] = list[candidates + min(chosen, count - 1)].x;
}
