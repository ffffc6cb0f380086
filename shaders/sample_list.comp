#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "input.glsl"
#include "include/step.glsl"
#include "reduce.glsl"
#include "include/wide.glsl"
#include "include/philox.glsl"
#include "include/sampling.glsl"
#include "include/keys.glsl"
// Third part of sampling: lists the candidates, in order of id: all tokens that top-k, top-p and min-p may leave, and few
// others. For top-k the k-th largest peak of the blocks is a bound that no token kept falls below; for top-p the tokens below
// an even share of what it gives up are not needed; min-p is a bound itself. So only tall blocks are looked at again. Where
// nothing is cut the random number chooses the block, whose tokens are the candidates. One workgroup per wanted row. Twin:
// ref/sample.go
layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push {
    uint stride; // vec4 per row of logits
    uint vocab;
    uint groups; // workgroups of a row in sample_peaks
    uint room;   // uvec2 per row of List
} push;
IN_UINT(4, Peaks)                                           // (wanted rows, blocks + groups) keys
IN_UVEC2(5, Sums)                                           // (wanted rows, blocks) whole numbers of 64 bits
layout(binding = 6) coherent buffer List { uvec2 list[]; }; // (wanted rows, room): their number, least; top, 0; sum or point; 0; id, key of each; blocks

const uint HEAD = 4; // elements before the candidates

uint lane, crew;   // this invocation, of so many
uint top;          // the largest key
uint least;        // candidates have a key from here on
uint first, spare; // elements of List: the row's, and those for blocks

uint peak_of(uint block) { return LOAD1(Peaks, row * (blocks() + push.groups) + block); }

// The sum of Sums.
uvec2 sum_of_blocks() {
    uvec2 sum = uvec2(0);
    for (uint b = lane; b < blocks(); b += crew) sum = wide_add(sum, LOAD2(Sums, row * blocks() + b));
    return wide_sum(sum);
}

// A key from which on there are at least k tokens, and not many more unless they are equal: k blocks have such a peak.
uint bound_of_k(uint k) {
    uint need = k, found = 0, width = NONE, upto = k > 1 ? blocks() : 0;
    if (k == 1) width = 0; // the peak itself
    for (int bit = 30; bit >= 0 && k < blocks() && upto > k + k / 4 + 64; bit -= 2) {
        uint below[3] = uint[3](0, 0, 0); // blocks whose distance from the top has two bits less than 1, 2, 3
        for (uint base = lane; base < blocks(); base += 4 * crew) [[unroll]] for (uint n = 0; n < 4; n++) {
            uint b = base + n * crew, value = top - peak_of(min(b, blocks() - 1));
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

// The lowest key that may stay, not far from the cut.
uint bound(uvec2 total) {
    float peak = of_key(top), low = -3.402823e38;
    if (top_k == 0 && top_p != 0) // tokens below an even share of half of what top-p gives up are not needed to reach it
        low = peak + log2(wide_float(total) * 5.684342e-14 * float(0u - top_p) * 2.328306e-10 / float(2 * vocab)) / LOG2E;
    if (min_weight != uvec2(0) && !(top_k > 0 && top_p != 0)) // the sum that top-p is a share of takes all k
        low = max(low, peak + log2(wide_float(min_weight) * 5.684342e-14) / LOG2E - 0.01);
    low -= 1e-6 * abs(peak);
    return max(key_of(low), top_k > 0 ? bound_of_k(top_k) : LEAST);
}

// Lists the blocks whose peak reaches `least`, in order, and returns their number.
uint list_tall_blocks() {
    uint count = 0;
    for (uint base = 0; base < blocks(); base += crew) {
        uint b = base + lane;
        bool tall = b < blocks() && peak_of(min(b, blocks() - 1)) >= least;
        uint before = scan_add(tall ? 1 : 0);
        if (tall) list[spare + count + before] = uvec2(b, 0);
        count += reduce_add(tall ? 1u : 0u);
    }
    return count;
}

// Lists the tokens of so many listed blocks whose key reaches `least`, in order of id, and returns their number.
uint list_candidates(uint tall) {
    writes_before_reads();
    uint count = 0;
    for (uint base = 0; base < tall * BLOCK; base += crew) {
        uint i = base + lane, quad = list[spare + min(i / BLOCK, tall - 1)].x * BLOCK + i % BLOCK;
        uvec4 key = keys_of(quad, push.stride, sees());
        bvec4 counts = greaterThanEqual(key, uvec4(i < tall * BLOCK ? least : NONE));
        uint own = uint(counts.x) + uint(counts.y) + uint(counts.z) + uint(counts.w), to = first + HEAD + count + scan_add(own);
        [[unroll]] for (uint e = 0; e < 4; e++)
            if (counts[e]) list[to++] = uvec2(quad * 4 + e, key[e]);
        count += reduce_add(own);
    }
    return count;
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

void main() {
    lane = gl_LocalInvocationID.x;
    crew = gl_WorkGroupSize.x;
    if (gl_WorkGroupID.x >= step_outs() || step_done()) return;
    begin_row(gl_WorkGroupID.x, push.vocab);
    first = row * push.room;
    spare = first + HEAD + vocab;
    top = 0;
    for (uint g = lane; g < push.groups; g += crew) top = max(top, peak_of(blocks() + g));
    top = ~reduce_min(~top);
    uint count = 0;
    uvec2 sum = uvec2(0);
    if (top >= LEAST && top < BROKEN) {
        uint tall = 1;
        least = LEAST;
        if (weighs_all()) sum = sum_of_blocks();
        if (cuts()) {
            least = bound(sum);
            tall = list_tall_blocks();
        } else {
            sum = share(sum, philox(seed, step_row(step_out(row)).z + 1));
            uint block = pick_block(sum);
            if (lane == 0) list[spare] = uvec2(block, 0);
        }
        count = list_candidates(tall);
    }
    if (lane > 0) return;
    list[first] = uvec2(count, least);
    list[first + 1] = uvec2(top, 0);
    list[first + 2] = sum;
}
